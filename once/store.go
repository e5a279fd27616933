package once

import (
	"context"
	"errors"
	"time"
)

// ID identifies a record.
type ID struct {
	Caller string // who was authenticated
	Method string // "Service.Method", not an alias
	Key    string
}

// Request is a call with a key, as a [Store] sees it.
type Request struct {
	ID

	Fingerprint string // equal for equal requests
	Alone       bool   // the client makes every attempt at this instance
	Again       bool   // an earlier attempt may have run
}

// State is the state of a record.
type State uint8

// The states.
const (
	StateRunning   State = iota // a method runs for it
	StateDone                   // it has run
	StateUndecided              // its method was interrupted: nothing knows how far it came
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case StateRunning:
		return "running"
	case StateDone:
		return "done"
	}
	return "undecided"
}

// Record is what a [Store] keeps of a call.
type Record struct {
	ID

	Fingerprint string
	State       State
	Answer      []byte    // as [Claim] Finish was given it; nil if an operator has resolved the record
	Since       time.Time // when the record entered the state, as far as the store knows
}

// Store keeps the records of calls with a key. It is safe for concurrent use. Package oncetest
// checks implementations.
type Store interface {
	// Begin claims the record of a call. If there was none, it makes one that is StateRunning, and
	// returns a claim: its holder runs the method. Otherwise it returns the record and a nil claim. A
	// store with transactions may wait for another holder instead, as long as ctx.
	Begin(ctx context.Context, r Request) (Claim, Record, error)

	// Undecided returns the records that are StateUndecided, at most limit, the oldest first.
	Undecided(ctx context.Context, limit int) ([]Record, error)

	// Resolve settles a record that is StateUndecided: an operator has found out whether its method ran. If
	// it ran, the record is StateDone, without an answer; if not, the record is removed. The error is
	// [ErrNotUndecided] for other records.
	Resolve(ctx context.Context, id ID, ran bool) error
}

// Claim is the right to run a method for a record. The holder calls Finish or Release, once.
type Claim interface {
	// Finish makes the record StateDone, with the answer. It fails with [ErrFenced] if the record is no
	// longer the claim's.
	Finish(ctx context.Context, answer []byte) error
	// Release removes the record: nothing was done for the call.
	Release(ctx context.Context) error
}

// Leased is a [Claim] that its holder renews: a record whose lease has ended is StateUndecided.
type Leased interface {
	Claim
	Lease() time.Duration
	Renew(ctx context.Context) error
	Token() uint64 // see the function Token
}

// Transaction is a [Claim] whose Finish commits what the method did, and whose Release undoes it.
type Transaction interface {
	Claim
	// Context returns the method's context, in which it finds the transaction.
	Context(ctx context.Context) context.Context
}

// ErrFenced is the error of a claim whose record has been resolved or claimed by others.
var ErrFenced = errors.New("the record is no longer this claim's: it was resolved meanwhile")

// ErrNotUndecided is the error of Resolve for a record that is not StateUndecided, or does not exist.
var ErrNotUndecided = errors.New("there is no such record that is undecided")
