package session

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/wire"
)

// The messages of the benchmark in LittleRpc's document. It gives a limit for
// each size and no average, but time times throughput is a number of bytes: on
// average 462, 2,270 and 20,364 a message at limits of 50, 500 and 5,000. That is
// the straight line 261 + 8.04 × limit/2. So a message is a head of 261 bytes and
// 1 to 15 parts, 8 on average, each of any length up to the limit.
const (
	parsedHead  = 261
	parsedParts = 15
)

var parsedSizes = []struct {
	name  string
	limit int // of a part, in bytes
	mean  int // of the document's messages in its largest parse, in bytes
}{{"small", 50, 462}, {"medium", 500, 2270}, {"large", 5000, 20364}}

// parsedLengths returns the lengths of that many messages, their framing
// included. They are the same in every run.
func parsedLengths(limit, messages int) []int {
	random := rand.New(rand.NewPCG(3, uint64(limit)))
	lengths := make([]int, messages)
	for i := range lengths {
		lengths[i] = parsedHead
		for range 1 + random.IntN(parsedParts) {
			lengths[i] += random.IntN(limit + 1)
		}
	}
	return lengths
}

// requestFrames returns a whole frame for each length: a call with a deadline
// of a method whose name the session knows.
func requestFrames(lengths []int) (b []byte) {
	head := wire.AppendRequest(nil, &wire.Request{Timeout: 5 * time.Second})
	for _, n := range lengths {
		b = wire.AppendHeader(b, wire.Header{Length: n - wire.HeaderLen, Type: wire.TypeRequest, Flags: wire.FlagOneWay | wire.FlagEnd})
		b = append(b, head...)
		b = append(b, make([]byte, n-wire.HeaderLen-len(head))...)
	}
	return b
}

// prefixedFrames returns four bytes of length and the rest of the message, for
// each length.
func prefixedFrames(lengths []int) (b []byte) {
	for _, n := range lengths {
		b = binary.LittleEndian.AppendUint32(b, uint32(n-4))
		b = append(b, make([]byte, n-4)...)
	}
	return b
}

// tape is a connection whose next bytes are in memory.
type tape struct {
	net.Conn
	rest []byte
}

func (t *tape) Read(p []byte) (int, error) {
	if len(t.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (*tape) SetReadDeadline(time.Time) error { return nil }

// tapeReader is a session's reader on a tape, without a goroutine.
type tapeReader struct {
	*reader
	tape *tape
}

func newTapeReader(tb testing.TB) *tapeReader {
	tb.Helper()
	on := &tape{Conn: pipeEnd()}
	s := NewEnv(serverConfig(methods{"echo": echo()})).newSession(context.Background(), on)
	peer := rawSettings()
	s.m.Init(&peer)
	t := &tapeReader{s.newReader(0), on}
	define := wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte("echo"), Define: true}})
	if _, _, err := t.calls(rawFrame(wire.TypeRequest, wire.FlagOneWay|wire.FlagEnd, 0, define)); err != nil {
		tb.Fatal(err)
	}
	return t
}

// refill is the reader's fill with a socket, whose first read goes into a
// buffer of the pool. The read is a copy here, as it would be from the kernel.
func (t *tapeReader) refill() (err error) {
	rd := t.reader
	if rd.r < rd.w {
		err = rd.readRest()
	} else {
		rd.r, rd.w = 0, 0
		rd.release()
		rd.w, err = t.tape.Read(rd.Take())
	}
	rd.now = rd.s.env.now()
	rd.s.received.Store(rd.now)
	return err
}

// frames reads the tape to its end and returns how many calls, and how many
// bytes of their messages, it found.
func (t *tapeReader) frames(b []byte) (calls, size int, err error) {
	t.tape.rest = b
	var r wire.Request
	for {
		_, payload, ok, err := t.next()
		switch {
		case err != nil:
			return calls, size, err
		case !ok && t.r == t.w && len(t.tape.rest) == 0:
			return calls, size, nil
		case !ok:
			if err = t.refill(); err != nil {
				return calls, size, err
			}
			continue
		}
		block, err := wire.ParseRequest(payload, &r)
		if err != nil {
			return calls, size, err
		}
		calls++
		size += len(block)
	}
}

