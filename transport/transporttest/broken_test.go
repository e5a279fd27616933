package transporttest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/transporttest"
)

// faults are the possible defects of a transport.
type faults struct {
	leaks            bool // a connection leaves a goroutine behind
	flips            bool // the hundredth byte is changed
	cutsLarge        bool // a large write is cut, but reported as done
	swallowsClose    bool // the peer does not learn of the close
	closeDropsTail   bool // bytes that the peer has not read at the close are lost
	halfCloseIsClose bool
	readOutlives     bool // Close does not end a read
	writeNeverWaits  bool // bytes that are not read are discarded
	writeOutlives    bool // Close does not end a write
	noReadDeadline   bool
	noWriteDeadline  bool
	deadlineKills    bool // a deadline that has passed ends the connection
	listenerTakesAll bool // closing the listener closes its connections
	acceptOutlives   bool // closing the listener does not end Accept
	namelessErrors   bool
	noAddresses      bool
	dropsFirst       bool // the first byte of a connection is lost
	acceptWaits      bool // Accept waits for the client's first byte
	ignoresTLS       bool // accepts WithTLS, but has no TLS
}

// broken is the in-memory network with faults.
type broken struct {
	*transport.Memory
	f faults
}

func (b *broken) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := b.Memory.Dial(ctx, address)
	if err != nil && b.f.namelessErrors {
		return nil, errors.New("did not work")
	}
	if err != nil {
		return nil, err
	}
	return b.wrap(c), nil
}

func (b *broken) Listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := b.Memory.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	return &brokenListener{Listener: ln, b: b}, nil
}

// Secure returns the network with TLS, or, with ignoresTLS, the network as it is.
func (b *broken) Secure(config *tls.Config) (tandem.Transport, error) {
	if b.f.ignoresTLS {
		return b, nil
	}
	return transport.TLS(&broken{b.Memory, b.f}, config), nil
}

type brokenListener struct {
	net.Listener
	b *broken

	mu    sync.Mutex
	conns []net.Conn
}

func (l *brokenListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		if l.b.f.acceptOutlives {
			<-time.After(time.Hour)
		}
		return nil, err
	}
	if l.b.f.acceptWaits {
		_, _ = c.Read(nil)
		first := make([]byte, 1)
		_, err = c.Read(first)
		return &brokenConn{Conn: c, f: l.b.f, first: first}, err
	}
	l.mu.Lock()
	l.conns = append(l.conns, c)
	l.mu.Unlock()
	return l.b.wrap(c), nil
}

func (l *brokenListener) Close() error {
	if l.b.f.listenerTakesAll {
		l.mu.Lock()
		for _, c := range l.conns {
			c.Close()
		}
		l.mu.Unlock()
	}
	return l.Listener.Close()
}

func (b *broken) wrap(c net.Conn) net.Conn {
	if b.f.leaks {
		go func() { <-time.After(time.Hour) }()
	}
	return &brokenConn{Conn: c, f: b.f}
}

type brokenConn struct {
	net.Conn
	f       faults
	first   []byte
	total   int
	dropped bool
	closed  atomic.Bool
}

func (c *brokenConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if c.f.dropsFirst && !c.dropped && n > 0 {
		c.dropped = true
		n = copy(p, p[1:n])
		if n == 0 {
			return c.Conn.Read(p)
		}
	}
	if at := 99 - c.total; c.f.flips && at >= 0 && at < n {
		p[at]++
	}
	c.total += n
	if err != nil && c.f.readOutlives && c.closed.Load() {
		<-time.After(time.Hour)
	}
	return n, err
}

func (c *brokenConn) Write(p []byte) (int, error) {
	switch {
	case c.f.cutsLarge && len(p) > 60_000:
		_, err := c.Conn.Write(p[:60_000])
		return len(p), err
	case c.f.writeNeverWaits && len(p) > 30_000 && !c.closed.Load():
		<-time.After(time.Microsecond) // otherwise the time of the synctest bubble would not advance
		return len(p), nil
	case c.f.closeDropsTail:
		return c.late(p)
	}
	n, err := c.Conn.Write(p)
	if err != nil && c.f.writeOutlives && c.closed.Load() {
		<-time.After(time.Hour)
	}
	return n, err
}

// late sends all but the last byte, and that one later, unless the connection is closed by
// then.
func (c *brokenConn) late(p []byte) (int, error) {
	if len(p) < 1000 {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:len(p)-1])
	if err != nil {
		return n, err
	}
	last := []byte{p[len(p)-1]}
	time.AfterFunc(time.Second, func() { _, _ = c.Conn.Write(last) })
	return len(p), nil
}

