package rpc

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// plainConn makes a [net.Conn] of a connection without addresses and deadlines.
type plainConn struct{ io.ReadWriteCloser }

func (plainConn) LocalAddr() net.Addr              { return noAddr{} }
func (plainConn) RemoteAddr() net.Addr             { return noAddr{} }
func (plainConn) SetDeadline(time.Time) error      { return nil }
func (plainConn) SetReadDeadline(time.Time) error  { return nil }
func (plainConn) SetWriteDeadline(time.Time) error { return nil }

// CloseWrite fails, so that the server closes the connection at once: without a deadline, it
// must not wait for data that the client still sends.
func (plainConn) CloseWrite() error { return errors.ErrUnsupported }

// noAddr is the address of a connection without one.
type noAddr struct{}

func (noAddr) Network() string { return "none" }
func (noAddr) String() string  { return "none" }

// codecConn takes the place of a codec's connection, which only the codec reads and writes.
type codecConn struct {
	codec  ServerCodec
	closes bool // closing it closes the codec
}

func (c *codecConn) Read([]byte) (int, error)         { return 0, io.EOF }
func (c *codecConn) Write([]byte) (int, error)        { return 0, errors.ErrUnsupported }
func (c *codecConn) LocalAddr() net.Addr              { return noAddr{} }
func (c *codecConn) RemoteAddr() net.Addr             { return noAddr{} }
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
