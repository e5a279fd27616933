package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// maxSPIFFE is the length of the longest SPIFFE id that its specification lets implementations
// expect, in bytes.
const maxSPIFFE = 2048

// SPIFFE authenticates calls over TLS connections whose client has shown a certificate with a
// SPIFFE id, as [Certificate] does. The identity is a *[Principal] whose name is the id,
// "spiffe://trust-domain/path", and whose issuer is the trust domain, which must be one of those
// given. A certificate with no URI is left to the next Authenticator of [Any]; one with several
// URIs, another scheme, another trust domain or no path is refused.
//
// All authorities of the server's ClientCAs may issue ids of all these trust domains.
func SPIFFE(trustDomains ...string) Authenticator {
	return Certificate(func(_ context.Context, c *x509.Certificate) (any, error) {
		if len(c.URIs) == 0 {
			return nil, ErrNoCredentials
		}
		id, domain, err := SPIFFEID(c)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(trustDomains, domain) {
			return nil, tandem.Errorf(tandem.Unauthenticated, "the trust domain of %.200q is not accepted here", id)
		}
		return &Principal{Name: id, Issuer: domain}, nil
	})
}

// SPIFFEID returns the SPIFFE id of a certificate, and its trust domain. The certificate must
// have exactly one URI, and not be an authority's.
func SPIFFEID(c *x509.Certificate) (id, trustDomain string, err error) {
	switch {
	case len(c.URIs) != 1:
		return "", "", fmt.Errorf("the certificate has %d URIs: a SPIFFE id is the only one", len(c.URIs))
	case c.IsCA:
		return "", "", errors.New("the certificate is an authority's: it identifies no caller")
	}
	id = c.URIs[0].String()
	trustDomain, err = ParseSPIFFE(id)
	return id, trustDomain, err
}

// ParseSPIFFE returns the trust domain of a SPIFFE id of a workload: "spiffe://", a domain of lower case
// letters, digits, dots, dashes and underscores, and a path of one or more segments of letters,
// digits, dots, dashes and underscores. There is one spelling of each id, so ids are compared as text.
func ParseSPIFFE(id string) (trustDomain string, err error) {
	rest, ok := strings.CutPrefix(id, "spiffe://")
	if !ok || len(id) > maxSPIFFE {
		return "", fmt.Errorf("%.200q is no SPIFFE id", id)
	}
	trustDomain, path, ok := strings.Cut(rest, "/")
	if !ok || trustDomain == "" || len(trustDomain) > 255 || strings.ContainsFunc(trustDomain, notDomain) {
		return "", fmt.Errorf("%.200q is no SPIFFE id of a workload: want spiffe://trust-domain/path", id)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsFunc(segment, notPath) {
			return "", fmt.Errorf("%.200q is no SPIFFE id: its path has a segment %.50q", id, segment)
		}
	}
	return trustDomain, nil
}

func notDomain(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
}

func notPath(r rune) bool { return notDomain(r) && (r < 'A' || r > 'Z') }
