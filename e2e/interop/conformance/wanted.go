package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// wanted is the suite's request for a server.
type wanted struct {
	UseTLS      bool `json:"useTls"`
	Credentials struct {
		Cert []byte `json:"cert"`
		Key  []byte `json:"key"`
	} `json:"serverCreds"`
	ClientCert []byte `json:"clientTlsCert"`
	MaxMessage int    `json:"messageReceiveLimit"`
}

func (w *wanted) limit() server.Option {
	if w.MaxMessage > 0 {
		return server.WithMaxMessage(w.MaxMessage)
	}
	return server.WithMaxMessage(4 << 20)
}

func (w *wanted) transport() (tandem.Transport, error) {
	if !w.UseTLS {
		return transport.TCP(), nil
	}
	cert, err := tls.X509KeyPair(w.Credentials.Cert, w.Credentials.Key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
		NextProtos: web.New().(server.ALPN).NextProtos(),
	}
	if len(w.ClientCert) > 0 {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(w.ClientCert) {
			return nil, errors.New("the clients' certificate is no PEM")
		}
	}
	return transport.TLS(transport.TCP(), config), nil
}

// response returns the address of the server, as the suite expects it.
func (w *wanted) response(port int) any {
	r := map[string]any{"host": "127.0.0.1", "port": port}
	if w.UseTLS {
		r["pemCert"] = w.Credentials.Cert
	}
	return r
}
