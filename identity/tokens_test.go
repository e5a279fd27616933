package identity_test

import (
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/identity"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

func fixed(token string) identity.Source {
	return func(context.Context) (identity.Token, error) { return identity.Token{Value: token}, nil }
}

// A token is sent over TLS, and not over a connection without it, whatever the protocol.
func TestTokensGoOverTLSOnly(t *testing.T) {
	key := newKey(t)
	v := verifier(t, &key.PublicKey, nil)
	token := sign(t, jwt.SigningMethodES256, key, "", claims())
	serverTLS, clientTLS := testcert.Pair(t, "127.0.0.1")
	var seen atomic.Int64
	count := auth.Func(func(ctx context.Context, c *tandem.Call) (any, error) {
		if c.Metadata.Get("authorization") != "" {
			seen.Add(1)
		}
		return v.Authenticate(ctx, c)
	})
	plain, secure := serve(t, server.WithPlugins(auth.New(count))), serve(t, server.WithPlugins(auth.New(count)), server.WithTLS(serverTLS))
	for _, scheme := range []string{"tcp", "grpc", "connect", "jsonrpc+http", "rpcx"} {
		t.Run(scheme, func(t *testing.T) {
			ask := func(address string, config *tls.Config) error {
				opts := []client.Option{client.WithProtocols(all.Clients()...), client.WithPlugins(identity.Credentials(fixed(token)))}
				if scheme == "grpc" || scheme == "connect" {
					opts = append(opts, client.WithCodec(codec.JSON()))
				}
				if config != nil {
					opts = append(opts, client.WithTLS(config))
				}
				c, err := client.Dial(scheme+"://"+address, opts...)
				if err != nil {
					return err
				}
				defer c.Close()
				return c.Call(t.Context(), "Orders.Get", 1, new(string))
			}
			seen.Store(0)
			err := ask(plain, nil)
			if tandem.CodeOf(err) != tandem.FailedPrecondition || tandem.MayHaveExecuted(err) || !strings.Contains(err.Error(), "no TLS") || seen.Load() != 0 {
				t.Errorf("without TLS: %v; the server saw %d tokens", err, seen.Load())
			}
			if err := ask(secure, clientTLS); err != nil || seen.Load() != 1 {
				t.Errorf("over TLS: %v; the server saw %d tokens", err, seen.Load())
			}
		})
	}
}

// send passes a plugin as a client would, over TLS, and returns what is sent.
func send(ctx context.Context, p interface {
	BeforeRequest(ctx context.Context, call *tandem.Call) error
}) (string, error) {
	c := &tandem.Call{Peer: &tandem.Peer{TLS: &tls.ConnectionState{}}}
	err := p.BeforeRequest(ctx, c)
	return strings.TrimPrefix(c.Metadata.Get("authorization"), "Bearer "), err
}

// A token is kept until shortly before it expires, renewed by one call while others use the old one, and used as
// long as it is valid when its source fails.
func TestTokensAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked int
		var fails error
		var hold chan struct{}
		plugin := identity.Credentials(func(ctx context.Context) (identity.Token, error) {
			asked++
			if hold != nil {
				<-hold
			}
			return identity.Token{Value: string(rune('a' + asked - 1)), Expires: time.Now().Add(10 * time.Minute)}, fails
		})
		check := func(want string, times int) {
			t.Helper()
			if got, err := send(t.Context(), plugin); got != want || (err == nil) != (want != "") || asked != times {
				t.Errorf("sent %q, %v after %d questions; want %q after %d", got, err, asked, want, times)
			}
		}
		check("a", 1)
		time.Sleep(9 * time.Minute)
		check("a", 1)
		time.Sleep(40 * time.Second) // 20 s before it expires
		hold = make(chan struct{})
		var renewing sync.WaitGroup
		renewing.Go(func() { check("b", 2) })
		synctest.Wait()
		check("a", 2) // another call meanwhile
		close(hold)
		renewing.Wait()
		check("b", 2)
		hold, fails = nil, errors.New("the login is down")
		time.Sleep(9*time.Minute + 40*time.Second)
		check("b", 3)
		check("b", 3) // the source is not asked at every call
		time.Sleep(time.Second)
		check("b", 4)
		time.Sleep(20 * time.Second)
		check("", 5)
		check("", 5)
		fails = nil
		time.Sleep(time.Second)
		check("f", 6)
	})
}

// Without a valid token many calls wait for one answer of the source, and each no longer than its context.
func TestFirstTokenIsAwaitedByAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold, asked := make(chan struct{}), 0
		plugin := identity.Credentials(func(context.Context) (identity.Token, error) {
			asked++
			<-hold
			return identity.Token{Value: "a"}, nil
		})
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				if got, err := send(t.Context(), plugin); got != "a" {
					t.Errorf("sent %q, %v", got, err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := send(ctx, plugin); tandem.CodeOf(err) != tandem.Unauthenticated {
			t.Errorf("a call that waited too long: %v", err)
		}
		close(hold)
		calls.Wait()
		if asked != 1 {
			t.Errorf("the source was asked %d times", asked)
		}
	})
}

// A projected token is read again after it was replaced; an empty or missing file is an error that says which.
func TestTokenFilesAreReadAgain(t *testing.T) {
	key := newKey(t)
	path := filepath.Join(t.TempDir(), "token")
	plugin := identity.Credentials(identity.TokenFile(path))
	if _, err := send(t.Context(), plugin); tandem.CodeOf(err) != tandem.Unauthenticated || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a file: %v", err)
	}
	read := func() identity.Token {
		token, err := identity.TokenFile(path)(t.Context())
		if err != nil {
			t.Error(err)
		}
		return token
	}
	for _, sub := range []string{"one", "two"} {
		text := sign(t, jwt.SigningMethodES256, key, "", claims("sub", sub))
		replace(t, path, []byte(text+"\n"))
		if got := read(); got.Value != text || time.Until(got.Expires) < 50*time.Minute || time.Until(got.Renew) > time.Minute {
			t.Errorf("%s: %+v", sub, got)
		}
	}
	replace(t, path, []byte("opaque"))
	if got := read(); got.Value != "opaque" || !got.Expires.IsZero() {
		t.Errorf("of an opaque token: %+v", got)
	}
	for _, text := range []string{"", "\n", "two words"} {
		replace(t, path, []byte(text))
		if got, err := identity.TokenFile(path)(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
