package floor

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/bench/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type caller interface {
	Call(req, reply *message.BenchmarkMessage) error
	Close() error
}

// start runs serve on a loopback port until the test ends.
func start(t *testing.T, serve func(net.Listener) error) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = serve(ln)
	}()
	t.Cleanup(func() { _ = ln.Close(); <-ended })
	return ln.Addr().String()
}

func dial[C caller](t *testing.T, addr string, dial func(string) (C, error)) C {
	t.Helper()
	c, err := dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// callAll makes 200 calls from each of 100 callers, and checks by a number in every request
// that no caller gets the response of another.
func callAll(t *testing.T, connOf func(caller int) caller) {
	t.Helper()
	const callers, calls = 100, 200
	var wg sync.WaitGroup
	for i := range callers {
		conn := connOf(i)
		wg.Go(func() {
			req, reply := message.New(), new(message.BenchmarkMessage)
			for j := range calls {
				req.Field3 = new(int32(i*calls + j))
				reply.Reset()
				if err := conn.Call(req, reply); err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
				if err := message.Check(reply); err != nil || reply.GetField3() != req.GetField3() {
					t.Errorf("caller %d got the answer to %d for %d: %v", i, reply.GetField3(), req.GetField3(), err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestPlainAnswersEveryCaller(t *testing.T) {
	addr := start(t, ServePlain)
	callAll(t, func(int) caller { return dial(t, addr, DialPlain) })
}

func TestMuxAnswersEveryCaller(t *testing.T) {
	addr := start(t, ServeMux)
	conns := []*Mux{dial(t, addr, DialMux), dial(t, addr, DialMux)}
	callAll(t, func(i int) caller { return conns[i%len(conns)] })
	for i, c := range conns {
		if len(c.free) != len(c.slots) || len(c.slots) > 50 {
			t.Errorf("connection %d has %d slots for 50 callers, %d of them free", i, len(c.slots), len(c.free))
		}
	}
}

// silent accepts one connection, reads one frame, and then calls then.
func silent(then func(conn net.Conn, frame []byte)) func(net.Listener) error {
	return func(ln net.Listener) error {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		defer conn.Close()
		in := newFrames(conn)
		for {
			frame, err := in.next()
			if err != nil {
				return err
			}
			if frame != nil {
				then(conn, frame)
				return nil
			}
			if err := in.fill(); err != nil {
				return err
			}
		}
	}
}

func TestALostConnectionEndsTheCall(t *testing.T) {
	lose := silent(func(net.Conn, []byte) {})
	for name, c := range map[string]caller{
		"plain": dial(t, start(t, lose), DialPlain),
		"mux":   dial(t, start(t, lose), DialMux),
	} {
		for _, when := range []string{"outstanding", "later"} {
			if err := c.Call(message.New(), new(message.BenchmarkMessage)); err == nil {
				t.Errorf("%s: a call that was %s when the connection was lost succeeded", name, when)
			}
		}
	}
}

// FuzzFrames reads a stream in one piece and byte by byte: both must give the
// same frames and end alike.
func FuzzFrames(f *testing.F) {
	one, err := appendFrame(nil, []byte{1, 2, 3, 4}, message.New())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one)
	f.Add(append(bytes.Clone(one), one[:100]...))
	f.Add([]byte{3, 0, 0, 0, 1, 2, 3})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(append([]byte{0xfd, 0xff, 0, 0}, make([]byte, readSize)...)) // one byte more than fits
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, wholeErr := cut(bytes.NewReader(stream))
		bytewise, bytewiseErr := cut(iotest.OneByteReader(bytes.NewReader(stream)))
		if !bytes.Equal(whole, bytewise) || wholeErr.Error() != bytewiseErr.Error() {
			t.Errorf("in one piece: %d bytes of frames, then %v; byte by byte: %d, then %v",
				len(whole), wholeErr, len(bytewise), bytewiseErr)
		}
	})
}

// cut returns the frames of src, one after the other, and how it ended.
func cut(src io.Reader) (all []byte, err error) {
	in := newFrames(src)
	for {
		frame, err := in.next()
		if err != nil {
			return all, err
		}
		if frame != nil {
			all = append(all, frame...)
		} else if err := in.fill(); err != nil {
			return all, err
		}
	}
}
