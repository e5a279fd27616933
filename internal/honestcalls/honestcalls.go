// Package honestcalls makes honest calls beside an attack. No code can import it: in the import
// table it stands above all that is not a test.
package honestcalls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// Method is what honest clients call. Interceptors of a test let it pass.
const Method = "Honest.Len"

// Serve returns a server with Method that serves a listener until the test ends.
func Serve(t testing.TB, ln net.Listener, opts ...server.Option) *server.Server {
	t.Helper()
	srv := server.New(opts...)
	if err := server.Handle(srv, Method, func(_ context.Context, s *string) (*int, error) { return new(len(*s)), nil }); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		_ = srv.Close() // Shutdown may have closed it
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return srv
}

// pause returns the time between the nth call of a kind and the next: the attack needs the
// processor, too, and a long one does not need ever more calls.
func pause(n int) time.Duration { return time.Duration(min(50+10*n, 500)) * time.Millisecond }

// least is how many calls of each kind there must have been.
const least = 3

// Beside runs an attack while honest clients make native calls and calls over HTTP and gRPC, each on
// a connection that stays and on new ones. It fails the test for every call that fails. The
// address is that of a server of package web, on this network.
func Beside(t testing.TB, network tandem.Transport, address string, attack func()) {
	t.Helper()
	opts := []client.Option{client.WithTransport("honest", network), client.WithTimeout(time.Minute)}
	target := "honest://" + address
	native, err := client.Dial(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = native.Close() }()
	kept := &http.Transport{DialContext: dialer(network, address)}
	defer kept.CloseIdleConnections()
	keptGRPC := overHTTP2(network, address)
	defer keptGRPC.CloseIdleConnections()

	var over atomic.Bool
	var clients sync.WaitGroup
	for kind, call := range map[string]func() error{
		"a native call": func() error { return callNative(native) },
		"a native call on a new connection": func() error {
			c, err := client.Dial(target, opts...)
			if err != nil {
				return err
			}
			return errors.Join(callNative(c), c.Close())
		},
		"a call over HTTP": func() error { return callHTTP(kept) },
		"a call over HTTP on a new connection": func() error {
			return callHTTP(&http.Transport{DialContext: dialer(network, address), DisableKeepAlives: true})
		},
		"a call over gRPC": func() error { return callGRPC(keptGRPC) },
		"a call over gRPC on a new connection": func() error {
			tr := overHTTP2(network, address)
			defer tr.CloseIdleConnections()
			return callGRPC(tr)
		},
	} {
		clients.Go(func() {
			for n := 0; n < least || !over.Load(); n++ {
				if err := call(); err != nil {
					t.Errorf("%s beside the attack: %v", kind, err)
					return
				}
				time.Sleep(pause(n))
			}
		})
	}
	attack()
	over.Store(true)
	clients.Wait()
}

func dialer(network tandem.Transport, address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return network.Dial(ctx, address) }
}

const text = "tandem"

func callNative(c *client.Client) error {
	n, err := client.Invoke[int](context.Background(), c, Method, text)
	if err == nil && *n != len(text) {
		err = fmt.Errorf("answered %d", *n)
	}
	return err
}

func callHTTP(tr *http.Transport) error {
	c := &http.Client{Transport: tr, Timeout: time.Minute}
	res, err := c.Post("http://localhost/"+strings.Replace(Method, ".", "/", 1), "application/json", strings.NewReader(`"`+text+`"`)) //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	b, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil && (res.StatusCode != http.StatusOK || string(b) != strconv.Itoa(len(text))) {
		err = fmt.Errorf("answered %s: %q", res.Status, b)
	}
	return err
}

// overHTTP2 speaks HTTP/2 without TLS.
func overHTTP2(network tandem.Transport, address string) *http.Transport {
	tr := &http.Transport{DialContext: dialer(network, address), Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return tr
}

// callGRPC calls with net/http's client, so that it has nothing in common with the server.
func callGRPC(tr *http.Transport) error {
	c := &http.Client{Transport: tr, Timeout: time.Minute}
	const quoted = `"` + text + `"`
	message := "\x00\x00\x00\x00" + string(rune(len(quoted))) + quoted
	req, err := http.NewRequest(http.MethodPost, "http://localhost/"+strings.Replace(Method, ".", "/", 1), strings.NewReader(message)) //nolint:noctx // the client has a timeout
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/grpc+json")
	req.Header.Set("TE", "trailers")
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	if status := res.Trailer.Get("Grpc-Status"); status != "0" || string(b) != "\x00\x00\x00\x00\x01"+strconv.Itoa(len(text)) {
		return fmt.Errorf("answered %s, status %q: %q %q", res.Status, status+res.Header.Get("Grpc-Status"), res.Header.Get("Grpc-Message"), b)
	}
	return nil
}
