package session

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"
)

// However a message arrives, all of it is there in the end, and no more memory
// was taken than a piece ahead.
func TestBufferPutsPiecesTogether(t *testing.T) {
	const block = 64 << 10
	for _, size := range []int{1, block, block + 1, len(piece{}) - 1, len(piece{}), len(piece{}) + 1, 1<<20 + 3, 5 * len(piece{})} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rand.Uint32())
		}
		b := takeBuffer()
		for have := 0; have < size; {
			n := min(1+rand.IntN(block), size-have)
			b.put(want[have:have+n], size-have)
			have += n
			if taken := cap(b.b) + len(b.pieces)*len(piece{}); taken > 2*have+2*len(piece{}) {
				t.Fatalf("%d bytes of %d have taken %d", have, size, taken)
			}
		}
		if got := b.whole(); !bytes.Equal(got, want) || !bytes.Equal(b.whole(), want) {
			t.Errorf("a message of %d bytes is not what arrived", size)
		}
		giveBuffer(b)
	}
}

// A large message is put together and handled beside the reader.
func TestLargeMessagesAreHandledApart(t *testing.T) {
	release := make(chan struct{})
	p := newPair(t, tcp(t), methods{"m": unary(func(_ context.Context, in []byte) ([]byte, error) {
		if len(in) > 1<<20 {
			<-release
		}
		return nil, nil
	})})
	ended := make(chan error, 1)
	go func() {
		_, err := p.call(context.Background(), "m", make([]byte, 2<<20))
		ended <- err
	}()
	eventually(t, p.server, "the handler has not begun, or the reader has", func() bool {
		return p.server.m.running == 1 && p.server.turn.Load()&1 == 0
	})
	if _, err := p.call(context.Background(), "m", nil); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// How long a large message takes says nothing about the method's other calls.
func TestLargeMessagesDoNotCount(t *testing.T) {
	target := unary(func(context.Context, []byte) ([]byte, error) {
		time.Sleep(10 * quickTime) // sockets know no virtual time
		return nil, nil
	})
	p := newPair(t, tcp(t), methods{"m": target})
	if _, err := p.call(context.Background(), "m", make([]byte, 2<<20)); err != nil {
		t.Error(err)
	}
	p.close() // when the call's goroutine has ended
	if slow := target.slow.Load(); slow != 0 {
		t.Errorf("the method is kept out of the reader for %d calls", slow)
	}
}
