package rpc

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// plainConn is a connection that is no [net.Conn]: it has no address and no
// deadlines.
type plainConn struct{ io.ReadWriteCloser }

func (plainConn) LocalAddr() net.Addr              { return nowhere{} }
func (plainConn) RemoteAddr() net.Addr             { return nowhere{} }
func (plainConn) SetDeadline(time.Time) error      { return nil }
func (plainConn) SetReadDeadline(time.Time) error  { return nil }
func (plainConn) SetWriteDeadline(time.Time) error { return nil }

// CloseWrite fails: what a client still sends is not waited for where no deadline
// would end that.
func (plainConn) CloseWrite() error { return errors.ErrUnsupported }

// nowhere is the address of what has none.
type nowhere struct{}

func (nowhere) Network() string { return "none" }
func (nowhere) String() string  { return "none" }

// codecConn stands for the connection of a codec, which alone reads and writes.
type codecConn struct {
	codec  ServerCodec
	closes bool // closing it closes the codec
}

func (c *codecConn) Read([]byte) (int, error)         { return 0, io.EOF }
func (c *codecConn) Write([]byte) (int, error)        { return 0, errors.ErrUnsupported }
func (c *codecConn) LocalAddr() net.Addr              { return nowhere{} }
func (c *codecConn) RemoteAddr() net.Addr             { return nowhere{} }
func (c *codecConn) SetDeadline(time.Time) error      { return nil }
func (c *codecConn) SetReadDeadline(time.Time) error  { return nil }
func (c *codecConn) SetWriteDeadline(time.Time) error { return nil }

// Secure refuses TLS: a codec has its connection inside it.
func (c *codecConn) Secure(*tls.Config) (net.Conn, error) {
	return nil, errors.New("a codec's connection can't have TLS: leave out server.WithTLS, and give the codec a connection with TLS")
}

func (c *codecConn) Close() error {
	if !c.closes {
		return nil
	}
	return c.codec.Close()
}
