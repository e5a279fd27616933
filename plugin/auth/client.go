package auth

import (
	"context"
	"encoding/base64"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

// Token returns a plugin for client.WithPlugins that sends the token with every call, and its
// tag: "Bearer", or another one that the server expects, or "".
func Token(tag, token string) plugin.BeforeCall {
	if tag != "" {
		token = tag + " " + token
	}
	return fixed{header, token}
}

// Login returns a plugin for client.WithPlugins that sends a user and a password with
// every call, for [Basic].
func Login(user, password string) plugin.BeforeCall {
	return Token("Basic", base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

// Key returns a plugin for client.WithPlugins that sends a key with every call in the
// metadata of that name, for [APIKey].
func Key(name, key string) plugin.BeforeCall { return fixed{name, key} }

type fixed struct{ name, value string }

// BeforeCall adds the credentials.
func (f fixed) BeforeCall(_ context.Context, call *tandem.Call) error {
	call.SetMetadata(f.name, f.value)
	return nil
}

// KeepsNothing implements [plugin.KeepsNothing].
func (fixed) KeepsNothing() {}

// TokenFrom is [Token] for tokens that change: source is called before every call, and its
// error fails the call. It should keep the token until it is about to expire.
func TokenFrom(tag string, source func(ctx context.Context) (token string, err error)) plugin.BeforeCall {
	return sourced{tag, source}
}

type sourced struct {
	tag    string
	source func(ctx context.Context) (string, error)
}

// BeforeCall adds the present credentials.
func (s sourced) BeforeCall(ctx context.Context, call *tandem.Call) error {
	token, err := s.source(ctx)
	if err != nil {
		return coded(err, tandem.Unauthenticated)
	}
	return Token(s.tag, token).BeforeCall(ctx, call)
}

// KeepsNothing implements [plugin.KeepsNothing].
func (sourced) KeepsNothing() {}
