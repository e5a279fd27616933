package session

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// A peer that violates the protocol gets the goaway frame on every kind of connection,
// also when it goes on sending: the reset that unread bytes cause must not overtake it.
func TestFarewellReachesThePeer(t *testing.T) {
	each(t, func(t *testing.T, dial func() (net.Conn, net.Conn)) {
		env := NewEnv(Config{Settings: wire.DefaultSettings(), Codecs: []tandem.Codec{rawCodec{}}})
		ours, theirs := dial()
		go func() {
			if _, loop, err := env.Accept(context.Background(), theirs, nil, nil); err == nil {
				loop()
			}
		}()
		defer env.Close(time.Minute)
		defer ours.Close()
		if err := ours.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		bad := wire.AppendHeader(nil, wire.Header{Type: wire.TypeResponse, Stream: wire.MakeStream(0, 1)})
		go func() {
			_, _ = ours.Write(append(wire.AppendPreface(nil, wire.DefaultSettings()), bad...))
			_, _ = ours.Write(make([]byte, 512<<10)) // more than is read at once
		}()
		got, err := io.ReadAll(ours)
		if err != nil || !strings.Contains(farewell(t, got), "answer flag") {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// farewell returns the message of the goaway frame after the preface.
func farewell(t *testing.T, b []byte) string {
	t.Helper()
	_, n, err := wire.ParsePrefaceHead(b)
	if err != nil {
		t.Fatal(err)
	}
	b = b[wire.PrefaceLen+n:]
	h, err := wire.ParseHeader(b)
	if err != nil || h.Type != wire.TypeGoAway {
		t.Fatalf("%v, %v", h, err)
	}
	g, err := wire.ParseGoAway(bytes.Clone(b[wire.HeaderLen:]))
	if err != nil || g.Reason != wire.ReasonViolation {
		t.Fatalf("%+v, %v", g, err)
	}
	return g.Message
}
