package session

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// FuzzSession sends arbitrary bytes after a valid preface, to both roles.
// Whatever comes, nothing panics, the session can be closed, and every buffer
// and goroutine is given back.
func FuzzSession(f *testing.F) {
	id := wire.MakeStream(0, 1)
	frame := func(typ wire.Type, flags wire.Flags, s wire.Stream, payload []byte) []byte {
		return append(wire.AppendHeader(nil, wire.Header{Length: len(payload), Type: typ, Flags: flags, Stream: s}), payload...)
	}
	head := wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte("echo"), Define: true}, Timeout: time.Second})
	f.Add(frame(wire.TypeRequest, wire.FlagEnd, id, append(head, "hello"...)))
	f.Add(append(frame(wire.TypeRequest, wire.FlagEnd|wire.FlagStream, id, wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte("talk")}})),
		frame(wire.TypeData, wire.FlagStream|wire.FlagEnd, id, []byte("message"))...))
	f.Add(append(frame(wire.TypeRequest, 0, id, wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte("echo")}, Size: 9})),
		frame(wire.TypeData, wire.FlagEnd, id, []byte("123456789"))...))
	f.Add(frame(wire.TypeCancel, 0, id, nil))
	f.Add(frame(wire.TypeResponse, wire.FlagAnswer|wire.FlagEnd, id, []byte{0, 'x'}))
	f.Add(frame(wire.TypeReset, wire.FlagAnswer, id, nil))
	f.Add(wire.AppendPing(wire.AppendWindow(wire.AppendGoAway(nil, wire.GoAway{Accepted: 1}), 0, 0, 100), wire.TypePing, [8]byte{1}))
	m := methods{"echo": echo(), "talk": streaming(func(st tandem.MessageStream) error {
		var b []byte
		for {
			if err := st.RecvMsg(&b); err != nil {
				return err
			}
		}
	})}
	f.Fuzz(func(t *testing.T, data []byte) {
		env := NewEnv(Config{Settings: wire.DefaultSettings(), Codecs: []tandem.Codec{rawCodec{}}, Resolve: m.find, Stall: time.Second})
		mine, theirs := memory()
		peer := wire.DefaultSettings()
		peer.Codecs = []string{"raw"}
		go attack(theirs, append(wire.AppendPreface(nil, peer), data...))
		s, loop, err := env.Accept(context.Background(), mine, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { // a call that the bytes may answer
			p := env.NewPending()
			p.Method, p.Codec, p.Deadline = "m", "raw", time.Now().Add(50*time.Millisecond)
			_ = s.Do(context.Background(), p)
		}()
		loop()
		s.Close()
		env.Close(time.Minute)
	})
}

// attack writes b, reads until the connection ends or for a short time, and closes it.
func attack(c net.Conn, b []byte) {
	_, _ = c.Write(b)
	_ = c.(interface{ CloseWrite() error }).CloseWrite()
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

// FuzzPreface sends arbitrary bytes as a preface, split anywhere.
func FuzzPreface(f *testing.F) {
	f.Add(wire.AppendPreface(nil, wire.DefaultSettings()), 3)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, split int) {
		env := NewEnv(Config{Settings: wire.DefaultSettings(), Handshake: time.Second})
		mine, theirs := memory()
		if len(data) > 0 {
			split = ((split % len(data)) + len(data)) % len(data)
		} else {
			split = 0
		}
		go attack(theirs, data[split:])
		s, loop, err := env.Accept(context.Background(), mine, data[:min(split, 60<<10)], nil)
		if err == nil {
			loop()
			s.Close()
		}
		env.Close(time.Minute)
	})
}
