package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/tandem-rpc/tandem/plugin/auth"
)

// Server returns the configuration for server.WithTLS, which uses for each connection what the
// files hold then. Without Config.Certificate no server can use it.
func (f *Files) Server() *tls.Config {
	config := f.now.Load().server.Clone()
	if f.cfg.Certificate == "" {
		return config
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.now.Load().server, nil }
	return config
}

// Client returns the configuration of this moment, for client.WithTLSFrom. It must not be changed.
func (f *Files) Client() (*tls.Config, error) { return f.now.Load().client, nil }

// verify makes both configurations verify their peers.
func (f *Files) verify(server, client *tls.Config, roots *x509.CertPool) {
	server.ClientCAs, server.ClientAuth = roots, tls.RequireAndVerifyClientCert
	if f.cfg.OptionalClients {
		server.ClientAuth = tls.VerifyClientCertIfGiven
	}
	client.RootCAs = roots
	client.InsecureSkipVerify = len(f.cfg.Peers) > 0 // then the id is verified in place of the host
	further := f.cfg.Base.VerifyConnection
	verifier := func(usage x509.ExtKeyUsage, verified bool) func(tls.ConnectionState) error {
		return func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) > 0 {
				// A resumed connection has been verified by the authorities of its first handshake.
				if !verified || state.DidResume {
					if err := verifyChain(&state, roots, usage); err != nil {
						return err
					}
				}
				if err := f.checkPeer(&state); err != nil {
					return err
				}
			}
			if further != nil {
				return further(state)
			}
			return nil
		}
	}
	server.VerifyConnection = verifier(x509.ExtKeyUsageClientAuth, true)
	client.VerifyConnection = verifier(x509.ExtKeyUsageServerAuth, !client.InsecureSkipVerify)
}

func verifyChain(state *tls.ConnectionState, roots *x509.CertPool, usage x509.ExtKeyUsage) error {
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

// checkPeer checks the SPIFFE id of a peer.
func (f *Files) checkPeer(state *tls.ConnectionState) error {
	if len(f.cfg.Peers) == 0 {
		return nil
	}
	id, domain, err := auth.SPIFFEID(state.PeerCertificates[0])
	if err != nil {
		return fmt.Errorf("tlsfiles: the peer: %w", err)
	}
	for _, p := range f.cfg.Peers {
		if p == id || p == "spiffe://"+domain+"/*" {
			return nil
		}
	}
	return fmt.Errorf("tlsfiles: the peer %q is not among Config.Peers", id)
}

func checkPeers(peers []string) error {
	for _, p := range peers {
		if _, err := auth.ParseSPIFFE(strings.TrimSuffix(p, "*") + strings.Repeat("x", strings.Count(p, "*"))); err != nil {
			return fmt.Errorf("Config.Peers: %q: want spiffe://trust-domain/path, or spiffe://trust-domain/*", p)
		}
		if domain, all := strings.CutSuffix(p, "/*"); all && strings.Count(domain, "/") != 2 || !all && strings.Contains(p, "*") {
			return fmt.Errorf("Config.Peers: %q: a * stands for all ids of a trust domain: spiffe://trust-domain/*", p)
		}
	}
	return nil
}
