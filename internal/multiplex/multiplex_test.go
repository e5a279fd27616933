package multiplex

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The protocol of these tests has messages of a number and a length, 8 bytes each, and that
// many bytes.

func message(dst []byte, seq uint64, text string) []byte {
	dst = binary.BigEndian.AppendUint64(dst, seq)
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(text)))
	return append(dst, text...)
}

func receive(r io.Reader) (seq uint64, text string, err error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, "", err
	}
	b := make([]byte, binary.BigEndian.Uint64(head[8:]))
	_, err = io.ReadFull(r, b)
	return binary.BigEndian.Uint64(head[:8]), string(b), err
}

func pipe() (*Conn[string], net.Conn) {
	near, far := net.Pipe()
	r := bufio.NewReader(near)
	return New(near, func() (uint64, string, error) { return receive(r) }), far
}

func ask(ctx context.Context, c *Conn[string], text string) (string, error) {
	return c.Do(ctx, func(dst []byte, seq uint64) ([]byte, error) { return message(dst, seq, text), nil })
}

// Responses are passed to their callers, in whichever order they come.
func TestAnswersInAnyOrder(t *testing.T) {
	c, far := pipe()
	defer c.Close()
	const calls = 100
	var server sync.WaitGroup
	server.Go(func() {
		asked := map[uint64]string{}
		for range calls {
			seq, text, err := receive(far)
			if err != nil {
				t.Error(err)
				return
			}
			asked[seq] = text
		}
		_, _ = far.Write(message(nil, 1<<40, "for nobody"))
		for seq, text := range asked { // in any order
			_, _ = far.Write(message(nil, seq, text+"!"))
		}
	})
	var callers sync.WaitGroup
	for i := range calls {
		callers.Go(func() {
			text := string(rune('a' + i))
			if got, err := ask(t.Context(), c, text); err != nil || got != text+"!" {
				t.Errorf("%q: %q, %v", text, got, err)
			}
		})
	}
	callers.Wait()
	server.Wait()
}

// A request that was not written to the socket completely was not executed; any other may have
// been.
func TestNotExecutedIsCertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := pipe()
		defer c.Close()
		var wg sync.WaitGroup
		call := func(text string, want bool) {
			wg.Go(func() {
				_, err := ask(t.Context(), c, text)
				if e := tandem.AsError(err); e == nil || e.Code != tandem.Unavailable || e.NotExecuted != want {
					t.Errorf("%s: %+v, want not executed %v", text, err, want)
				}
			})
			synctest.Wait()
		}
		call("read to the end", false)
		if _, _, err := receive(far); err != nil {
			t.Fatal(err)
		}
		call("all but the last byte", true)
		if _, err := io.CopyN(io.Discard, far, 16+20); err != nil {
			t.Fatal(err)
		}
		call("queued", true)
		_ = far.Close()
		wg.Wait()
		call("too late", true)
		wg.Wait()
	})
}

// A caller that gives up does not wait, and its response is dropped.
func TestCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := pipe()
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			for {
				seq, text, err := receive(far)
				if err != nil {
					return
				}
				if text == "slow" {
					time.Sleep(2 * time.Second) // of the test's own clock
				}
				_, _ = far.Write(message(nil, seq, text))
			}
		}()
		if _, err := ask(ctx, c, "slow"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if got, err := ask(t.Context(), c, "next"); err != nil || got != "next" {
			t.Errorf("%q, %v", got, err)
		}
		if len(c.waiting) > 0 {
			t.Errorf("%d callers are still waited for", len(c.waiting))
		}
	})
}

// While a megabyte waits to be written, further callers wait for room, and a caller that gives
// up has sent nothing. If the peer reads nothing, the connection ends.
func TestFullQueueWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, far := pipe()
		defer far.Close()
		defer c.Close()
		large := string(make([]byte, maxQueued+1))
		var wg sync.WaitGroup
		for range 2 { // the first of which is being written
			wg.Go(func() {
				if _, err := ask(t.Context(), c, large); tandem.CodeOf(err) != tandem.Unavailable {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := ask(ctx, c, "small")
		if tandem.MayHaveExecuted(err) || tandem.CodeOf(err) != tandem.DeadlineExceeded {
			t.Error(err)
		}
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took > writeTime {
			t.Errorf("the peer was left after %v", took)
		}
	})
}

// A request that can't be encoded is an error of its caller only.
func TestFillFails(t *testing.T) {
	c, far := pipe()
	defer c.Close()
	sad := errors.New("sad")
	if err := c.Send(t.Context(), func(dst []byte, _ uint64) ([]byte, error) { return append(dst, "half"...), sad }); !errors.Is(err, sad) {
		t.Error(err)
	}
	go func() {
		if seq, text, err := receive(far); err == nil {
			_, _ = far.Write(message(nil, seq, text))
		}
	}()
	if got, err := ask(t.Context(), c, "well"); err != nil || got != "well" {
		t.Errorf("%q, %v", got, err)
	}
}

// Close ends calls and waits for the goroutines; calls after it are not executed.
func TestClose(t *testing.T) {
	c, far := pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	ended := make(chan error, 1)
	go func() {
		_, err := ask(context.Background(), c, "in flight")
		ended <- err
	}()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; tandem.CodeOf(err) != tandem.Unavailable {
		t.Error(err)
	}
	if _, err := ask(t.Context(), c, "late"); tandem.MayHaveExecuted(err) || !errors.Is(c.Err(), ErrClosed) {
		t.Error(err, c.Err())
	}
}
