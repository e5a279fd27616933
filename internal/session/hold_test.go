package session

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/internal/budget"
)

// keepers returns methods of which "hold" keeps its message until the channel is closed.
func keepers() (m methods, entered chan struct{}, release chan struct{}) {
	entered, release = make(chan struct{}, 10), make(chan struct{})
	return methods{"echo": echo(), "hold": unary(func(_ context.Context, in []byte) ([]byte, error) {
		entered <- struct{}{}
		<-release
		return in[:1], nil
	})}, entered, release
}

func withBudget(b *budget.Budget) pairOption {
	return func(client, server *Config) {
		server.Memory, server.MaxDecoded = b, 3<<20
		compressors := []tandem.Compressor{compress.Gzip()}
		client.Compressors, server.Compressors = compressors, compressors
	}
}

// A large request waits until another one is over, and small ones overtake it. One that has
// waited for the stall timeout is refused.
func TestLargeRequestsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(1 << 20)
		m, entered, release := keepers()
		p := newPair(t, memory, m, withBudget(b))
		defer p.close()
		results := make(chan error, 3)
		send := func() {
			_, err := p.call(t.Context(), "hold", make([]byte, 1<<20))
			results <- err
		}
		go send()
		<-entered
		go send()
		synctest.Wait()
		if _, err := p.call(t.Context(), "echo", make([]byte, 1000)); err != nil {
			t.Fatal("a small call: ", err)
		}
		if len(entered) > 0 {
			t.Fatal("two run that do not fit together")
		}
		began := time.Now()
		err := <-results
		if tandem.CodeOf(err) != tandem.ResourceExhausted || tandem.MayHaveExecuted(err) {
			t.Fatal(err)
		}
		if d := time.Since(began); d < defaultStall || d > defaultStall+time.Second {
			t.Errorf("refused after %v", d)
		}
		go send()
		synctest.Wait()
		close(release)
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if used, _ := b.Used(); used != 0 {
			t.Errorf("%d bytes are held by nothing", used)
		}
	})
}

// A large request with a deadline waits for memory until the deadline.
func TestWaitForMemoryHasTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, entered, release := keepers()
		p := newPair(t, memory, m, withBudget(budget.New(1<<20)))
		defer p.close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*defaultStall)
		defer cancel()
		results := make(chan error, 2)
		send := func() {
			_, err := p.call(ctx, "hold", make([]byte, 1<<20))
			results <- err
		}
		go send()
		<-entered
		go send()
		time.Sleep(5 * defaultStall) // virtual
		close(release)
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

// A message that is copied for a goroutine waits for memory until its deadline.
func TestCopiesWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(1 << 20)
		m, entered, release := keepers()
		p := newPair(t, memory, m, withBudget(b))
		defer p.close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*defaultStall)
		defer cancel()
		results := make(chan error, 2)
		send := func(size int) {
			_, err := p.call(ctx, "hold", make([]byte, size))
			results <- err
		}
		m["hold"].Spawn = true
		go send(1 << 20)
		<-entered
		go send(32 << 10)
		time.Sleep(5 * defaultStall) // virtual
		if len(entered) > 0 || len(results) > 0 {
			t.Fatal("it does not wait")
		}
		close(release)
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if used, _ := b.Used(); used != 0 {
			t.Errorf("%d bytes are held by nothing", used)
		}
	})
}

// A small message that is large when it is decoded is estimated, and all values of a message
// count together.
func TestHeavyValuesAreEstimated(t *testing.T) {
	type heavy struct{ A [1 << 10]int }
	for _, row := range []struct {
		message string
		v       any
	}{
		{"[" + strings.Repeat("{},", 999) + "{}]", new([]heavy)},
		{"[" + strings.Repeat("{},", 199) + "{}]", tandem.Results{new([]heavy), new([]heavy)}},
	} {
		message := []byte(row.message)
		if r, ok := row.v.(tandem.Results); ok {
			part := append(binary.AppendUvarint(nil, uint64(len(message))), message...)
			message = append(append([]byte{byte(len(r))}, part...), part...)
		}
		synctest.Test(t, func(t *testing.T) {
			var err error
			p := newPair(t, memory, methods{"decode": &Target{Name: "decode", Func: func(_ context.Context, call *tandem.Call) error {
				err = call.Body.Decode(row.v)
				return err
			}}}, withBudget(budget.New(16<<20)), func(client, server *Config) {
				client.Codecs, server.Codecs = []tandem.Codec{codec.JSON()}, []tandem.Codec{codec.JSON()}
			})
			defer p.close()
			c := p.clientEnv.NewPending()
			defer c.Release()
			c.Method, c.Codec, c.Message = "decode", "json", message
			_ = p.client.Do(t.Context(), c)
			if tandem.CodeOf(err) != tandem.ResourceExhausted || tandem.MayHaveExecuted(err) {
				t.Errorf("%d bytes into %T: %v", len(message), row.v, err)
			}
		})
	}
}

// What decoding takes is reserved, and refused beyond its limit, in the call's goroutine.
func TestDecompressedRequestsAreReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(16 << 20)
		m, entered, release := keepers()
		p := newPair(t, memory, m, withBudget(b))
		defer p.close()
		call := func(size int) error {
			packed, err := compress.Gzip().Compress(nil, make([]byte, size))
			if err != nil {
				t.Error(err)
			}
			c := p.clientEnv.NewPending()
			defer c.Release()
			c.Method, c.Codec, c.Message, c.Compressor, c.Compressed = "hold", "raw", packed, "gzip", true
			return p.client.Do(t.Context(), c)
		}
		results := make(chan error, 1)
		go func() { results <- call(1 << 20) }()
		<-entered
		if used, _ := b.Used(); used < 2<<20 || used > 4<<20 {
			t.Errorf("%d bytes are held for a message of 1 MiB and its value", used)
		}
		if err := call(3<<20 + 1); tandem.CodeOf(err) != tandem.ResourceExhausted || tandem.MayHaveExecuted(err) {
			t.Errorf("more than the limit when decoded: %v", err)
		}
		close(release)
		if err := <-results; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if used, _ := b.Used(); used != 0 {
			t.Errorf("%d bytes are held by nothing", used)
		}
	})
}

// The memory that an unfinished request has reserved is given back when its connection ends,
// and when the request is canceled.
func TestHoldsEndWithTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(1 << 20)
		m, entered, release := keepers()
		p := newPair(t, memory, m, withBudget(b))
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 2)
		for i := range 2 {
			go func() {
				time.Sleep(time.Duration(i))
				_, err := p.call(ctx, "hold", make([]byte, 1<<20))
				results <- err
			}()
		}
		<-entered
		synctest.Wait()
		cancel() // one runs and one waits
		close(release)
		for range 2 {
			<-results
		}
		synctest.Wait()
		if used, _ := b.Used(); used != 0 {
			t.Errorf("%d bytes are held by cancelled calls", used)
		}
		m["hold"].Func = func(ctx context.Context, _ *tandem.Call) error {
			<-ctx.Done()
			return ctx.Err()
		}
		for range 2 {
			go func() {
				_, err := p.call(t.Context(), "hold", make([]byte, 1<<20))
				results <- err
			}()
		}
		synctest.Wait()
		p.close()
		<-results
		<-results
		if used, _ := b.Used(); used != 0 {
			t.Errorf("%d bytes are held by a connection that is gone", used)
		}
	})
}
