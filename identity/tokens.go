package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

// Token is a token to send.
type Token struct {
	Value   string
	Expires time.Time // zero if it is not known
	Renew   time.Time // when to ask its source again; zero for shortly before it expires
}

// Source returns a token. It is called by one goroutine at a time.
type Source func(ctx context.Context) (Token, error)

// TokenFile is the token in a file, such as those that Kubernetes projects into pods and replaces
// before they expire. It is read again after a minute.
func TokenFile(path string) Source {
	return func(context.Context) (Token, error) {
		text, err := readFile(path, maxToken)
		if err != nil {
			return Token{}, fmt.Errorf("identity: %w", err)
		}
		token := strings.TrimSpace(string(text))
		if token == "" || strings.ContainsAny(token, " \r\n\t") {
			return Token{}, fmt.Errorf("identity: %s has no token", path)
		}
		return Token{token, expiryOf(token), time.Now().Add(time.Minute)}, nil
	}
}

// expiryOf returns the time when a token expires, as it says itself; zero if it is no JWT.
func expiryOf(token string) time.Time {
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
		return time.Time{}
	}
	expires, err := claims.GetExpirationTime()
	if err != nil || expires == nil {
		return time.Time{}
	}
	return expires.Time
}

const (
	margin   = 30 * time.Second // a token is renewed this long before it expires
	tokenFor = 5 * time.Minute  // how long a token is sent of which nothing says when it expires
	retry    = time.Second      // after a source has failed
)

// TokenOption changes what [Credentials] returns.
type TokenOption func(*credentials)

// AllowPlaintext sends tokens over connections without TLS, too: any host on the way can read
// and use them. It is for connections that leave no machine, such as unix sockets.
func AllowPlaintext() TokenOption { return func(c *credentials) { c.plaintext = true } }

// Credentials returns a plugin for client.WithPlugins that sends a bearer token with every attempt. It
// keeps the token until shortly before it expires; when the source fails then, the token is
// sent for as long as it is valid, and the source is asked again. A call fails, as not executed,
// if there is no valid token, or if its connection has no TLS.
func Credentials(s Source, opts ...TokenOption) plugin.BeforeRequest {
	c := &credentials{source: s, turn: make(chan struct{}, 1), now: time.Now}
	for _, o := range opts {
		o(c)
	}
	return c
}

type credentials struct {
	source    Source
	plaintext bool
	turn      chan struct{} // held by the goroutine that asks the source
	failed    error         // why the source failed last; guarded by the turn
	now       func() time.Time

	mu   sync.Mutex
	last Token // with all its times
}

// KeepsNothing implements [plugin.KeepsNothing].
func (*credentials) KeepsNothing() {}

// BeforeRequest adds the token.
func (c *credentials) BeforeRequest(ctx context.Context, call *tandem.Call) error {
	if !c.plaintext && (call.Peer == nil || call.Peer.TLS == nil) {
		return tandem.Errorf(tandem.FailedPrecondition, "the token is not sent, as the connection has no TLS: use client.WithTLS, or identity.AllowPlaintext")
	}
	token, err := c.get(ctx)
	if err != nil {
		return err
	}
	call.SetMetadata("authorization", "Bearer "+token)
	return nil
}

// get returns a valid token.
func (c *credentials) get(ctx context.Context) (string, error) {
	c.mu.Lock()
	last, now := c.last, c.now()
	c.mu.Unlock()
	switch {
	case last.valid(now) && now.Before(last.Renew):
		return last.Value, nil
	case last.valid(now):
		select {
		case c.turn <- struct{}{}: // renew it; other calls go on with the old one
		default:
			return last.Value, nil
		}
	default:
		select {
		case c.turn <- struct{}{}:
		case <-ctx.Done():
			return "", tandem.Errorf(tandem.Unauthenticated, "the call ended while its token was awaited")
		}
	}
	defer func() { <-c.turn }()
	return c.renew(ctx)
}

func (t *Token) valid(now time.Time) bool { return t.Value != "" && now.Before(t.Expires) }

// renew asks the source, unless another call just has. The turn is held.
func (c *credentials) renew(ctx context.Context) (string, error) {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if now := c.now(); now.Before(last.Renew) {
		if last.valid(now) {
			return last.Value, nil
		}
		return "", errNoToken(c.failed)
	}
	fresh, err := c.source(ctx)
	now := c.now()
	if err == nil {
		err = fresh.complete(now)
	}
	if err != nil {
		fresh, c.failed = last, err
		fresh.Renew = now.Add(retry)
	}
	c.mu.Lock()
	c.last = fresh
	c.mu.Unlock()
	if !fresh.valid(now) {
		return "", errNoToken(err)
	}
	return fresh.Value, nil
}

func errNoToken(why error) error {
	return tandem.Errorf(tandem.Unauthenticated, "there is no token to send: %v", why)
}

// complete checks a token and fills in its times.
func (t *Token) complete(now time.Time) error {
	if t.Expires.IsZero() {
		t.Expires = now.Add(tokenFor)
	}
	life := t.Expires.Sub(now)
	switch {
	case t.Value == "":
		return errors.New("the source returned an empty one")
	case life <= 0:
		return fmt.Errorf("the source returned one that expired %v ago", -life.Round(time.Second))
	}
	// A token with a short life is renewed after four fifths of it.
	if early := now.Add(life - min(margin, life/5)); t.Renew.IsZero() || t.Renew.After(early) {
		t.Renew = early
	}
	return nil
}
