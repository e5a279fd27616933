package transporttest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// gate is a transport whose accepted connections can be frozen, like those of a process that
// was stopped: they accept bytes, and send none.
type gate struct {
	inner  tandem.Transport
	frozen atomic.Bool
}

func (g *gate) Dial(ctx context.Context, address string) (net.Conn, error) {
	return g.inner.Dial(ctx, address)
}

func (g *gate) Listen(ctx context.Context, address string) (net.Listener, error) {
	ln, err := g.inner.Listen(ctx, address)
	return gateListener{ln, g}, err
}

type gateListener struct {
	net.Listener
	g *gate
}

func (l gateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gated{transport.Wrap(c), l.g}, nil
}

type gated struct {
	*transport.Conn
	g *gate
}

func (c *gated) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.g.frozen.Load() {
			return n, err
		}
	}
}

func (c *gated) Write(p []byte) (int, error) {
	if c.g.frozen.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// dribble is a transport whose dialed connections send their first bytes one at
// a time.
type dribble struct{ tandem.Transport }

func (d dribble) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := d.Transport.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return &dribbling{Conn: transport.Wrap(c), left: 64}, nil
}

type dribbling struct {
	*transport.Conn
	left int // bytes that are still sent one at a time
}

func (c *dribbling) Write(p []byte) (done int, err error) {
	for ; c.left > 0 && done < len(p); c.left-- {
		n, err := c.Conn.Write(p[done : done+1])
		if done += n; err != nil {
			return done, err
		}
	}
	n, err := c.Conn.Write(p[done:])
	return done + n, err
}

// lines is a protocol besides tandem's own: it sends back lines that begin with "LINE ".
type lines struct{}

const lineWord = "LINE "

func (lines) Name() string { return "lines" }

func (lines) Match(first []byte) server.Verdict {
	n := min(len(first), len(lineWord))
	switch {
	case string(first[:n]) != lineWord[:n]:
		return server.No
	case n < len(lineWord):
		return server.NeedMore
	}
	return server.Yes
}

func (lines) Serve(_ context.Context, c *server.Conn) error {
	scan := bufio.NewScanner(c)
	for scan.Scan() {
		if !strings.HasPrefix(scan.Text(), lineWord) {
			return fmt.Errorf("not a line: %q", scan.Text())
		}
		if _, err := fmt.Fprintln(c, scan.Text()); err != nil {
			return err
		}
	}
	return scan.Err()
}
