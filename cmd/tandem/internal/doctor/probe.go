package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/introspect"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// Probed is what is known of an endpoint after a connection to it.
type Probed struct {
	Endpoint tandem.Endpoint
	Skipped  string              // why there was no connection; "" if there was one, or an attempt
	Err      error               // why it can't be called
	Connect  time.Duration       // until it was connected, with TLS
	Ping     time.Duration       // of tandem's own ping; 0 for other protocols
	Chain    []*x509.Certificate // of the server, which may not be verified; nil without TLS
	Health   introspect.Health
	HealthOf error // why health is not known, if it should be
}

// Probe connects to an endpoint, pings it if it speaks tandem's protocol, and asks for its health.
func Probe(ctx context.Context, at tandem.Endpoint, access introspect.Access) *Probed {
	p := &Probed{Endpoint: at}
	if at.Transport != "tcp" && at.Transport != "unix" {
		p.Skipped = "transport " + at.Transport + " is not checked"
		return p
	}
	if p.Err = p.reach(ctx, access); p.Err == nil {
		p.Health, p.HealthOf = introspect.HealthOf(ctx, at, access)
	}
	return p
}

// reach connects and pings.
func (p *Probed) reach(ctx context.Context, access introspect.Access) error {
	began := time.Now()
	c, err := transport.Stream(p.Endpoint.Transport).Dial(ctx, p.Endpoint.Address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it is used no more
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if access.TLS != nil {
		if c, err = p.secure(ctx, c, access.TLS); err != nil {
			return err
		}
	}
	p.Connect = time.Since(began)
	if p.Endpoint.Protocol != "" {
		return nil
	}
	began = time.Now()
	err = ping(transport.ExpectPlain(c, nil))
	p.Ping = time.Since(began)
	return err
}

// secure does the TLS handshake, and keeps the server's certificates, valid or not.
func (p *Probed) secure(ctx context.Context, c net.Conn, config *tls.Config) (net.Conn, error) {
	config = config.Clone()
	if config.ServerName == "" && p.Endpoint.Transport == "tcp" {
		host, _, err := net.SplitHostPort(p.Endpoint.Address)
		if err != nil {
			return nil, err
		}
		config.ServerName = host
	}
	if p.Endpoint.Protocol != "" {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	secured := tls.Client(c, config)
	err := secured.HandshakeContext(ctx)
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		p.Chain = bad.UnverifiedCertificates
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		err = transport.ErrServerIsPlain
	}
	if err == nil {
		p.Chain = secured.ConnectionState().PeerCertificates
	}
	return secured, err
}

// maxFrames is how many frames are read until the answer to a ping comes.
const maxFrames = 100

// ping exchanges prefaces and sends a ping.
func ping(c net.Conn) error {
	payload := [8]byte{'t', 'a', 'n', 'd', 'e', 'm', ' ', '?'}
	settings := wire.DefaultSettings()
	settings.Codecs = []string{"json"}
	if _, err := c.Write(wire.AppendPing(wire.AppendPreface(nil, settings), wire.TypePing, payload)); err != nil {
		return err
	}
	var head [max(wire.PrefaceLen, wire.HeaderLen)]byte
	if _, err := io.ReadFull(c, head[:wire.PrefaceLen]); err != nil {
		return fmt.Errorf("the server does not answer in tandem's protocol: %w", err)
	}
	_, n, err := wire.ParsePrefaceHead(head[:wire.PrefaceLen])
	if err != nil {
		return fmt.Errorf("the server does not speak tandem's protocol: %w", err)
	}
	if _, err := io.CopyN(io.Discard, c, int64(n)); err != nil {
		return err
	}
	for range maxFrames {
		if _, err := io.ReadFull(c, head[:wire.HeaderLen]); err != nil {
			return err
		}
		h, err := wire.ParseHeader(head[:wire.HeaderLen])
		if err != nil {
			return err
		}
		body := make([]byte, h.Length) // at most wire.MaxBlock
		if _, err := io.ReadFull(c, body); err != nil {
			return err
		}
		switch h.Type {
		case wire.TypePong:
			return nil
		case wire.TypeGoAway:
			if g, err := wire.ParseGoAway(body); err == nil {
				return fmt.Errorf("the server accepts no calls: %s", reasonText(g.Reason, g.Message))
			}
		default: // the credit of a connection, and what may come
		}
	}
	return errors.New("the server does not answer a ping")
}

// reasonText returns why a server accepts no calls.
func reasonText(r wire.Reason, message string) string {
	names := map[wire.Reason]string{wire.ReasonDrain: "it drains", wire.ReasonViolation: "protocol violation", wire.ReasonVersion: "no common version", wire.ReasonOverload: "overload"}
	text := names[r]
	if text == "" {
		text = fmt.Sprintf("reason %d", r)
	}
	if message != "" {
		text += ": " + message
	}
	return text
}
