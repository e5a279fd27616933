package web

import (
	"bufio"
	"net"
	"net/http"
)

// parting writes the answer to a request of HTTP/1.1. If the server drains by then, the
// header says that the connection ends with it (RFC 9112, section 9.6).
type parting struct {
	http.ResponseWriter

	conn *conn
}

// tell does nothing when the header has been written.
func (p *parting) tell() {
	if p.conn.leaving.Load() {
		p.Header().Set("Connection", "close")
	}
}

// Unwrap is for [http.ResponseController].
func (p *parting) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader writes the header.
func (p *parting) WriteHeader(status int) {
	p.tell()
	p.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the body, the header first.
func (p *parting) Write(b []byte) (int, error) {
	p.tell()
	return p.ResponseWriter.Write(b)
}

// Flush sends what has been written.
func (p *parting) Flush() { _ = p.FlushError() }

// FlushError is Flush, for [http.ResponseController].
func (p *parting) FlushError() error {
	p.tell()
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Hijack hands the connection over: to a WebSocket.
func (p *parting) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(p.ResponseWriter).Hijack()
}
