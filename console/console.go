// Package console (experimental) is the web console of tandem: a page that shows every service
// of one or more registries, and changes weights, states and policies.
//
//	c, err := console.New(console.Config{Sources: []console.Registry{{Target: "etcd://h:2379/shop", Resolver: etcd.Resolver()}}})
//	err = c.Serve(ctx, listener)
//
// It reads the registries, and asks the instances that serve package admin. `tandem console` is
// it as a command.
//
// # Safety
//
// Without an Authorizer the console is for one person on the same machine: it serves loopback
// addresses only, whoever has the one-time token of [Console.URL] may look, and nobody may write.
// Requests for other hosts, and requests of other sites, are refused; the page loads nothing from
// elsewhere.
package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
)

// Registry is a registry whose services the console shows.
type Registry struct {
	Target   string            // such as etcd://host:2379/shop; all lists at its path and below are shown
	Resolver registry.Resolver // for targets of its scheme
}

// User is who uses the console.
type User struct {
	Name string
	Role admin.Role
}

// Authorizer says who sends a request; an error, or the role 0, refuses it. It must be safe for
// concurrent use.
type Authorizer func(*http.Request) (User, error)

// Config says what a console shows, and to whom.
type Config struct {
	Sources []Registry
	// Authorizer replaces the one-time token.
	Authorizer Authorizer
	// Writer is the name under which the holder of the one-time token may write; "" for nobody.
	// It is for consoles that an operator starts with his own credentials.
	Writer string
	// Hosts are names by which the console may be addressed, besides those of the loopback
	// interface and the address that it listens on.
	Hosts []string
	// Dial are options for the connections to instances: TLS, credentials.
	Dial []client.Option
	// Audit is called with each change that a user makes or is refused, and with logins; nil for
	// none. It must not block, and must be safe for concurrent use. The last 2,000 records are
	// kept in memory besides, and all go to Log.
	Audit func(Record)
	// Protocols are those by which the playground calls instances, besides tandem's own. They
	// must not be in Dial, too.
	Protocols []client.Protocol
	// DialFor returns options by protocol, after those of Dial, such as a TLS configuration that
	// offers h2 for gRPC; nil for none.
	DialFor func(protocol string) []client.Option
	// TraceURL is the address of a trace in another program, such as Jaeger, Tempo or Grafana,
	// with {trace} in the place of the ID: https://jaeger.example.com/trace/{trace}. "" for none.
	TraceURL string
	// LogoutURL is the page on which users of an Authorizer log out; "" for none.
	LogoutURL string
	Log       *slog.Logger // nil for none
}

// Console is a console. It is safe for concurrent use.
type Console struct {
	cfg    Config
	token  string
	cookie string // name of the cookie: browsers send those of all ports of a host
	logins logins
	pages  http.Handler

	sources []*source
	asker   *asker
	figures figures
	inner   kept[*inside]
	trails  kept[*trail]
	reads   kept[*listRead]
	audit   audit
	gate    callGate

	ctx    context.Context //nolint:containedctx // of its goroutines
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	hosts []string
	used  bool // the token has been exchanged for a cookie
}

// New returns a console, which begins to read its registries. Close ends it.
func New(cfg Config) (*Console, error) {
	if len(cfg.Sources) == 0 {
		return nil, errors.New("console: no registry to show")
	}
	if err := checkAddresses(cfg); err != nil {
		return nil, err
	}
	c := &Console{cfg: cfg, token: rand.Text(), cookie: "tandem-console-" + rand.Text()[:8], hosts: slices.Clone(cfg.Hosts)}
	c.cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.asker = newAsker(cfg.Dial)
	pages, err := newPages()
	if err != nil {
		return nil, err
	}
	c.pages = pages
	for _, r := range cfg.Sources {
		s, err := newSource(c, r)
		if err != nil {
			c.cancel()
			return nil, fmt.Errorf("console: %w", err)
		}
		c.sources = append(c.sources, s)
	}
	for _, s := range c.sources {
		c.wg.Go(s.run)
	}
	c.wg.Go(c.look)
	return c, nil
}

// traceID is what stands for the ID in Config.TraceURL.
const traceID = "{trace}"

// checkAddresses returns an error unless the addresses of other programs are ones that a browser
// may open.
func checkAddresses(cfg Config) error {
	if cfg.TraceURL != "" && !strings.Contains(cfg.TraceURL, traceID) {
		return fmt.Errorf("console: TraceURL %q has no %s, which stands for the ID", cfg.TraceURL, traceID)
	}
	for name, text := range map[string]string{"TraceURL": strings.ReplaceAll(cfg.TraceURL, traceID, "0"), "LogoutURL": cfg.LogoutURL} {
		u, err := url.Parse(text)
		if err == nil && text != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			err = errors.New("want http://HOST or https://HOST")
		}
		if err != nil {
			return fmt.Errorf("console: %s %q: %w", name, text, err)
		}
	}
	return nil
}

// Close ends what the console has begun.
func (c *Console) Close() error {
	c.cancel()
	c.wg.Wait()
	return c.asker.close()
}

// Serve serves the console on a listener until ctx ends; then it returns nil. Without an
// Authorizer the listener must be on a loopback address.
func (c *Console) Serve(ctx context.Context, ln net.Listener) error {
	if c.cfg.Authorizer == nil && !isLoopback(ln.Addr()) {
		return errors.Join(fmt.Errorf("console: %v is no loopback address: others could read along, so an Authorizer is needed", ln.Addr()), ln.Close())
	}
	c.allowHost(ln.Addr().String())
	srv := &http.Server{
		Handler: c.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return c.ctx },
		ErrorLog:    slog.NewLogLogger(c.cfg.Log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(ln); ctx.Err() == nil {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// URL returns the address of the console on a listener, with the one-time token if it has one.
func (c *Console) URL(a net.Addr) string {
	if c.cfg.Authorizer != nil {
		return "http://" + a.String() + "/"
	}
	return "http://" + a.String() + "/?token=" + c.token
}
