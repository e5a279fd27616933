// Package rpcx has the API of rpcx's first version, which was built on net/rpc, over
// tandem's servers and clients. To move a program over, change its import lines:
//
//	import "github.com/saiser/rpcx"                        // before
//	import "github.com/tandem-rpc/tandem/compat/rpcx"      // after
//
// and likewise clientselector and plugin. What needs a registry's client, the
// selectors and plugins for ZooKeeper, etcd and Consul, is in the module
// compat/rpcx/registries.
//
// A [Server] is a tandem server on its port, for clients of every protocol that
// package protocol/all has: today's rpcx clients and net/rpc's among them. A [Client]
// with a selector from here calls by tandem's protocol, with its fail modes,
// balancing and health checks. With a codec of the user's own on both sides, the
// requests on the wire are that codec's, as with net/rpc.
//
// # What differs
//
// Fail modes treat calls as idempotent, as rpcx does: a call may run twice when its
// connection is lost. But what a method returns is an answer, and is not asked for
// again elsewhere. Connections belong to the selector and are used by all its
// clients; they close when the last reference to it is gone, or with its Close. The
// wire of rpcx's first version is not spoken.
package rpcx

import (
	"errors"
	"io"
	"net/rpc"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
)

// FailMode is what a [Client] does when a call fails.
type FailMode int

// The fail modes.
const (
	Failover  FailMode = iota // tries another server, up to Retries times
	Failfast                  // returns the first error
	Failtry                   // tries the same server again, up to Retries times
	Broadcast                 // calls every server; all must succeed
	Forking                   // calls two servers; the first answer wins
)

// tandem returns the mode that the core knows.
func (m FailMode) tandem() tandem.FailMode {
	switch m {
	case Failover:
		return tandem.Failover
	case Failtry:
		return tandem.Failtry
	case Broadcast:
		return tandem.Broadcast
	case Forking:
		return tandem.Fork
	case Failfast:
	}
	return tandem.Failfast
}

// SelectMode is how a selector chooses among servers.
type SelectMode int

// The select modes.
const (
	RandomSelect       SelectMode = iota // any
	RoundRobin                           // in turn
	WeightedRoundRobin                   // in turn, more often where the weight is higher
	WeightedICMP                         // where calls take the shortest; nobody is pinged by ICMP
	ConsistentHash                       // the same for calls with equal methods and arguments (jump hash)
	Closest                              // where calls take the shortest, as WeightedICMP: no place is known
	CallLeast                            // where the fewest calls run
)

// Policy returns the balancing policy of the core that does it.
func (m SelectMode) Policy() balance.Policy {
	switch m {
	case RoundRobin, WeightedRoundRobin:
		return balance.RoundRobin()
	case WeightedICMP, Closest:
		return balance.ShortestLatency()
	case ConsistentHash:
		return balance.JumpHash()
	case CallLeast:
		return balance.LeastInFlight()
	case RandomSelect:
	}
	return balance.Random()
}

// ServerCodecFunc makes the codec of a connection at the server.
type ServerCodecFunc func(conn io.ReadWriteCloser) rpc.ServerCodec

// ClientCodecFunc makes the codec of a connection at the client.
type ClientCodecFunc func(conn io.ReadWriteCloser) rpc.ClientCodec

// ClientSelector chooses a server and returns a client that is connected to it. A
// [Client] asks for each call, may get the same client again and again, and closes
// all that it got when it is closed, and what it gets after that. A call whose time is
// over does not wait for Select. Programs may have selectors of their own; a Client
// never gives them a nil clientCodecFunc.
type ClientSelector interface {
	Select(clientCodecFunc ClientCodecFunc) (*rpc.Client, error)
}

// ErrShutdown is the error of calls with a [Client] that is closed.
var ErrShutdown = rpc.ErrShutdown

// Error is what a server said: its text is the server's alone, and the
// [*tandem.Error] is in its chain.
type Error struct{ core *tandem.Error }

// Error returns what the server said.
func (e *Error) Error() string { return e.core.Message }

// Unwrap returns the [*tandem.Error].
func (e *Error) Unwrap() error { return e.core }

// As makes errors.As find an [rpc.ServerError], for programs that look for one.
func (e *Error) As(target any) bool {
	if t, ok := target.(*rpc.ServerError); ok {
		*t = rpc.ServerError(e.core.Message)
		return true
	}
	return false
}

// said returns err as what a server said if it was one.
func said(err error) error {
	if e, ok := errors.AsType[*tandem.Error](err); ok && e.Remote && e.Message != "" {
		return &Error{e}
	}
	return err
}
