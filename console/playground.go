package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/console/rawjson"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/registry"
)

// Bounds of the playground.
const (
	usualCall   = 10 * time.Second // timeout of a call that names none
	maxCall     = time.Minute
	maxStream   = 10 * time.Minute
	maxArgument = 1 << 20 // bytes of one message to send
	maxReply    = 4 << 20 // bytes of one message received
	maxName     = 512     // bytes of a method's name
	maxPairs    = 64      // of metadata
	maxPair     = 8 << 10 // bytes of a key with its value
	callsOfUser = 8       // that run at a time
	callsOfAll  = 64
	maxAsked    = 3    // instances that are asked for schemas, one after the other
	maxListed   = 1000 // instances that Playground lists
)

// ownName is the name of tandem's own protocol, which endpoints without a protocol speak.
const ownName = "tandem"

// callGate counts the calls of the playground that run.
type callGate struct {
	mu     sync.Mutex
	of     map[string]int // by user
	all    int
	stream map[string]*played // by ID
}

// enter lets a call of a user begin; leave must follow.
func (g *callGate) enter(user string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all >= callsOfAll || g.of[user] >= callsOfUser {
		return tandem.Errorf(tandem.ResourceExhausted, "the playground runs %d calls at a time for one user, and %d in all: end one of them first", callsOfUser, callsOfAll)
	}
	if g.of == nil {
		g.of, g.stream = map[string]int{}, map[string]*played{}
	}
	g.of[user]++
	g.all++
	return nil
}

func (g *callGate) leave(user string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.of[user]--; g.of[user] == 0 {
		delete(g.of, user)
	}
}

// playground returns what can be called at a list: the methods, from the first instance that
// describes them, and by which protocols.
func (c *Console) playground(ctx context.Context, _ User, req *PlaygroundRequest) (*Playground, error) {
	l, err := c.list(req.List)
	if err != nil {
		return nil, err
	}
	out := &Playground{Services: []string{}, Instances: []PlayInstance{}, Protocols: []string{}}
	services, protocols := map[string]bool{}, map[string]bool{}
	rows := l.rows()
	for i := range rows {
		r := &rows[i]
		can := c.protocolsOf(&r.Instance)
		for _, p := range can {
			note(protocols, p)
		}
		for _, s := range r.Services {
			if !isOwn(s) {
				note(services, s)
			}
		}
		if len(out.Instances) < maxListed {
			out.Instances = append(out.Instances, PlayInstance{r.ID, r.State, can, targetsOf(&r.Instance, can)})
		}
	}
	out.Services, out.Protocols = sorted(services), sorted(protocols)
	out.describe(ctx, c, rows, req.Instance)
	return out, nil
}

// describe fills in the methods. Enabled instances are asked first.
func (p *Playground) describe(ctx context.Context, c *Console, rows []InstanceRow, id string) {
	rows = slices.DeleteFunc(rows, func(r InstanceRow) bool { return !answers(&r.Instance) || id != "" && r.ID != id })
	slices.SortStableFunc(rows, func(a, b InstanceRow) int { return cmp.Compare(rank(a.State), rank(b.State)) })
	p.Error = "no instance has the admin API, which describes methods"
	for i := range rows[:min(len(rows), maxAsked)] {
		s, err := ask[admin.Schema](ctx, c.asker, &rows[i].Instance, "Schema", admin.SchemaRequest{})
		if err != nil {
			p.Error = rows[i].ID + ": " + short(err)
			continue
		}
		s.Methods = slices.DeleteFunc(s.Methods, func(m admin.MethodSchema) bool { return isAdmin(m.Method) })
		p.Schema, p.Described, p.Error = s, rows[i].ID, ""
		return
	}
}

func rank(s State) int {
	if s == State(override.Enabled) {
		return 0
	}
	return 1
}

// protocolsOf returns the protocols by which an instance can be called with JSON, its own first.
// Where tandem's own is spoken, others may be, too: the registry does not say.
func (c *Console) protocolsOf(in *tandem.Instance) []string {
	names := []string{}
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, e := range in.Endpoints {
		p := cmp.Or(e.Protocol, ownName)
		if p == ownName {
			add(ownName)
		}
		for _, known := range c.cfg.Protocols {
			if takesJSON(known) && (p == ownName || p == known.Name()) {
				add(known.Name())
			}
		}
	}
	return names
}

func takesJSON(p client.Protocol) bool {
	return slices.ContainsFunc(p.Codecs(), func(c tandem.Codec) bool { return c.Name() == "json" })
}

