package contexts

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Config returns the configuration that the files make; nil for a nil TLS.
func (t *TLS) Config() (*tls.Config, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // nil stands for no TLS
	}
	config := &tls.Config{ServerName: t.Name, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("authorities: %s has no certificate in PEM", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("the client's certificate and its key go together")
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Kind says whether TLS is used: "no", "yes", or "mutual" with a certificate of the client's.
func (t *TLS) Kind() string {
	switch {
	case t == nil:
		return "no"
	case t.Cert == "":
		return "yes"
	}
	return "mutual"
}
