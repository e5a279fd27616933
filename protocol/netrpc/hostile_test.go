package netrpc_test

import (
	"bytes"
	"encoding/gob"
	"errors"
	"io"
	"net"
	"net/rpc"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/server"
)

// stream is the bytes that a client sends, made by encoding/gob.
type stream struct {
	bytes.Buffer
	enc *gob.Encoder
}

func newStream() *stream {
	s := new(stream)
	s.enc = gob.NewEncoder(&s.Buffer)
	return s
}

func (s *stream) request(t *testing.T, seq uint64, method string, args any) *stream {
	t.Helper()
	if err := errors.Join(s.enc.Encode(rpc.Request{ServiceMethod: method, Seq: seq}), s.enc.Encode(args)); err != nil {
		t.Fatal(err)
	}
	return s
}

// speak connects, writes, and returns the responses until the server closes the connection.
func speak(t *testing.T, address string, said []byte) []byte {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = c.Write(said) }()
	answer, err := io.ReadAll(c)
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return answer
}

// number encodes a length, or another number, in gob's longest form.
func number(n uint64) []byte {
	return []byte{0xf8, byte(n >> 56), byte(n >> 48), byte(n >> 40), byte(n >> 32), byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// A stream that is not gob, or that claims more bytes than it has, ends the connection, and
// takes little memory of the server.
func TestHostileGobs(t *testing.T) {
	_, address := serve(t, func(srv *server.Server) error {
		return errors.Join(srv.Register(Arith{}), srv.RegisterFunc("T.Map", func(in map[string]int, n *int) error { *n = len(in); return nil }))
	}, server.WithStallTimeout(100*time.Millisecond))
	ok := newStream().request(t, 1, "Arith.Mul", &Args{6, 7}).Bytes()
	types := newStream().request(t, 1, "T.Map", map[string]int{"a": 1}).Bytes()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, said := range map[string][]byte{
		"a message of no bytes":     append(bytes.Clone(ok), 0),
		"a message of 2^63 bytes":   append(bytes.Clone(ok), number(1<<63)...),
		"a message of 1 GiB":        append(bytes.Clone(ok), number(1<<30-1)...),
		"a number of 16 bytes":      append(bytes.Clone(ok), 0xf0),
		"type 0":                    append(bytes.Clone(ok), 1, 0),
		"a request of another type": append(bytes.Clone(ok), 3, 4, 0, 2),
		"a type described twice":    append(bytes.Clone(ok), ok...),
		"a request cut short":       ok[:len(ok)-2],
		"arguments cut short":       types[:len(types)-2],
	} {
		start := time.Now()
		speak(t, address, said)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20 {
		t.Errorf("they took %d MiB", taken>>20)
	}
	callArith(t, dial(t, address), "Arith")
}

// Arguments that claim more elements than they have are an error of their call: the calls
// after them are answered.
func TestHostileArguments(t *testing.T) {
	_, address := serve(t, func(srv *server.Server) error {
		return errors.Join(srv.Register(Arith{}),
			srv.RegisterFunc("T.Map", func(in map[string]int, n *int) error { *n = len(in); return nil }),
			srv.RegisterFunc("T.Small", func(in []byte, n *int) error { *n = len(in); return nil }, server.MethodMaxMessage(100)))
	}, server.WithMaxMessage(1<<20))
	s := newStream().request(t, 1, "T.Map", map[string]int{"a": 1})
	honest := bytes.Clone(s.Bytes())
	i := bytes.LastIndex(honest, []byte{0, 1, 1, 'a', 2}) // no struct, one pair, "a", 1
	forged := append(bytes.Clone(honest[:i+1]), 0x7f)     // 127 pairs in as many bytes as before
	forged = append(forged, honest[i+2:]...)
	s.Reset()
	s.request(t, 2, "T.Small", make([]byte, 200))
	s.request(t, 3, "T.Small", make([]byte, 2<<20))
	s.request(t, 4, "T.Unheard", make([]byte, 2<<20))
	s.request(t, 5, "Arith.Mul", &Args{6, 7})
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() { _, _ = c.Write(append(forged, s.Bytes()...)) }()
	dec := gob.NewDecoder(c)
	errs := map[uint64]string{}
	for range 5 {
		var r rpc.Response
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		errs[r.Seq] = r.Error
		var reply Reply
		to := any(nil)
		if r.Error == "" {
			to = &reply
		}
		if err := dec.Decode(to); err != nil || r.Error == "" && reply.C != 42 {
			t.Fatal(err, reply)
		}
	}
	for seq, want := range map[uint64]string{
		1: "a length of 127 where", 2: "T.Small takes at most 100", 3: "T.Small takes at most 100",
		4: "T.Unheard takes at most 1048576", 5: "",
	} {
		if !strings.Contains(errs[seq], want) || (want == "") != (errs[seq] == "") {
			t.Errorf("call %d: %q, want %q", seq, errs[seq], want)
		}
	}
}

// For a nil in an interface for which the request has no field, encoding/gob continues in
// the middle of another value, here the key of a map, where another map has an unchecked
// length. The reader decodes it before the caller is authenticated.
func TestHostileHeader(t *testing.T) {
	_, address := serve(t, arith)
	const (
		header = "\x01\x09Arith.Mul\x01\x01"              // ServiceMethod and Seq
		list   = "\x01\x01\x00"                           // A has one element, a nil
		hidden = "\x02\x01\x04" + "\x03\xfe\x03\xe8"      // B has one entry, and M a length of 1,000
		value  = header + list + hidden + "\x00" + "\x00" // of B's entry, and the end
	)
	var said []byte
	for _, described := range []string{
		"\xff\x81\x03\x01\x01\x07Request\x00\x01\x06" + // id 65
			"\x01\x0dServiceMethod\x01\x0c\x00" + "\x01\x03Seq\x01\x06\x00" + "\x01\x01A\x01\xff\x84\x00" +
			"\x01\x01D\x01\x04\x00" + "\x01\x01B\x01\xff\x86\x00" + "\x01\x01M\x01\xff\x88\x00" + "\x00\x00",
		"\xff\x83\x02\x01\x00\x01\x10\x00\x00",                 // A, a slice of interfaces
		"\xff\x85\x04\x01\x00\x01\x0c\x01\x04\x00\x00",         // B, a map of strings to ints
		"\xff\x87\x04\x01\x00\x01\xff\x8a\x01\xff\x8a\x00\x00", // M, a map of structs to structs
		"\xff\x89\x03\x01\x00\x00\x00",                         // without fields
		"\xff\x82" + value,
		"\xff\x8b\x03\x01\x00\x01\x02" + "\x01\x01A\x01\x04\x00" + "\x01\x01B\x01\x04\x00" + "\x00\x00", // Args
		"\xff\x8c\x01\x0c\x01\x0e\x00",
	} {
		said = append(append(said, byte(len(described))), described...)
	}
	if answer := speak(t, address, said); len(answer) > 0 {
		t.Errorf("the answer is %q", answer)
	}
}

// Memory grows with what arrives: a thousand clients that claim much and send nothing take
// little.
func TestClaimsTakeNoMemory(t *testing.T) {
	_, address := serve(t, arith)
	head := newStream()
	if err := head.enc.Encode(rpc.Request{ServiceMethod: "Arith.Mul"}); err != nil {
		t.Fatal(err)
	}
	said := append(head.Bytes(), number(4<<20-64)...)
	said = append(said, 10) // a value of bytes
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const clients = 100
	for range clients {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(said); err != nil {
			t.Fatal(err)
		}
	}
	callArith(t, dial(t, address), "Arith")
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > clients*256<<10 {
		t.Errorf("they took %d KiB each", taken/clients>>10)
	}
}

// More type descriptions than the limit end the connection.
func TestTooManyTypes(t *testing.T) {
	_, address := serve(t, arith)
	s := newStream().request(t, 1, "Arith.Mul", &Args{6, 7})
	fields := strings.Repeat("f", 60<<10)
	type described struct {
		id   int
		name string
	}
	for _, d := range []described{{1000, fields}, {1001, fields}} {
		payload := append(negative(d.id), 3, 1, 1) // a struct, its name and id, its name
		payload = append(append(payload, number(uint64(len(d.name)))...), d.name...)
		payload = append(payload, 0, 0, 0)
		s.Write(number(uint64(len(payload))))
		s.Write(payload)
	}
	start := time.Now()
	answer := speak(t, address, s.Bytes())
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the connection lived for %v", took)
	}
	if dec := gob.NewDecoder(bytes.NewReader(answer)); dec.Decode(new(rpc.Response)) != nil || dec.Decode(new(Reply)) != nil {
		t.Error("the call before was not answered")
	}
}

// negative encodes the id of a type that is described.
func negative(id int) []byte { return number(uint64(id-1)<<1 | 1) }
