package session

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

var strangerCalls = flag.Int("calls", 20_000, "calls of TestEveryCallerGetsItsOwnResponse")

// sealed returns a message that names its caller and call.
func sealed(caller, call uint32, size int) []byte {
	b := make([]byte, 12, 12+size)
	binary.LittleEndian.PutUint32(b[4:], caller)
	binary.LittleEndian.PutUint32(b[8:], call)
	for i := range size {
		b = append(b, byte(caller)+byte(i))
	}
	binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return b
}

func opened(b []byte) (caller, call uint32, ok bool) {
	if len(b) < 12 || binary.LittleEndian.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:]), true
}

// Over real TCP, with cancels, large messages, handlers that lose the reader's turn
// and yields wherever it changes hands, every caller gets its own response.
func TestEveryCallerGetsItsOwnResponse(t *testing.T) {
	yieldAtHandOver.Store(true)
	defer yieldAtHandOver.Store(false)
	var slow atomic.Int64
	p := newPair(t, tcp(t), methods{"echo": unary(func(ctx context.Context, in []byte) ([]byte, error) {
		if _, _, ok := opened(in); !ok {
			return nil, tandem.Errorf(tandem.DataLoss, "request damaged")
		}
		switch n := rand.IntN(4000); {
		case n == 0: // lose the turn
			slow.Add(1)
			select {
			case <-time.After(time.Duration(rand.IntN(8)) * time.Millisecond):
			case <-ctx.Done():
			}
		case n < 40:
			runtime.Gosched()
		}
		return in, nil
	})})
	const callers = 50
	var canceled, answered atomic.Int64
	var wg sync.WaitGroup
	for caller := range uint32(callers) {
		wg.Go(func() {
			for call := range uint32(*strangerCalls / callers) {
				size := rand.IntN(300)
				if call%500 == 499 {
					size = 70_000 + rand.IntN(200_000)
				}
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				if rand.IntN(20) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(300))*time.Microsecond)
				}
				got, err := p.call(ctx, "echo", sealed(caller, call, size))
				cancel()
				switch {
				case errors.Is(err, context.DeadlineExceeded):
					canceled.Add(1)
					continue
				case err != nil:
					t.Errorf("caller %d call %d: %v", caller, call, err)
					return
				}
				who, which, ok := opened(got)
				if !ok || who != caller || which != call {
					t.Errorf("caller %d call %d got the answer of caller %d call %d (intact: %v)", caller, call, who, which, ok)
					return
				}
				answered.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d answered, %d given up, %d held the reader up", answered.Load(), canceled.Load(), slow.Load())
	if answered.Load() == 0 || canceled.Load() == 0 {
		t.Error("the test did not test")
	}
}