// endpointFor returns the endpoint at which an instance is called by a protocol: one of it, or else
// that of tandem's own protocol, whose port may speak others.
func endpointFor(in *tandem.Instance, protocol string) (tandem.Endpoint, bool) {
	for _, e := range in.Endpoints {
		if cmp.Or(e.Protocol, ownName) == protocol {
			return e, true
		}
	}
	for _, e := range in.Endpoints {
		if cmp.Or(e.Protocol, ownName) == ownName {
			e.Protocol = protocol
			return e, true
		}
	}
	return tandem.Endpoint{}, false
}

// targetsOf returns the targets at which a command calls an instance, by protocol.
func targetsOf(in *tandem.Instance, protocols []string) map[string]string {
	targets := map[string]string{}
	for _, p := range protocols {
		e, ok := endpointFor(in, p)
		switch {
		case !ok:
		case p == ownName:
			targets[p] = cmp.Or(e.Transport, "tcp") + "://" + e.Address
		case cmp.Or(e.Transport, "tcp") == "tcp":
			targets[p] = p + "://" + e.Address
		}
	}
	return targets
}

// isAdmin reports whether a name may reach the admin API of an instance by any protocol's way of
// writing names: there the console's own role counts, and not the user's.
func isAdmin(method string) bool {
	letters := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(method))
	return strings.HasPrefix(letters, "tandemadmin")
}

// check refuses requests out of bounds.
func (r *CallRequest) check(stream bool) error {
	most := maxCall
	if stream {
		most = maxStream
	}
	switch {
	case r.Method == "" || len(r.Method) > maxName || strings.ContainsFunc(r.Method, isOdd):
		return tandem.Errorf(tandem.InvalidArgument, "method %.60q: want a name such as Cart.Add", r.Method)
	case isAdmin(r.Method):
		return tandem.Errorf(tandem.PermissionDenied, "the admin API is not called from the playground: the console's screens use it, with your role")
	case len(r.Arguments) > maxArgument:
		return tandem.Errorf(tandem.InvalidArgument, "the arguments have %d bytes, and may have %d", len(r.Arguments), maxArgument)
	case strings.TrimSpace(r.Arguments) != "" && !json.Valid([]byte(r.Arguments)):
		return tandem.Errorf(tandem.InvalidArgument, "the arguments are not JSON")
	case r.Timeout < 0 || r.Timeout > most:
		return tandem.Errorf(tandem.InvalidArgument, "a timeout is at most %v", most)
	}
	return checkMetadata(r.Metadata)
}

