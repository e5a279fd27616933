package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// Errors of a connection on which one side uses TLS and the other plain text. Each is in the
// chain of the error of the call or connection that fails.
var (
	// ErrServerWantsTLS is the error of a client without TLS at a server with TLS.
	ErrServerWantsTLS = errors.New("the server speaks TLS, the client plain text: give WithTLS to the client")
	// ErrServerIsPlain is the error of a client with TLS at a server without TLS.
	ErrServerIsPlain = errors.New("the server speaks plain text, the client TLS: give WithTLS to the server, or leave it out at the client")
	// ErrClientWantsTLS is the error of a server without TLS for a client with TLS.
	ErrClientWantsTLS = errors.New("the client speaks TLS, the server plain text: give WithTLS to the server, or leave it out at the client")
	// ErrClientIsPlain is the error of a server with TLS for a client without TLS.
	ErrClientIsPlain = errors.New("the client speaks plain text, the server TLS: give WithTLS to the client")
)

// errClientSpeaksHTTP is the error of a server for a client that sends HTTP.
var errClientSpeaksHTTP = errors.New("the client speaks HTTP, which is not served here: give web.New() of package protocol/web to the server's WithProtocols")

// Answers of a server to a client of the other kind. TLS clients take text as a sign that there is no TLS.
const (
	unexpected  = "\x15\x03\x03\x00\x02\x02\x0a" // a fatal alert of TLS 1.2: unexpected message
	needsTLS    = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
	needsNoTLS  = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis server has no TLS.\n"
	needsOther  = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis server does not serve HTTP: see server.WithProtocols of tandem.\n"
	toHTTPS     = "HTTPS"
	badRequest  = " 400 "
	alertRecord = "\x15\x03"
	helloRecord = "\x16\x03"
)

// Bounds of what is read and discarded after such an answer: closing with unread bytes
// resets the connection, and the client would lose the answer.
const (
	farewellTime  = 500 * time.Millisecond
	farewellBytes = 64 << 10
)

// AnswerMismatch is for a server whose reading of a connection's first bytes has failed with
// err. If one side uses TLS or HTTP and the other does not, it sends the client an answer that
// such clients understand, and returns an error that says so. Otherwise it returns err. It
// takes half a second at most. The caller closes c.
func AnswerMismatch(c net.Conn, first []byte, err error) error {
	record, notTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case notTLS && record.Conn != nil && !isRecord(record.RecordHeader[:]):
		answer := unexpected
		if isHTTP(record.RecordHeader[:]) {
			answer = needsTLS
		}
		sayFarewell(record.Conn, answer)
		return fmt.Errorf("%w (%w)", ErrClientIsPlain, err)
	case bytes.HasPrefix(first, []byte(helloRecord)) && secure(c) == nil:
		sayFarewell(c, needsNoTLS)
		return ErrClientWantsTLS
	case len(first) >= requestHead && isHTTP(first[:requestHead]):
		sayFarewell(c, needsOther)
		return fmt.Errorf("%w (%w)", errClientSpeaksHTTP, err)
	}
	return err
}

func sayFarewell(c net.Conn, words string) {
	if c.SetDeadline(time.Now().Add(farewellTime)) != nil {
		return
	}
	if _, err := io.WriteString(c, words); err != nil {
		return
	}
	if w, ok := c.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, farewellBytes)
	}
}

// isRecord reports whether bytes may be the head of a TLS record.
func isRecord(head []byte) bool {
	const first, last = 20, 24 // the types of records
	return len(head) > 1 && head[0] >= first && head[0] <= last && head[1] == 3
}

// requestHead is how many bytes identify an HTTP request.
const requestHead = 5

// isHTTP reports whether the bytes, requestHead of them, begin an HTTP/1 or HTTP/2 request.
func isHTTP(head []byte) bool {
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO", "CONNE", "TRACE", "PRI *"}, string(head))
}

// adviseClient adds advice to the error of a client's TLS handshake, if the server uses no
// TLS, or the client does not trust its certificate.
func adviseClient(err error) error {
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok && !isRecord(record.RecordHeader[:]) {
		return fmt.Errorf("%w (%w)", ErrServerIsPlain, err)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w: give the authority's certificate to the client, as RootCAs of its tls.Config", err)
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("%w: dial a name that the certificate has, or give one to the client, as ServerName of its tls.Config", err)
	}
	return err
}

// WantsTLS reports whether a server's first bytes refuse a client without TLS: a TLS alert, or
// the answer of HTTP servers with TLS.
func WantsTLS(first []byte) bool {
	line, rest, _ := bytes.Cut(first, []byte("\r\n"))
	return bytes.HasPrefix(first, []byte(alertRecord)) && len(first) >= len(unexpected) && first[3] == 0 && first[4] == 2 ||
		bytes.HasPrefix(line, []byte("HTTP/1.")) && bytes.Contains(line, []byte(badRequest)) && bytes.Contains(rest, []byte(toHTTPS))
}

// ExpectPlain returns c as a client's connection whose first Read fails with
// [ErrServerWantsTLS] if the server's answer demands TLS; noticed, which may be nil, is called
// then. If c has TLS it is returned as it is.
func ExpectPlain(c net.Conn, noticed func()) net.Conn {
	if secure(c) != nil {
		return c
	}
	return &expecting{Conn: c, noticed: noticed}
}

// expecting is a connection whose first bytes are checked by WantsTLS.
type expecting struct {
	net.Conn

	noticed func() // may be nil
	looked  bool   // the first bytes have been checked; used by the reader only
}

func (e *expecting) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if !e.looked && n > 0 {
		e.looked = true
		if WantsTLS(p[:n]) {
			if e.noticed != nil {
				e.noticed()
			}
			return 0, ErrServerWantsTLS
		}
	}
	return n, err
}

// Checked returns the connection that [ExpectPlain] has wrapped, if its first bytes have been read:
// they are all that is checked. Other connections are returned as they are.
func Checked(c net.Conn) net.Conn {
	if e, ok := c.(*expecting); ok && e.looked {
		return e.Conn
	}
	return c
}

// NetConn returns the connection that is wrapped.
func (e *expecting) NetConn() net.Conn { return e.Conn }

// CloseWrite ends the sending direction of the connection, if that can be ended alone.
func (e *expecting) CloseWrite() error {
	if w, ok := e.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
