package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// noise is what messages are parts of.
var noise = sync.OnceValue(func() []byte {
	b := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
})

// pattern returns n bytes that depend on their number and on who has made them: a message that got bytes
// of another is noticed.
func pattern(maker, n int) []byte { return noise()[maker*1000+n%1000:][:n] }

// checkPattern returns an error if a message is not the pattern.
func checkPattern(got []byte, maker, n int) error {
	if bytes.Equal(got, pattern(maker, n)) {
		return nil
	}
	return fmt.Errorf("a message of %d bytes came as %d others", n, len(got))
}

func echo(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	return in, nil
}

func echoEach(_ context.Context, s *tandem.Stream[wrapperspb.BytesValue, wrapperspb.BytesValue]) error {
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.Send(in)
		}
		if err != nil {
			return err
		}
	}
}

// TestMessagesOfAllSizes sends messages of all sizes at the same time, over one connection: their memory
// is used again, and may never be that of two.
func TestMessagesOfAllSizes(t *testing.T) {
	t.Run("grpc", func(t *testing.T) { sendAllSizes(t, "grpc", 2<<20) })
	t.Run("connect", func(t *testing.T) { sendAllSizes(t, "connect", 16<<10) }) // it compresses, which takes long
}

func sendAllSizes(t *testing.T, scheme string, most int) {
	w := newWebTest(t, web.New())
	w.must(server.Handle(w.srv, "Bytes.Echo", echo))
	w.must(server.HandleStream(w.srv, "Bytes.Each", echoEach))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	go func() { _ = w.srv.ServeListener(ln) }() // until the test's cleanup closes the server
	c, err := client.Dial(scheme+"://"+ln.Addr().String(), client.WithProtocols(web.GRPC(), web.Connect()), client.WithTransport("tcp", transport.TCP()))
	w.must(err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for maker := range 6 {
		wg.Go(func() {
			for _, n := range sizes(maker, 6, most) {
				out := new(wrapperspb.BytesValue)
				err := c.Call(ctx, "Bytes.Echo", wrapperspb.Bytes(pattern(maker, n)), out)
				if err == nil {
					err = checkPattern(out.Value, maker, n)
				}
				if err != nil {
					t.Errorf("a call: %v", err)
				}
			}
		})
		wg.Go(func() {
			if err := talkInAllSizes(ctx, c, maker, most); err != nil {
				t.Errorf("a stream: %v", err)
			}
		})
	}
	wg.Wait()
}

// sizes are those of small, usual and large messages, and of those near the sizes of frames and buffers.
func sizes(seed, n, most int) (all []int) {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	for range n {
		near := []int{1, 100, 1 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 1 << 20, 2 << 20}[r.IntN(9)]
		all = append(all, max(0, min(near, most)-20+r.IntN(40)))
	}
	return append(all, 0)
}

func talkInAllSizes(ctx context.Context, c *client.Client, maker, most int) error {
	s, err := client.Stream[wrapperspb.BytesValue, wrapperspb.BytesValue](ctx, c, "Bytes.Each")
	if err != nil {
		return err
	}
	defer s.Close()
	all := sizes(100+maker, 10, most)
	sent := make(chan error, 1)
	go func() {
		for _, n := range all {
			if err := s.Send(wrapperspb.Bytes(pattern(maker, n))); err != nil {
				sent <- err
				return
			}
		}
		sent <- s.CloseSend()
	}()
	for _, n := range all {
		out, err := s.Recv()
		if err != nil {
			return err
		}
		if err := checkPattern(out.Value, maker, n); err != nil {
			return err
		}
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the last message: %w", err)
	}
	return <-sent
}
