package session

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/wire"
)

// A peer that sends as fast as its requests are read and executed does not keep other
// goroutines from running, here one that waits for the only processor.
func TestReaderLetsOthersRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there each write starts a goroutine")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	// One Gosched in 61 comes back before others have run.
	for range 4 {
		if otherRuns(t) {
			return
		}
	}
	t.Error("all requests were executed without a pause, time and again")
}

// otherRuns sends more than a reader takes at once, and reports whether a
// goroutine that waits from the first request on has run before the last.
func otherRuns(t *testing.T) bool {
	const requests = 90
	executed := 0
	var ran atomic.Bool
	before := make(chan bool, 1)
	env := NewEnv(serverConfig(methods{"m": unary(func(context.Context, []byte) ([]byte, error) {
		switch executed++; executed {
		case 1:
			go ran.Store(true)
			for began := time.Now(); time.Since(began) <= longestHold; {
			}
		case requests:
			before <- ran.Load()
		}
		return nil, nil
	})}))
	peer, mine := tcp(t)()
	b := wire.AppendPreface(nil, rawSettings())
	for i := range uint16(requests) {
		payload := append(requestHead("m"), bytes.Repeat([]byte{1}, 1<<10)...)
		b = append(b, rawFrame(wire.TypeRequest, wire.FlagEnd, wire.MakeStream(i, 1), payload)...)
	}
	send(t, peer, b) // all of it is there before the first read
	s, loop, err := env.Accept(context.Background(), mine, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	env.wg.Go(loop)
	paused := <-before
	_ = peer.Close()
	s.Close()
	env.Close(time.Minute)
	return paused
}
