// Package admin (experimental) shows what a process does, over its own port: its services with
// rates, errors and percentiles, its connections and running calls, its clients with their
// instances and breakers, a tap of calls and recent traces; and it lets operators change the
// level of the log and force breakers.
//
//	a := admin.New()
//	srv := server.New(server.WithPlugins(a))       // a sees the calls
//	err := a.Register(srv)                         // and answers on the same port
//	c, err := a.Dial("etcd://h:2379/shop/Cart")    // client.Dial, and a sees the client
//
// The methods of the service [Service] are ordinary ones: every protocol of the server's port
// reaches them, with JSON or with Go's types of this package. `tandem top`, `tandem tap` and the
// console use them.
//
// # Who may call
//
// Without [WithAuthorizer] only local callers are answered, with the role [Developer]:
// an address of the loopback interface, a unix socket, or memory. A call that a proxy has
// forwarded does not count as local. See [Role].
//
// # What it costs
//
// Counting a call takes no lock and allocates nothing. Calls of a method are timed one by one up
// to some 2,000 a second, and beyond it as a random sample of about as many, of which the
// percentiles are. A goroutine keeps the history; it ends with the servers.
package admin

import (
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// Service is the name under which the methods are registered.
const Service = "tandem.Admin"

// Other stands for methods that are not counted by name: at a server those that do not exist, at
// clients those beyond [MaxCalled], and names that are not UTF-8.
const Other = "_OTHER"

// MaxCalled is how many methods of clients are counted by name.
const MaxCalled = 512

// mostShards bounds the memory of a method.
const mostShards = 64

// Option changes what [New] returns.
type Option func(*Admin)

// WithAuthorizer sets who may call what, in place of local callers that may read.
func WithAuthorizer(f Authorizer) Option { return func(a *Admin) { a.authorize = f } }

// WithLogLevel lets operators read and change the level of the process's log.
func WithLogLevel(level *slog.LevelVar) Option { return func(a *Admin) { a.level = level } }

// WithLogger sets where writes are logged, as well as kept for [Admin.Audit]. Without it they are
// kept only.
func WithLogger(l *slog.Logger) Option { return func(a *Admin) { a.log = l } }

// WithPayloads lets taps show the messages of calls to callers with the role [Administrator].
// redact is called with the JSON of each message, and returns what may be seen; nil hides the
// values of fields whose names hold one of password, passwd, secret, token, credential,
// authorization, cookie and key.
func WithPayloads(redact func(method string, message []byte) []byte) Option {
	return func(a *Admin) { a.payloads, a.redact = true, redact }
}

// Admin is a plugin of servers and clients that counts their calls, and the service that shows
// them. It is safe for concurrent use.
type Admin struct {
	authorize Authorizer
	level     *slog.LevelVar
	log       *slog.Logger
	payloads  bool
	redact    func(method string, message []byte) []byte

	began      time.Time
	shards     int
	processors sync.Pool // of *processor
	given      atomic.Uint32
	all        atomic.Pointer[map[key]*method] // copied to be changed
	taps       atomic.Pointer[[]*tap]          // copied to be changed; nil while there is none
	spans      ring[Span]
	writes     ring[Change]
	keep       atomic.Uint32 // which traces are kept: see keepsTrace
	kept       atomic.Uint32 // spans that were kept since the last tick

	forcing sync.Mutex            // serialises what forces breakers
	forced  map[breakerKey]forced // guarded by forcing

	mu      sync.Mutex
	called  int // methods of clients
	servers []*server.Server
	clients map[string]*client.Client // by name
	changes int                       // writes ever made
	sampler bool                      // the goroutine that samples runs
	undo    map[string]func() error   // by ID of the change
}

// key identifies a method of one side, and at clients of one client.
type key struct {
	client string // "" for the server's side
	method string
}

// New returns an Admin that has seen nothing.
func New(opts ...Option) *Admin {
	a := &Admin{began: time.Now(), shards: min(runtime.GOMAXPROCS(0), mostShards), clients: map[string]*client.Client{}, undo: map[string]func() error{}, forced: map[breakerKey]forced{}}
	a.processors.New = func() any { return &processor{shard: int(a.given.Add(1)) % a.shards, random: rand.Uint64()} }
	a.all.Store(&map[key]*method{})
	a.spans.size, a.writes.size = maxSpans, maxChanges
	for _, o := range opts {
		o(a)
	}
	return a
}

// KeepsNothing implements [plugin.KeepsNothing].
func (*Admin) KeepsNothing() {}

// Register serves the methods of [Service] on srv, and shows srv in them. Give the Admin to srv's
// server.WithPlugins, too, else its calls are not counted. Before the first Register calls are
// counted and not timed. What is kept over time ends when srv begins to shut down.
func (a *Admin) Register(srv *server.Server) error {
	if err := a.serve(srv); err != nil {
		return err
	}
	a.Watch(srv)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.sampler {
		a.sampler = true
		for _, m := range *a.all.Load() {
			m.skip.Store(0)
		}
		go a.sample(srv.Draining())
	}
	return nil
}

// Watch shows srv in the answers of a server on which the Admin is registered, for one that does
// not serve [Service] itself.
func (a *Admin) Watch(srv *server.Server) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.servers = append(a.servers, srv)
}

// Dial is [client.Dial]; the calls of the client are counted, and it is shown under its target.
// A second client of the same target is shown as the target with "#2" behind it. Close the client
// as usual: then it is shown no more.
func (a *Admin) Dial(target string, opts ...client.Option) (*client.Client, error) {
	name := a.reserve(target)
	c, err := client.Dial(target, append(slices.Clip(opts), client.WithPlugins(a.callsOf(name)))...)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		delete(a.clients, name)
		return nil, err
	}
	a.clients[name] = c
	return c, nil
}

// errNoClient is the error of requests about clients that do not exist.
// knows reports whether a client has this name, or had it and was called.
func (a *Admin) knows(client string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, open := a.clients[client]; open {
		return true
	}
	for k := range *a.all.Load() {
		if k.client == client {
			return true
		}
	}
	return false
}

var errNoClient = &tandem.Error{Code: tandem.NotFound, Message: "no client of this name: see the list of clients"}