// isOdd reports whether a character has no place in a method's name: some protocols put names into
// a path, where it would mean something else.
func isOdd(c rune) bool { return c <= ' ' || c == 0x7f || strings.ContainsRune(`/%?#\`, c) }

func checkMetadata(pairs []Pair) error {
	if len(pairs) > maxPairs {
		return tandem.Errorf(tandem.InvalidArgument, "%d pairs of metadata, at most %d", len(pairs), maxPairs)
	}
	for _, p := range pairs {
		if p.Key == "" || len(p.Key)+len(p.Value) > maxPair {
			return tandem.Errorf(tandem.InvalidArgument, "metadata %.60q: a key is not empty, and has at most %d bytes with its value", p.Key, maxPair)
		}
	}
	return nil
}

// options returns the options of the call, which fill in what is known of it in the end.
func (r *CallRequest) options(e *client.Explanation, ended tandem.CallOption, timeout time.Duration) []tandem.CallOption {
	opts := []tandem.CallOption{client.Timeout(timeout), client.Explain(e), ended, client.FailMode(client.Failfast)}
	for _, p := range r.Metadata {
		opts = append(opts, client.Metadata(p.Key, p.Value))
	}
	return opts
}

// arguments returns what is sent as the call's arguments.
func (r *CallRequest) arguments() (any, error) {
	text := []byte(strings.TrimSpace(r.Arguments))
	switch {
	case len(text) == 0 && !r.Several:
		return nil, nil //nolint:nilnil // the zero value, which every method takes
	case len(text) == 0:
		return tandem.Args{}, nil
	case !r.Several || r.Protocol == "grpc" || r.Protocol == "connect": // their messages are one JSON value
		return json.RawMessage(text), nil
	}
	args, err := rawjson.Several(text)
	if err != nil {
		return nil, tandem.Errorf(tandem.InvalidArgument, "the arguments are not an array: %v", err)
	}
	return args, nil
}

// mayPlay refuses users who may not call methods, of which the console does not know what they
// change.
func (c *Console) mayPlay(u User) error {
	if c.cfg.Authorizer == nil && c.cfg.Writer == "" {
		return tandem.Errorf(tandem.PermissionDenied, "this console is read-only, and a call may change something: start it with a name, as in tandem console --as ann")
	}
	return allow(u, admin.Developer)
}

// listed is the resolver of a list that has been read.
type listed []tandem.Instance

// Watch delivers the list.
func (l listed) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	update(registry.Snapshot{Instances: l, Revision: 1})
	<-ctx.Done()
	return ctx.Err()
}

// dialListed returns a client of the instances that a registry lists at this moment, of those that
// get calls or of the one that is named, for a protocol. No address comes from the request.
func (c *Console) dialListed(ctx context.Context, req *CallRequest) (*client.Client, error) {
	l, err := c.list(req.List)
	if err != nil {
		return nil, err
	}
	all, err := registry.List(ctx, l.source.resolver, l.target)
	if err != nil {
		return nil, tandem.Errorf(tandem.Unavailable, "the registry of %s can't be read: %v", l.name, err)
	}
	if req.Instance == "" {
		l.mu.Lock()
		set := l.set
		l.mu.Unlock()
		all = set.Apply(all, time.Now()).Enabled
	}
	protocol := cmp.Or(req.Protocol, ownName)
	var usable listed
	found := false
	for _, in := range all {
		if req.Instance != "" && in.ID != req.Instance {
			continue
		}
		found = true
		if e, ok := endpointFor(&in, protocol); ok && slices.Contains(c.protocolsOf(&in), protocol) {
			in.Endpoints = []tandem.Endpoint{e}
			usable = append(usable, in)
		}
	}
	switch {
	case !found && req.Instance != "":
		return nil, tandem.Errorf(tandem.NotFound, "no instance %q in %s", req.Instance, l.name)
	case !found:
		return nil, tandem.Errorf(tandem.Unavailable, "%s lists no instance that gets calls", l.name)
	case len(usable) == 0:
		return nil, tandem.Errorf(tandem.FailedPrecondition, "no instance can be called by the protocol %q: choose another", protocol)
	}
	var more []client.Option
	if c.cfg.DialFor != nil {
		more = c.cfg.DialFor(protocol)
	}
	return client.Dial("listed://"+l.source.target.Scheme, slices.Concat(c.cfg.Dial, more, []client.Option{
		client.WithProtocols(c.cfg.Protocols...), client.WithResolver("listed", usable),
		client.WithCodec(rawjson.Codec()), client.WithMaxMessage(maxReply), client.WithFailMode(client.Failfast),
	})...)
}

// call makes a unary call.
func (c *Console) call(ctx context.Context, u User, req *CallRequest) (*CallAnswer, error) {
	if err := c.mayPlay(u); err != nil {
		return nil, err
	}
	if err := req.check(false); err != nil {
		return nil, err
	}
	args, err := req.arguments()
	if err != nil {
		return nil, err
	}
	if err := c.gate.enter(u.Name); err != nil {
		return nil, err
	}
	defer c.gate.leave(u.Name)
	on, err := c.dialListed(ctx, req)
	if err != nil {
		return nil, err
	}
	defer on.Close() //nolint:errcheck // the call is over
	var e client.Explanation
	var trailer tandem.Metadata
	var reply []byte
	began := time.Now()
	err = on.Call(ctx, req.Method, args, &reply, req.options(&e, client.Trailer(&trailer), cmp.Or(req.Timeout, usualCall))...)
	out := answerOf(err, &e, trailer)
	out.Began, out.Took, out.Sent, out.Received = began, time.Since(began), len(req.Arguments), len(reply)
	if err == nil {
		if out.Result, err = rawjson.Text(reply); err != nil {
			return nil, err
		}
	}
	c.recordCall(ctx, u, req, out)
	return out, nil
}

// answerOf returns how a call ended.
func answerOf(err error, e *client.Explanation, trailer tandem.Metadata) *CallAnswer {
	out := &CallAnswer{Code: tandem.CodeOf(err).String(), Metadata: trailer}
	if n := len(e.Attempts); n > 0 {
		out.Instance = e.Attempts[n-1].Chosen
	}
	if err != nil {
		failed := tandem.AsError(err)
		out.Code, out.Message, out.NotExecuted, out.Remote = failed.Code.String(), failed.Message, failed.NotExecuted, failed.Remote
		for _, d := range failed.Details {
			out.Details = append(out.Details, CallDetail(d))
		}
	}
	return out
}

// recordCall records a call without its arguments. Whether it changes something only its method knows.
func (c *Console) recordCall(ctx context.Context, u User, req *CallRequest, out *CallAnswer) {
	rec := describeCall(req, out.Instance)
	rec.Who, rec.Role, rec.Method = u.Name, u.Role.String(), "Call"
	if own := ownLogin(ctx); own != nil {
		rec.From = own.address
	}
	rec.What += ": " + out.Code
	c.record(ctx, *rec)
}

// describeCall says what a call is that was made at an instance; "" for none.
func describeCall(req *CallRequest, instance string) *Record {
	at := cmp.Or(instance, req.Instance, "no instance")
	return &Record{List: req.List, What: fmt.Sprintf("call of %s at %s by %s", req.Method, at, cmp.Or(req.Protocol, ownName))}
}