func (c *brokenConn) Close() error {
	c.closed.Store(true)
	if c.f.swallowsClose {
		time.AfterFunc(time.Hour, func() { c.Conn.Close() })
		return nil
	}
	return c.Conn.Close()
}

func (c *brokenConn) CloseWrite() error {
	if c.f.halfCloseIsClose {
		return c.Conn.Close()
	}
	return c.Conn.(interface{ CloseWrite() error }).CloseWrite()
}

func (c *brokenConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *brokenConn) SetReadDeadline(t time.Time) error {
	if c.f.noReadDeadline {
		return nil
	}
	if c.f.deadlineKills && !t.IsZero() && t.Before(time.Now()) {
		return c.Conn.Close()
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *brokenConn) SetWriteDeadline(t time.Time) error {
	if c.f.noWriteDeadline {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

func (c *brokenConn) RemoteAddr() net.Addr {
	if c.f.noAddresses {
		return nil
	}
	return c.Conn.RemoteAddr()
}

// Each fault must be found by the checks for it, and without faults no check may fail.
func TestBrokenTransportsFail(t *testing.T) {
	for name, tc := range map[string]struct {
		f      faults
		checks []string
	}{
		"leaks":     {faults{leaks: true}, []string{"a call and its answer"}},
		"flips":     {faults{flips: true}, []string{"a call and its answer", "large messages"}},
		"cutsLarge": {faults{cutsLarge: true}, []string{"large messages", "what was written before the close arrives"}},
		"swallowsClose": {faults{swallowsClose: true}, []string{
			"a client that closes is noticed", "a server that closes is noticed", "what was written before the close arrives", "a silent connection is closed; others go on",
		}},
		"closeDropsTail":   {faults{closeDropsTail: true}, []string{"what was written before the close arrives", "a response to a half close arrives"}},
		"writeNeverWaits":  {faults{writeNeverWaits: true}, []string{"closing ends a write that waits", "a deadline ends a write that waits"}},
		"halfCloseIsClose": {faults{halfCloseIsClose: true}, []string{"a half close leaves the other half", "a response to a half close arrives"}},
		"readOutlives":     {faults{readOutlives: true}, []string{"closing ends a read that waits"}},
		"writeOutlives":    {faults{writeOutlives: true}, []string{"closing ends a write that waits"}},
		"noReadDeadline":   {faults{noReadDeadline: true}, []string{"a deadline ends a read, and the connection goes on", "a silent connection is closed; others go on"}},
		"noWriteDeadline":  {faults{noWriteDeadline: true}, []string{"a deadline ends a write that waits"}},
		"deadlineKills":    {faults{deadlineKills: true}, []string{"a deadline ends a read, and the connection goes on"}},
		"listenerTakesAll": {faults{listenerTakesAll: true}, []string{"closing a listener leaves its connections"}},
		"acceptOutlives":   {faults{acceptOutlives: true}, []string{"closing a listener leaves its connections"}},
		"namelessErrors":   {faults{namelessErrors: true}, []string{"a failed dial ends in time and names the address"}},
		"noAddresses":      {faults{noAddresses: true}, []string{"both ends have addresses"}},
		"dropsFirst":       {faults{dropsFirst: true}, []string{"first bytes come one at a time", "another protocol has the same port"}},
		"ignoresTLS":       {faults{ignoresTLS: true}, []string{"TLS takes effect or is refused"}},
		"acceptWaits":      {faults{acceptWaits: true}, []string{"a silent connection is closed; others go on"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, check := range tc.checks {
				if err := runOn(t, tc.f, check); err == nil {
					t.Errorf("%q does not find it", check)
				} else {
					t.Log(err)
				}
				if err := runOn(t, faults{}, check); err != nil {
					t.Errorf("%q finds a fault where none is: %v", check, err)
				}
			}
		})
	}
}

// runOn applies one check in a synctest bubble, whose clock makes waiting take no time.
func runOn(t *testing.T, f faults, name string) (err error) {
	for _, c := range transporttest.Checks() {
		if c.Name != name {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			err = c.Run(t.Context(), transporttest.Harness{
				Server: &broken{transport.NewMemory(), f}, Name: "mem",
				Address: func() string { return fmt.Sprint("host", n.Add(1)) },
			})
			<-time.After(3 * time.Hour) // all goroutines that still run end meanwhile
		})
		return err
	}
	t.Fatalf("there is no check %q", name)
	return nil
}
