package budget_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
)

// reading is a message that a waiting request reads piece by piece.
type reading struct {
	hold   *budget.Hold
	pieces int           // that are left
	takes  time.Duration // for each
	fails  error         // after the last piece; io.EOF if it ends
}

const readPiece = 10

func (r *reading) next() error {
	if !r.hold.Begin(readPiece) {
		return r.hold.Exhausted(readPiece)
	}
	time.Sleep(r.takes)
	if r.pieces--; r.pieces <= 0 {
		return r.fails
	}
	return nil
}

// A request that waits reads its message, and what it has read is counted until the memory of
// the message includes it.
func TestGrowReading(t *testing.T) {
	const limit, need, patience = 200, 30, time.Second
	errLost := errors.New("connection lost")
	for name, c := range map[string]struct {
		message reading
		timeout time.Duration // of the request
		free    time.Duration // when another request releases its memory
		after   time.Duration // when the wait ends
		is      func(error) bool
		early   int64 // counted when the wait is over
	}{
		"read whole, then granted":  {reading{pieces: 2, fails: io.EOF}, time.Hour, time.Second / 2, time.Second / 2, granted, 0},
		"granted while it reads":    {reading{pieces: 9, takes: 200 * time.Millisecond}, time.Hour, 500 * time.Millisecond, 600 * time.Millisecond, granted, 0},
		"larger than what it asked": {reading{pieces: 4, fails: io.EOF}, time.Hour, time.Second / 2, time.Second / 2, granted, 10},
		"read whole, never granted": {reading{pieces: 2, fails: io.EOF}, 0, time.Hour, patience, exhausted, 20},
		"no room for what arrives":  {reading{pieces: 9}, time.Hour, time.Hour, 0, exhausted, 50},
		"reading fails":             {reading{pieces: 2, fails: errLost}, time.Hour, time.Hour, 0, func(err error) bool { return errors.Is(err, errLost) }, 20},
		"deadline while it reads": {reading{pieces: 9, takes: 600 * time.Millisecond}, time.Second, time.Hour, 1200 * time.Millisecond, func(err error) bool {
			return tandem.CodeOf(err) == tandem.DeadlineExceeded && !tandem.MayHaveExecuted(err)
		}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := budget.New(limit)
				other, h := b.Account().Hold(), b.Account().Hold()
				other.Try(1000)
				time.AfterFunc(c.free, other.Release)
				ctx, cancel := t.Context(), func() {}
				if c.timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
				}
				defer cancel()
				c.message.hold = h
				began := time.Now()
				err := h.GrowReading(ctx, need, patience, c.message.next)
				if took := time.Since(began); !c.is(err) || took != c.after {
					t.Errorf("%v after %v, want it after %v", err, took, c.after)
				}
				if early, _ := b.Early(); early != c.early || b.Waiting() != 0 {
					t.Errorf("%d bytes are counted, want %d; %d wait", early, c.early, b.Waiting())
				}
				h.Release()
				other.Release()
				if used, _ := b.Used(); used != 0 {
					t.Errorf("%d bytes are held in the end", used)
				}
			})
		})
	}
}

func granted(err error) bool { return err == nil }

func exhausted(err error) bool {
	return tandem.CodeOf(err) == tandem.ResourceExhausted && !tandem.MayHaveExecuted(err)
}
