package together

import (
	"context"
	"maps"
	"sync"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem"
)

// Gate is a service that holds every call until all clients have called. So no call is answered
// unless all are served at the same time.
type Gate struct {
	all  int
	open chan struct{}

	mu  sync.Mutex
	who map[string]Way
}

// Way is the protocol and the security of a client's connection.
type Way struct {
	Protocol string
	Secure   bool // the connection has TLS
}

// NewGate returns a gate that opens when this number of clients have called.
func NewGate(all int) *Gate {
	return &Gate{all: all, open: make(chan struct{}), who: map[string]Way{}}
}

// Open records the client, waits for the others, and returns how many there are. The name of a
// client must be unique.
func (g *Gate) Open(ctx context.Context, v *Visit) (*Visit, error) {
	if err := g.enter(v.GetClient(), tandem.FromContext(ctx).Peer); err != nil {
		return nil, err
	}
	select {
	case <-g.open:
		return &Visit{Client: v.GetClient(), Inside: int32(g.all)}, nil //nolint:gosec // a few
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Entry is a [Visit] for protocols without messages of Protocol Buffers: net/rpc, whose only
// codec is gob.
type Entry struct {
	Client string `json:"client"`
	Inside int32  `json:"inside"`
}

// OpenPlain is [Gate.Open] for those protocols.
func (g *Gate) OpenPlain(ctx context.Context, e *Entry) (*Entry, error) {
	v, err := g.Open(ctx, &Visit{Client: e.Client})
	return &Entry{v.GetClient(), v.GetInside()}, err
}

func (g *Gate) enter(client string, peer *tandem.Peer) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if client == "" {
		return tandem.Errorf(tandem.InvalidArgument, "the client has no name")
	}
	if _, twice := g.who[client]; twice {
		return tandem.Errorf(tandem.AlreadyExists, "%q has called already", client)
	}
	g.who[client] = Way{peer.Protocol, peer.TLS != nil}
	if len(g.who) == g.all {
		close(g.open)
	}
	return nil
}

// Inside returns the clients that have called, by name.
func (g *Gate) Inside() map[string]Way {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.who)
}

// JavaClassName is the name of the class in Java, for Dubbo.
func (*Visit) JavaClassName() string { return "gate.Visit" }

// Read is like the code that Thrift's compiler generates for gate.thrift: with Read and Write,
// the message of Protocol Buffers is also one of Thrift.
func (x *Visit) Read(ctx context.Context, p thrift.TProtocol) error {
	if _, err := p.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, id, err := p.ReadFieldBegin(ctx)
		if err != nil {
			return err
		}
		switch {
		case kind == thrift.STOP:
			return p.ReadStructEnd(ctx)
		case id == 1 && kind == thrift.STRING:
			x.Client, err = p.ReadString(ctx)
		case id == 2 && kind == thrift.I32:
			x.Inside, err = p.ReadI32(ctx)
		default:
			err = p.Skip(ctx, kind)
		}
		if err != nil {
			return err
		}
	}
}

// Write is the counterpart of Read.
func (x *Visit) Write(ctx context.Context, p thrift.TProtocol) error {
	for _, step := range []func() error{
		func() error { return p.WriteStructBegin(ctx, "Visit") },
		func() error { return p.WriteFieldBegin(ctx, "client", thrift.STRING, 1) },
		func() error { return p.WriteString(ctx, x.GetClient()) },
		func() error { return p.WriteFieldBegin(ctx, "inside", thrift.I32, 2) },
		func() error { return p.WriteI32(ctx, x.GetInside()) },
		func() error { return p.WriteFieldStop(ctx) },
		func() error { return p.WriteStructEnd(ctx) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
