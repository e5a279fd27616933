package transport

import (
	"io"
	"net"
	"time"

	"github.com/tandem-rpc/tandem"
)

// pushed turns a connection that delivers its bytes by a callback into one that is read. The
// bytes wait in a bounded buffer. When that is full the engine's callback blocks, so an engine
// should give each connection its own goroutine or stop reading it.
type pushed struct {
	tandem.PushConn
	in *half
}

func newPushed(c tandem.PushConn) *pushed {
	p := &pushed{PushConn: c, in: newHalf()}
	c.OnData(p.data)
	return p
}

func (p *pushed) data(b []byte, end error) error {
	if end != nil {
		p.in.close(end, false)
		return nil
	}
	_, err := p.in.write(b)
	return err
}

func (p *pushed) Read(b []byte) (int, error) { return p.in.read(b) }

// NetConn returns the engine's connection, which may have TLS.
func (p *pushed) NetConn() net.Conn { return p.PushConn }

// CloseWrite ends the sending direction, if the engine can.
func (p *pushed) CloseWrite() error {
	if cw, ok := p.PushConn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return nil
}

func (p *pushed) Close() error {
	p.in.close(io.ErrClosedPipe, true)
	return p.PushConn.Close()
}

func (p *pushed) SetDeadline(t time.Time) error {
	p.in.setDeadline(&p.in.readBy, t)
	return p.SetWriteDeadline(t)
}

func (p *pushed) SetReadDeadline(t time.Time) error {
	p.in.setDeadline(&p.in.readBy, t)
	return nil
}
