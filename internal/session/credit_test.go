package session

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

func sink() *Target {
	return streaming(func(st tandem.MessageStream) error {
		for {
			var b []byte
			if err := st.RecvMsg(&b); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
		}
	})
}

// Thirty streams that send messages of 200 KiB must not block for ever, with the
// connection's window used up by unfinished and by consumed messages, each of less
// than half a stream's window, whose credit is not returned.
func TestManyStreamsMakeProgress(t *testing.T) {
	p := newPair(t, tcp(t), methods{"sink": sink()})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the machine may be busy
	defer cancel()
	var streams []*Stream
	for range 70 {
		q := p.clientEnv.NewPending()
		q.Method, q.Codec = "sink", "raw"
		st, err := p.client.Open(ctx, q, time.Now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, st)
	}
	var wg sync.WaitGroup
	for _, st := range streams {
		wg.Go(func() {
			for range 3 {
				if err := st.SendMsg(make([]byte, 200<<10)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func notifyOnce(t *testing.T, p *pair, method string, n int) {
	q := p.clientEnv.NewPending()
	q.Method, q.Codec, q.OneWay, q.Message = method, "raw", true, make([]byte, n)
	if err := p.client.Do(context.Background(), q); err != nil {
		t.Fatal(err)
	}
}

func noneOpen(t *testing.T, p *pair) {
	var open int
	for range 100 {
		if open, _ = p.client.Outstanding(); open == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond) // polls a condition
	}
	t.Errorf("%d one-way calls hold their numbers for ever", open)
}

// A one-way message that just fits one frame, but not by send's estimate, frees its slot.
func TestOneWaySlotIsFreed(t *testing.T) {
	p := newPair(t, tcp(t), methods{"e": echo()})
	for n := 65400; n <= 65600; n++ {
		notifyOnce(t, p, "e", n)
	}
	noneOpen(t, p)
}

// A large one-way call that is refused frees its slot.
func TestRefusedOneWaySlotIsFreed(t *testing.T) {
	p := newPair(t, tcp(t), methods{"e": echo()})
	for range 10 {
		notifyOnce(t, p, "unknown", 200000)
	}
	noneOpen(t, p)
}

// A request with OneWay and Stream is refused: its handler would outlive the connection.
func TestOneWayStreamIsRefused(t *testing.T) {
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	s, peer := acceptRaw(t, serverConfig(methods{"s": streaming(func(st tandem.MessageStream) error {
		started <- struct{}{}
		var b []byte
		err := st.RecvMsg(&b)
		ended <- err
		return err
	})}))
	send(t, peer, rawFrame(wire.TypeRequest, wire.FlagOneWay|wire.FlagStream|wire.FlagEnd, 0, requestHead("s")))
	select {
	case <-started:
	case <-s.Done(): // a violation would be right
		return
	case <-time.After(time.Second): // so would a refusal
		return
	}
	_ = peer.Close()
	<-s.Done()
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		t.Error("the handler waits for ever")
	}
}

// Drain waits for a request that was accepted and is still arriving.
func TestDrainAwaitsArrivingRequest(t *testing.T) {
	s, peer := acceptRaw(t, serverConfig(methods{"e": echo()}))
	go func() { _, _ = io.Copy(io.Discard, peer) }()
	head := wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte("e")}, Size: 100})
	send(t, peer, rawFrame(wire.TypeRequest, 0, wire.MakeStream(0, 1), head))
	for s.Accepted() == 0 {
		time.Sleep(time.Millisecond) // polls a condition
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := s.Drain(ctx, "test"); err == nil {
		t.Errorf("Drain closed after %v although a request that it had accepted was arriving", time.Since(begin))
	}
}

// idleStream receives nothing until its call or its connection ends.
func idleStream() *Target {
	return streaming(func(st tandem.MessageStream) error {
		<-st.Context().Done()
		return nil
	})
}

// Streams that each keep to their own window must together keep to the
// connection's window.
func TestConnectionWindow(t *testing.T) {
	const window, message = 64 << 10, 20_000 // a stream's would hold three of them
	for name, c := range map[string]struct {
		streams int
		ends    bool
	}{"within": {window / message, false}, "beyond": {window/message + 1, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := serverConfig(methods{"idle": idleStream()})
				cfg.Settings.ConnWindow, cfg.Settings.StreamWindow = window, window
				s, peer := acceptRaw(t, cfg)
				for i := range c.streams {
					id := wire.MakeStream(uint16(i), 1)
					send(t, peer, rawFrame(wire.TypeRequest, wire.FlagStream|wire.FlagEnd, id, requestHead("idle")))
					send(t, peer, rawFrame(wire.TypeData, wire.FlagStream|wire.FlagEnd, id, make([]byte, message)))
				}
				synctest.Wait()
				err := s.Err()
				if (err != nil) != c.ends {
					t.Fatalf("ended with %v", err)
				}
				if c.ends && (!errors.Is(err, wire.ErrViolation) || !strings.Contains(err.Error(), "connection's window")) {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}
