package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// The limits of key sets.
const (
	maxKeys     = 100     // in a set
	maxKeyBytes = 1 << 20 // of a set's text
	leastRSA    = 2048    // bits
	maxTries    = 4       // keys that are tried for a token that does not name one
)

// key is a public key that verifies tokens.
type key struct {
	id  string // "" in PEM, which has no place for it
	alg string // the only algorithm that it is for; "" for those of its type
	key any
}

// keySet is what a source of keys has delivered. It does not change.
type keySet struct{ keys []key }

// parseKeys reads public keys from PEM, from a JWK or from a JWK set.
func parseKeys(text []byte) (*keySet, error) {
	var s *keySet
	var err error
	switch {
	case len(text) > maxKeyBytes:
		return nil, fmt.Errorf("keys of more than %d bytes", maxKeyBytes)
	case strings.HasPrefix(strings.TrimSpace(string(text)), "{"):
		s, err = parseJWK(text)
	default:
		s, err = parsePEM(text)
	}
	switch {
	case err != nil:
		return nil, err
	case len(s.keys) == 0:
		return nil, errors.New("there is no key that verifies signatures")
	case len(s.keys) > maxKeys:
		return nil, fmt.Errorf("%d keys, limit %d", len(s.keys), maxKeys)
	}
	return s, nil
}

func parsePEM(text []byte) (*keySet, error) {
	s := &keySet{}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		var k any
		var err error
		switch block.Type {
		case "PUBLIC KEY":
			k, err = x509.ParsePKIXPublicKey(block.Bytes)
		case "RSA PUBLIC KEY":
			k, err = x509.ParsePKCS1PublicKey(block.Bytes)
		case "CERTIFICATE":
			var c *x509.Certificate
			if c, err = x509.ParseCertificate(block.Bytes); err == nil {
				k = c.PublicKey
			}
		default:
			err = fmt.Errorf("a PEM block %.50q: want PUBLIC KEY; a private key does not belong here", block.Type)
		}
		if err == nil {
			err = checkKey(k)
		}
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, key{key: k})
	}
	if len(s.keys) == 0 {
		return nil, errors.New("neither PEM nor a JWK set")
	}
	return s, nil
}

// parseJWK reads a JWK or a set of them. Keys that are not for signatures, of a type that is not known, or too weak are
// left out, as the set may be for others, too; a private or symmetric key is an error.
func parseJWK(text []byte) (*keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("the JWK set: %w", err)
	}
	if set.Keys == nil {
		set.Keys = []json.RawMessage{text}
	}
	s := &keySet{}
	for _, raw := range set.Keys {
		var kind struct {
			Kty string `json:"kty"`
			D   string `json:"d"`
		}
		if err := json.Unmarshal(raw, &kind); err != nil {
			return nil, fmt.Errorf("the JWK set: %w", err)
		}
		if kind.Kty == "oct" || kind.D != "" {
			return nil, errors.New("the JWK set has a secret key: want public keys alone")
		}
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil || k.Use != "" && k.Use != "sig" || checkKey(k.Key) != nil {
			continue
		}
		s.keys = append(s.keys, key{k.KeyID, k.Algorithm, k.Key})
	}
	return s, nil
}

// checkKey returns an error for keys that verify no token here.
func checkKey(k any) error {
	switch k := k.(type) {
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < leastRSA {
			return fmt.Errorf("an RSA key of %d bits: want %d at least", n, leastRSA)
		}
		return nil
	case *ecdsa.PublicKey:
		if !slices.Contains(slices.Collect(maps.Values(curves)), k.Curve.Params().BitSize) {
			return fmt.Errorf("a key on the curve %s: want P-256, P-384 or P-521", k.Curve.Params().Name)
		}
		return nil
	case ed25519.PublicKey:
		return nil
	}
	return fmt.Errorf("a key of type %T: want RSA, ECDSA or Ed25519", k)
}

// curves are the sizes of the curves that ECDSA's algorithms demand (RFC 7518).
var curves = map[string]int{"ES256": 256, "ES384": 384, "ES512": 521} //nolint:gochecknoglobals // never changed

// suits reports whether a key may verify signatures of an algorithm.
func (k *key) suits(alg string) bool {
	if k.alg != "" && k.alg != alg {
		return false
	}
	switch public := k.key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return curves[alg] == public.Curve.Params().BitSize
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// find returns the keys that may have signed a token: those with its key ID, and those that have
// none. A token without a key ID fits all keys of its algorithm, but not more than a few.
func (s *keySet) find(id, alg string) (found []any) {
	if s == nil {
		return nil
	}
	for i := range s.keys {
		k := &s.keys[i]
		if (id == "" || k.id == "" || k.id == id) && k.suits(alg) && len(found) < maxTries {
			found = append(found, k.key)
		}
	}
	return found
}

// has reports whether the set has the key with that ID, or one without an ID, which may be it.
func (s *keySet) has(id string) bool {
	return slices.ContainsFunc(s.keys, func(k key) bool { return k.id == id || k.id == "" })
}
