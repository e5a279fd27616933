package session

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// pushConn reads itself and hands the bytes over, as an event-driven engine's
// connections do.
type pushConn struct{ net.Conn }

var _ tandem.PushConn = pushConn{}

func (c pushConn) OnData(deliver func([]byte, error) error) {
	go func() {
		buf := make([]byte, 5000)
		for {
			n, err := c.Read(buf)
			if err != nil {
				_ = deliver(nil, err)
				return
			}
			if deliver(buf[:n], nil) != nil {
				_ = c.Close() // the next Read says so
			}
		}
	}()
}

func pushed() (net.Conn, net.Conn) {
	a, b := memory()
	return pushConn{a}, pushConn{b}
}

// gatedConn counts the writes after arm was called; one of them waits until the
// gate is opened.
type gatedConn struct {
	net.Conn
	armed  atomic.Bool
	writes atomic.Int32
	waits  int32 // the number of the write that waits, from 1; 0 for none
	gate   chan struct{}
	once   sync.Once
}

// gated returns a pair of connections in memory of which each may hold a write.
func gated(clientWaits, serverWaits int32) (client, server *gatedConn) {
	a, b := memory()
	return &gatedConn{Conn: a, waits: clientWaits, gate: make(chan struct{})},
		&gatedConn{Conn: b, waits: serverWaits, gate: make(chan struct{})}
}

func (c *gatedConn) arm()  { c.armed.Store(true) }
func (c *gatedConn) open() { c.once.Do(func() { close(c.gate) }) }

func (c *gatedConn) Close() error {
	c.open()
	return c.Conn.Close()
}

func (c *gatedConn) Write(p []byte) (int, error) {
	if c.armed.Load() && c.writes.Add(1) == c.waits {
		<-c.gate
	}
	return c.Conn.Write(p)
}

// serverConfig returns the Config of a server with these methods.
func serverConfig(m methods) Config {
	return Config{Settings: wire.DefaultSettings(), Codecs: []tandem.Codec{rawCodec{}}, Resolve: m.find}
}

// rawSettings returns the settings of a peer that knows the raw codec.
func rawSettings() wire.Settings {
	s := wire.DefaultSettings()
	s.Codecs = []string{"raw"}
	return s
}

// acceptRaw returns a session and its peer's end of the connection, which is past
// the handshake and does nothing by itself.
func acceptRaw(t *testing.T, cfg Config) (*Session, net.Conn) {
	t.Helper()
	env := NewEnv(cfg)
	mine, peer := memory()
	send(t, peer, wire.AppendPreface(nil, rawSettings()))
	s, loop, err := env.Accept(context.Background(), mine, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	env.wg.Go(loop)
	t.Cleanup(func() {
		_ = peer.Close()
		s.Close()
		env.Close(time.Minute)
	})
	return s, peer
}

func send(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

// requestHead is the payload of a request without a message.
func requestHead(method string) []byte {
	return wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte(method)}})
}

// wantNothingOpen checks that no call is open on either side.
func wantNothingOpen(t *testing.T, p *pair) {
	t.Helper()
	for name, s := range map[string]*Session{"client": p.client, "server": p.server} {
		if ours, theirs := s.Outstanding(); ours+theirs != 0 {
			t.Errorf("%s: %d calls of its own and %d of the peer's are open", name, ours, theirs)
		}
		s.mu.Lock()
		if c := s.m.Counts(); c.Slots+c.Sending+c.Arriving != 0 || c.Held != 0 {
			t.Errorf("%s: left over: %+v", name, c)
		}
		s.mu.Unlock()
	}
}