// calls is frames with the session's state: what comes out is ready to run.
func (t *tapeReader) calls(b []byte) (calls, size int, err error) {
	t.tape.rest = b
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		h, payload, ok, err := t.next()
		switch {
		case err != nil:
			return calls, size, err
		case !ok && t.r == t.w && len(t.tape.rest) == 0:
			return calls, size, nil
		case !ok:
			s.mu.Unlock()
			err = t.refill()
			s.mu.Lock()
			if err != nil {
				return calls, size, err
			}
			continue
		}
		_, in, err := t.receiveLocked(h, payload)
		if err != nil {
			return calls, size, err
		}
		if in != nil {
			s.mu.Unlock() // a handler runs without the lock
			calls++
			size += len(in.Message)
			s.mu.Lock()
			s.m.Respond(&in.Request, new(wire.Response), 0)
		}
	}
}

// prefixed reads each message into memory of its own, as other libraries do.
type prefixed struct {
	tape     tape
	in       *bufio.Reader
	head     [4]byte
	messages [][]byte
}

func newPrefixed() *prefixed {
	p := new(prefixed)
	p.in = bufio.NewReader(&p.tape)
	return p
}

func (p *prefixed) calls(b []byte) (calls, size int, err error) {
	p.tape.rest = b
	p.messages = p.messages[:0]
	for {
		if _, err := io.ReadFull(p.in, p.head[:]); err == io.EOF {
			return calls, size, nil
		} else if err != nil {
			return calls, size, err
		}
		message := make([]byte, binary.LittleEndian.Uint32(p.head[:]))
		if _, err := io.ReadFull(p.in, message); err != nil {
			return calls, size, err
		}
		p.messages = append(p.messages, message)
		calls++
		size += len(message)
	}
}

// parsers returns the ways to get messages out of a stream of bytes.
func parsers(tb testing.TB) map[string]parserUnderTest {
	tb.Helper()
	return map[string]parserUnderTest{
		"bufio":  {prefixedFrames, newPrefixed().calls},
		"frames": {requestFrames, newTapeReader(tb).frames},
		"calls":  {requestFrames, newTapeReader(tb).calls},
	}
}

type parserUnderTest struct {
	encode func(lengths []int) []byte
	parse  func(b []byte) (calls, size int, err error)
}

// BenchmarkParser has the cells of LittleRpc's document: an operation parses that
// many messages of a stream in memory. "frames" is the reader of a session, with the
// request's head; "calls" adds the session's state, up to a call that is ready to
// run; "bufio" is what other libraries do.
func BenchmarkParser(b *testing.B) {
	all := parsers(b)
	for _, size := range parsedSizes {
		for messages := 1; messages <= 1024; messages *= 4 {
			for _, name := range []string{"bufio", "frames", "calls"} {
				b.Run(fmt.Sprintf("%s/%d/%s", size.name, messages, name), func(b *testing.B) {
					stream := all[name].encode(parsedLengths(size.limit, messages))
					b.SetBytes(int64(len(stream)))
					b.ReportAllocs()
					for b.Loop() {
						if calls, _, err := all[name].parse(stream); calls != messages || err != nil {
							b.Fatalf("%d calls, %v", calls, err)
						}
					}
				})
			}
		}
	}
}

// The messages have the document's sizes, and every parser finds all of them.
func TestParsersFindAll(t *testing.T) {
	const messages = 1024
	for _, size := range parsedSizes {
		total, lengths := 0, parsedLengths(size.limit, messages)
		for _, n := range lengths {
			total += n
		}
		if mean := total / messages; mean < size.mean*95/100 || mean > size.mean*105/100 {
			t.Errorf("%s: %d bytes on average, the document's have %d", size.name, mean, size.mean)
		}
		for name, p := range parsers(t) {
			stream := p.encode(lengths)
			calls, found, err := p.parse(stream)
			if most := messages * 24; len(stream) != total || calls != messages || found < total-most || found > total || err != nil {
				t.Errorf("%s, %s: %d calls with %d of %d bytes, %v", size.name, name, calls, found, len(stream), err)
			}
		}
	}
}

// Parsing takes no memory; a call that is ready to run takes one object.
func TestParserAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const messages = 64
	all := parsers(t)
	for name, budget := range map[string]float64{"frames": 0, "calls": messages} {
		stream := requestFrames(parsedLengths(5000, messages))
		got := testing.AllocsPerRun(100, func() {
			if _, _, err := all[name].parse(stream); err != nil {
				t.Fatal(err)
			}
		})
		if got > budget {
			t.Errorf("%s: %v allocations for %d messages, budget %v", name, got, messages, budget)
		}
	}
}
