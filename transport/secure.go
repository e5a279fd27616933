package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Securer is implemented by a transport, listener or connection that gets TLS in its own way,
// such as WebSockets, which have it beneath them, or that can't have it. T is
// [tandem.Transport], [net.Listener] or [net.Conn]. All others get TLS over their bytes.
type Securer[T any] interface {
	// Secure returns a T like this one that has TLS, or an error if it can't have it.
	Secure(config *tls.Config) (T, error)
}

// ErrSecured is in the chain of the error for a second TLS over a first one: a server or
// client with WithTLS is given a listener, a connection or a transport that has TLS.
var ErrSecured = errors.New("it has TLS already: leave out WithTLS, or give it what has no TLS")

// Secured returns t with TLS: in t's own way if it is a [Securer], else as [TLS] does. It
// fails if t can't have TLS, or has it already.
func Secured(t tandem.Transport, config *tls.Config) (tandem.Transport, error) {
	if s, ok := t.(Securer[tandem.Transport]); ok {
		return s.Secure(config)
	}
	return TLS(t, config), nil
}

// SecuredListener returns ln with TLS over its connections, whose handshake begins with their
// first read or write. It fails if the config can't serve, see [CheckServerTLS], and if ln
// can't have TLS, or has it already.
func SecuredListener(ln net.Listener, config *tls.Config) (net.Listener, error) {
	if err := CheckServerTLS(config); err != nil {
		return nil, err
	}
	if s, ok := ln.(Securer[net.Listener]); ok {
		return s.Secure(config)
	}
	if reflect.TypeOf(ln) == reflect.TypeOf(tls.NewListener(nil, nil)) { // this type is not exported
		return nil, ErrSecured
	}
	return &tlsListener{ln, atLeast12(config)}, nil
}

// tlsListener puts TLS over the connections of another listener.
type tlsListener struct {
	net.Listener

	config *tls.Config
}

// Accept returns the next connection. It fails with [ErrSecured] for one that has TLS already:
// then the inner listener has TLS, hidden by its type.
func (l *tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if secure(c) != nil {
		return nil, errors.Join(ErrSecured, c.Close())
	}
	return tls.Server(c, l.config), nil
}

// SetDeadline sets the deadline of Accept, if the inner listener can.
func (l *tlsListener) SetDeadline(t time.Time) error {
	if d, ok := l.Listener.(interface{ SetDeadline(t time.Time) error }); ok {
		return d.SetDeadline(t)
	}
	return errors.ErrUnsupported
}

// Secure refuses a second TLS.
func (l *tlsListener) Secure(*tls.Config) (net.Listener, error) { return nil, ErrSecured }

// SecuredConn returns the server's end of a connection with TLS. One that has TLS already stays
// as it is, unless the config demands certificates of clients: it is not known whether the
// existing TLS has verified them. It fails as [SecuredListener] does.
func SecuredConn(c net.Conn, config *tls.Config) (net.Conn, error) {
	if err := CheckServerTLS(config); err != nil {
		return nil, err
	}
	if s, ok := c.(Securer[net.Conn]); ok {
		return s.Secure(config)
	}
	switch {
	case secure(c) == nil:
		return tls.Server(c, atLeast12(config)), nil
	case config.ClientAuth >= tls.RequireAnyClientCert:
		return nil, fmt.Errorf("the configuration demands certificates of clients: %w", ErrSecured)
	}
	return c, nil
}

// CheckServerTLS returns an error for a TLS configuration that no server can use: nil, one
// without certificates, or one that allows no version from TLS 1.2 on.
func CheckServerTLS(config *tls.Config) error {
	switch {
	case config == nil:
		return errors.New("the TLS configuration is nil: give one with certificates")
	case len(config.Certificates) == 0 && config.GetCertificate == nil && config.GetConfigForClient == nil:
		return errors.New("the TLS configuration has no certificates: set Certificates, GetCertificate or GetConfigForClient")
	}
	return checkTLS(config)
}

// CheckClientTLS returns an error for a TLS configuration that no client can use. Nil is valid
// and means defaults.
func CheckClientTLS(config *tls.Config) error {
	if config == nil {
		return nil
	}
	return checkTLS(config)
}

func checkTLS(config *tls.Config) error {
	if config.MaxVersion != 0 && config.MaxVersion < max(config.MinVersion, tls.VersionTLS12) {
		return fmt.Errorf("the TLS configuration allows %s at most: raise MaxVersion, TLS 1.2 is the least", tls.VersionName(config.MaxVersion))
	}
	for i := range config.Certificates {
		pair := &config.Certificates[i]
		if pair.PrivateKey == nil || len(pair.Certificate) == 0 {
			return fmt.Errorf("certificate %d of the TLS configuration is empty or has no private key: load it with tls.LoadX509KeyPair", i)
		}
	}
	return nil
}

// atLeast12 returns a copy of the config without versions below TLS 1.2; nil means the zero
// config.
func atLeast12(config *tls.Config) *tls.Config {
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	return config
}

type tlsTransport struct {
	inner  tandem.Transport
	config *tls.Config
}

// TLS returns inner with TLS over its connections. config is copied; a Dial without a
// ServerName in it verifies the host of the address. The lowest version is TLS 1.2. Dial and
// Listen fail for a config that can't work, and Listen if inner's listener can't have TLS.
func TLS(inner tandem.Transport, config *tls.Config) tandem.Transport {
	return &tlsTransport{inner, atLeast12(config)}
}

// Secure refuses a second TLS.
func (t *tlsTransport) Secure(*tls.Config) (tandem.Transport, error) { return nil, ErrSecured }

func (t *tlsTransport) Dial(ctx context.Context, address string) (net.Conn, error) {
	if err := CheckClientTLS(t.config); err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	raw, err := t.inner.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	config := t.config
	if config.ServerName == "" && !config.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		config = config.Clone()
		config.ServerName = host
	}
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(adviseClient(err), raw.Close())
	}
	return c, nil
}

// Listen opens a listener whose connections do the handshake with their first read or write, or
// when the server calls [Handshake], never in Accept.
func (t *tlsTransport) Listen(ctx context.Context, address string) (net.Listener, error) {
	if err := CheckServerTLS(t.config); err != nil {
		return nil, fmt.Errorf("transport: listen on %s: %w", address, err)
	}
	ln, err := t.inner.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	secured, err := SecuredListener(ln, t.config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("transport: listen on %s: %w", address, err), ln.Close())
	}
	return secured, nil
}
