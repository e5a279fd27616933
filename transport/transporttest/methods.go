package transporttest

import (
	"context"
	"errors"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// methods are the methods of the suite's servers.
type methods struct {
	began chan struct{} // has an element for each Wait that has begun
	ended chan struct{} // has an element for each Wait whose context has ended
}

func newMethods() *methods {
	return &methods{began: make(chan struct{}, 100), ended: make(chan struct{}, 100)}
}

func (m *methods) register(srv *server.Server) error {
	return errors.Join(
		server.Handle(srv, "Test.Echo", func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil }),
		server.Handle(srv, "Test.Wait", m.wait),
		server.Handle(srv, "Test.CallBack", func(ctx context.Context, in *[]byte) (*[]byte, error) {
			return client.Invoke[[]byte](ctx, server.Peer(ctx), "Client.Reverse", in)
		}),
		server.Handle(srv, "Test.Peer", func(ctx context.Context, _ *[]byte) (*[]byte, error) { return describe(ctx) }),
		server.HandleStream(srv, "Test.Talk", talk))
}

func (m *methods) wait(ctx context.Context, _ *[]byte) (*[]byte, error) {
	m.began <- struct{}{}
	<-ctx.Done()
	m.ended <- struct{}{}
	return nil, ctx.Err()
}

// describe returns whether the caller's connection has TLS, or an error if its addresses are
// missing.
func describe(ctx context.Context) (*[]byte, error) {
	p := tandem.FromContext(ctx).Peer
	if p.Addr == nil || p.LocalAddr == nil {
		return nil, tandem.Errorf(tandem.FailedPrecondition, "the server's end has the addresses %v and %v", p.Addr, p.LocalAddr)
	}
	b := []byte("clear")
	if p.TLS != nil {
		b = []byte("tls")
	}
	return &b, nil
}

// talk sends back what it receives.
func talk(_ context.Context, s *tandem.Stream[[]byte, []byte]) error {
	for m, err := range s.All() {
		if err != nil {
			return err
		}
		if err := s.Send(m); err != nil {
			return err
		}
	}
	return nil
}
