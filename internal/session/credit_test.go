package session

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
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
	p := newPair(t, tcp(t), methods{"s": streaming(func(st tandem.MessageStream) error {
		started <- struct{}{}
		var b []byte
		err := st.RecvMsg(&b)
		ended <- err
		return err
	})})
	p.client.mu.Lock()
	b := p.client.m.buf()
	start := len(b.B)
	b.B = append(b.B, make([]byte, wire.HeaderLen)...)
	b.B = wire.AppendRequest(b.B, &wire.Request{Name: wire.Name{Text: []byte("s")}})
	wire.PutHeader(b.B[start:], wire.Header{Length: len(b.B) - start - wire.HeaderLen, Type: wire.TypeRequest, Flags: wire.FlagOneWay | wire.FlagStream | wire.FlagEnd})
	p.client.mu.Unlock()
	p.client.flush()
	select {
	case <-started:
	case <-p.server.Done(): // a violation would be right
		return
	case <-time.After(time.Second): // so would a refusal
		return
	}
	p.client.Close()
	<-p.server.Done()
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		t.Error("the handler waits for ever")
	}
}

// Drain waits for a request that was accepted and is still arriving.
func TestDrainAwaitsArrivingRequest(t *testing.T) {
	p := newPair(t, memory, methods{"e": echo()})
	p.client.mu.Lock()
	b := p.client.m.buf()
	id := p.client.m.calls.take(&Call{Done: make(chan struct{}, 1)})
	start := len(b.B)
	b.B = append(b.B, make([]byte, wire.HeaderLen)...)
	b.B = wire.AppendRequest(b.B, &wire.Request{Name: wire.Name{Text: []byte("e")}, Size: 100})
	wire.PutHeader(b.B[start:], wire.Header{Length: len(b.B) - start - wire.HeaderLen, Type: wire.TypeRequest, Stream: id})
	p.client.mu.Unlock()
	p.client.flush()
	for { // until the server has counted it
		p.server.mu.Lock()
		n := p.server.m.accepted
		p.server.mu.Unlock()
		if n == 1 {
			break
		}
		time.Sleep(time.Millisecond) // polls a condition
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := p.server.Drain(ctx, "test"); err == nil {
		t.Errorf("Drain closed after %v although a request that it had accepted was arriving", time.Since(begin))
	}
}
