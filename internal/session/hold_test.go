package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
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

// A large request waits until another one is over, and small ones pass it; one that has
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

// A large request with a deadline waits for memory until then.
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

// What a request that does not end has reserved is given back with its connection, and when
// it is cancelled.
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
