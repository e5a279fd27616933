package session

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// A large message is put together and handled outside the reader.
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
		return p.server.m.Running() == 1 && p.server.turn.Load()&1 == 0
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

// A reader whose reads are small has a small buffer. One that reads more, or has begun a
// longer frame, has a large one, until its reads have been small for a while.
func TestReadBufferFits(t *testing.T) {
	rd := new(reader)
	read := func(n int) int {
		rd.release()
		rd.r, rd.w = 0, 0
		size := len(rd.Take())
		rd.took(n)
		return size
	}
	for _, n := range []int{1, 600, buffer.SmallRead - 1, buffer.SmallRead} {
		if size := read(n); size != buffer.SmallRead {
			t.Fatalf("%d bytes to read, and nothing before, into %d", n, size)
		}
	}
	for i := range staysLarge {
		if size := read(600); size != buffer.LargeRead {
			t.Fatalf("read %d after a small buffer was full is into %d", i, size)
		}
	}
	if size := read(600); size != buffer.SmallRead {
		t.Fatalf("the next is into %d", size)
	}

	frame := wire.AppendHeader(nil, wire.Header{Type: wire.TypeRequest, Length: wire.MaxBlock, Stream: 1})
	rd.r = 700 // bytes of frames before it
	rd.w = rd.r + copy(rd.buf[rd.r:], frame)
	rd.makeRoom(rd.roomNeeded())
	if len(rd.buf) != buffer.LargeRead || rd.r != 0 || !bytes.Equal(rd.buf[:rd.w], frame) {
		t.Errorf("a frame of %d bytes has begun, and the buffer has %d: %x", wire.MaxBlock, len(rd.buf), rd.buf[rd.r:rd.w])
	}
}
