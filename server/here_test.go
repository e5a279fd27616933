package server_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// newHereTest returns a server with the protocol quickTalk.
func newHereTest(t *testing.T, opts ...server.Option) *protocolTest {
	t.Helper()
	p := newTestOf(t, quickTalk{}, opts...)
	p.register("Text.Sleep", func(s string) string {
		time.Sleep(time.Second) // virtual
		return s
	})
	p.register("Text.Exit", func(string) string {
		runtime.Goexit()
		return ""
	})
	p.register("Text.Panic", func(string) string { panic("on purpose") })
	return p
}

// A call that takes long holds up no other: another goroutine reads on. Later calls of the method are
// not made by the reader.
func TestHereLongCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHereTest(t)
		_, r := p.dial("CALL Text.Sleep a\nCALL Echo b\n")
		began := time.Now()
		p.wantLine(r, "b (here: true)")
		if took := time.Since(began); took > 20*time.Millisecond {
			t.Errorf("the second call was answered after %v", took)
		}
		p.wantLine(r, "a (here: true)")
		_, r = p.dial("CALL Text.Sleep a\nCALL Echo b\n")
		began = time.Now()
		p.wantLine(r, "b (here: true)")
		if took := time.Since(began); took != 0 {
			t.Errorf("on the next connection the second call was answered after %v", took)
		}
		p.wantLine(r, "a (here: false)")
	})
}

// A method that ends its goroutine, or panics, fails its own call only, whichever goroutine that is.
func TestHereCallsThatDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHereTest(t)
		c, r := p.dial("CALL Text.Exit a\nCALL Text.Panic a\nCALL Echo b\n")
		for _, want := range []string{"ended its goroutine", "panicked"} {
			if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, want) {
				t.Errorf("%q, %v; want %q", line, err, want)
			}
		}
		p.wantLine(r, "b (here: true)")
		_ = c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
}

// Methods that do not exist are answered, and interceptors see those calls.
func TestHereNoMethod(t *testing.T) {
	seen := ""
	p := newHereTest(t, server.WithInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			seen = call.Method
			return next(ctx, call)
		}
	}))
	_, r := p.dial("CALL Text.Missing a\n")
	p.wantLine(r, `failed: unimplemented: no method "Text.Missing" here (here: false)`)
	if seen != "Text.Missing" {
		t.Errorf("the interceptor saw %q", seen)
	}
}

// A server that shuts down waits for calls that its readers make.
func TestHereDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newHereTest(t)
		_, r := p.dial("CALL Text.Sleep a\n")
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- p.srv.Shutdown(t.Context()) }()
		p.wantLine(r, "a (here: true)")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
