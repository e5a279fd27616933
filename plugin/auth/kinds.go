package auth

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// header is the metadata key of "tag token", as in HTTP's Authorization.
const header = "authorization"

// errSeveral refuses calls whose caller is ambiguous: a proxy may have checked another one of
// the values.
var errSeveral = tandem.Errorf(tandem.InvalidArgument, "the call has several credentials of one kind: send one")

// only returns the value of a metadata key that may have at most one.
func only(call *tandem.Call, key string) (string, error) {
	values := call.Metadata[strings.ToLower(key)]
	if len(values) > 1 {
		return "", errSeveral
	}
	return call.Metadata.Get(key), nil
}

// credentials returns the two parts of the authorization metadata, both empty if there is
// none. A value of one word is a token without a tag.
func credentials(call *tandem.Call) (tag, token string, err error) {
	value, err := only(call, header)
	if err != nil {
		return "", "", err
	}
	tag, token, two := strings.Cut(value, " ")
	if !two {
		tag, token = "", value
	}
	return tag, token, nil
}

// tagged returns the token of calls with that tag, which HTTP compares without regard to case,
// and ErrNoCredentials for other calls.
func tagged(call *tandem.Call, want string) (token string, err error) {
	tag, token, err := credentials(call)
	if err == nil && !strings.EqualFold(tag, want) {
		err = ErrNoCredentials
	}
	return token, err
}

// Authorization is the argument of the function given to [ByFunc].
type Authorization struct {
	Authorization string // the token
	Tag           string // its kind, such as "Bearer"
	ServiceMethod string
}

// ByFunc authenticates all calls by one function of the token, its tag and the method. For
// calls without credentials token and tag are empty. The identity is the token.
func ByFunc(authorise func(a *Authorization) error) Authenticator {
	return Func(func(_ context.Context, call *tandem.Call) (any, error) {
		tag, token, err := credentials(call)
		if err != nil {
			return nil, err
		}
		if err := authorise(&Authorization{token, tag, call.Method}); err != nil {
			return nil, err
		}
		return token, nil
	})
}

// Bearer authenticates calls with a bearer token (RFC 6750). verify returns the token's owner:
// it is the place to check a JWT or to query an OAuth 2 server.
func Bearer(verify func(ctx context.Context, token string) (identity any, err error)) Authenticator {
	return Func(func(ctx context.Context, call *tandem.Call) (any, error) {
		token, err := tagged(call, "Bearer")
		if err != nil {
			return nil, err
		}
		return verify(ctx, token)
	})
}

// Basic authenticates calls with a user and a password (RFC 7617).
func Basic(verify func(ctx context.Context, user, password string) (identity any, err error)) Authenticator {
	return Func(func(ctx context.Context, call *tandem.Call) (any, error) {
		token, err := tagged(call, "Basic")
		if err != nil {
			return nil, err
		}
		user, password, err := parseBasic(token)
		if err != nil {
			return nil, err
		}
		return verify(ctx, user, password)
	})
}

var errBasic = errors.New("the basic credentials are not base64 of user:password")

func parseBasic(token string) (user, password string, err error) {
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return "", "", errBasic
	}
	user, password, ok := strings.Cut(string(text), ":")
	if !ok {
		return "", "", errBasic
	}
	return user, password, nil
}

// APIKey authenticates calls with a key in the metadata of that name, such as "x-api-key".
func APIKey(name string, verify func(ctx context.Context, key string) (identity any, err error)) Authenticator {
	return Func(func(ctx context.Context, call *tandem.Call) (any, error) {
		key, err := only(call, name)
		if err == nil && key == "" {
			err = ErrNoCredentials
		}
		if err != nil {
			return nil, err
		}
		return verify(ctx, key)
	})
}

var errUnknown = errors.New("the credentials are not known here")

// Known returns a verifier for [Bearer] and [APIKey]: it has the identities of secrets that do
// not change. An empty secret, such as a variable of the environment that is not set, is nobody's.
// Its time reveals nothing about the secrets.
func Known[Identity any](secrets map[string]Identity) func(ctx context.Context, secret string) (any, error) {
	known := make(map[[sha256.Size]byte]Identity, len(secrets))
	for secret, identity := range secrets {
		if secret != "" {
			known[sha256.Sum256([]byte(secret))] = identity
		}
	}
	return func(_ context.Context, secret string) (any, error) {
		identity, ok := known[sha256.Sum256([]byte(secret))]
		if !ok {
			return nil, errUnknown
		}
		return identity, nil
	}
}

// Certificate authenticates calls over TLS connections whose client has shown a certificate
// that the server's [crypto/tls.Config] has verified. With a nil verify the certificate's
// common name is the identity.
func Certificate(verify func(ctx context.Context, c *x509.Certificate) (identity any, err error)) Authenticator {
	return Func(func(ctx context.Context, call *tandem.Call) (any, error) {
		state := call.Peer.TLS
		if state == nil || len(state.VerifiedChains) == 0 {
			return nil, ErrNoCredentials
		}
		leaf := state.VerifiedChains[0][0]
		if verify == nil {
			return leaf.Subject.CommonName, nil
		}
		return verify(ctx, leaf)
	})
}
