package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/stores/sqlstore"
	"github.com/tandem-rpc/tandem/transport"
)

const (
	echoMethod   = "Lab.Echo"
	quickMethod  = "Lab.Quick"
	streamMethod = "Lab.Stream"
	stallMethod  = "Lab.Stall"

	streamMessages = 10

	lameDuck = 300 * time.Millisecond // lame-duck time of servers with a MaxAge
)

func serveTandem(p serverPlan, h handler) (backend, error) {
	opts := []server.Option{server.WithCodecs(codec.Raw())}
	if p.System == sysOpen {
		opts = append(opts, server.WithoutOverloadControl())
	}
	if p.MaxAge > 0 {
		opts = append(opts, server.WithMaxConnectionAge(p.MaxAge, 0), server.WithLameDuck(lameDuck))
	}
	if p.Registry != "" {
		list, err := newRegistrar(p.Registry)
		if err != nil {
			return backend{}, err
		}
		opts = append(opts, server.WithRegistrar(list, tandem.Instance{}))
	}
	if p.Store != "" {
		keeping, err := onceServing(p.Store)
		if err != nil {
			return backend{}, err
		}
		opts = append(opts, keeping)
	}
	srv := server.New(opts...)
	err := server.Handle(srv, echoMethod, func(ctx context.Context, request *[]byte) (*[]byte, error) {
		if tx, ok := sqlstore.Tx(ctx); ok {
			answer, err := h.inTransaction(ctx, tx, *request)
			return &answer, err
		}
		answer, err := h.serve(ctx, *request)
		return &answer, err
	})
	err = errors.Join(err, server.Handle(srv, quickMethod, func(_ context.Context, request *[]byte) (*[]byte, error) {
		answer, err := h.quick(*request)
		return &answer, err
	}))
	err = errors.Join(err, server.HandleStream(srv, streamMethod, h.tandemStream), server.HandleStream(srv, stallMethod, tandemStall))
	return backend{
		serve: func(ln net.Listener) error { return srv.ServeListener(ln) },
		stop:  srv.Shutdown,
		refused: func() uint64 {
			r := srv.Overload().Refused
			return r.Late + r.Expired + r.Full
		},
	}, err
}

// tandemStream answers each message of a stream. The stream counts as one execution.
func (h handler) tandemStream(_ context.Context, s *tandem.Stream[[]byte, []byte]) error {
	for first := true; ; first = false {
		request, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		answer := (*request)[:answerSize]
		if first {
			if answer, err = h.echo(*request); err != nil {
				return err
			}
		}
		if err := s.Send(&answer); err != nil {
			return err
		}
	}
}

// tandemStall sends messages until the client ends the stream. It does not read the request
// that opened the stream.
func tandemStall(_ context.Context, s *tandem.Stream[[]byte, []byte]) error {
	message := make([]byte, stallSize)
	for {
		if err := s.Send(&message); err != nil {
			return err
		}
	}
}

type tandemCaller struct {
	*client.Client
	plan plan
}

func dialTandem(p plan) (caller, error) {
	opts := []client.Option{client.WithCodec(codec.Raw())}
	for scheme, r := range resolvers() {
		opts = append(opts, client.WithResolver(scheme, r))
	}
	if p.System == sysOpen {
		opts = append(opts, client.WithThrottle(nil))
	}
	if p.Sources {
		opts = append(opts, client.WithTransport("tcp", sourced{transport.TCP(), net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(sourceAddr(p.Client))}}}))
	}
	if p.Retries > 0 {
		opts = append(opts, client.WithFailMode(client.Failover), client.WithRetries(p.Retries), client.WithAttempts(client.Attempts{Budget: &policy.Budget{Share: 1, PerSecond: int(p.Rate)}}))
	}
	if p.Snapshots != "" {
		opts = append(opts, client.WithSnapshots(p.Snapshots))
	}
	c, err := client.Dial(p.target(), opts...)
	return tandemCaller{c, p}, err
}

// sourced is a transport that dials from a given local address.
type sourced struct {
	tandem.Transport

	dialer net.Dialer
}

func (s sourced) Dial(ctx context.Context, address string) (net.Conn, error) {
	return s.dialer.DialContext(ctx, "tcp", address)
}

// call makes a call. A variant that is the name of a fail mode selects that mode; the suffix
// "+safe" marks the call as idempotent.
func (c tandemCaller) call(ctx context.Context, variant string, request []byte) ([]byte, error) {
	switch variant {
	case variantFresh:
		return callFresh(ctx, c.plan, request)
	case variantStream:
		return c.stream(ctx, request)
	}
	var opts []tandem.CallOption
	method := echoMethod
	if variant == variantQuick {
		method, variant = quickMethod, variantDefault
	}
	if variant == variantKeyed {
		opts = append(opts, client.Key("call-"+strconv.FormatUint(binary.BigEndian.Uint64(request), 10)))
		variant = "failover"
	}
	mode, safe := strings.CutSuffix(variant, variantSafe)
	if safe {
		opts = append(opts, client.Idempotent())
	}
	if mode != variantDefault {
		m, ok := failModes()[mode]
		if !ok {
			return nil, fmt.Errorf("variant %q: no such fail mode", variant)
		}
		opts = append(opts, client.FailMode(m))
	}
	var answer []byte
	err := c.Call(ctx, method, &request, &answer, opts...)
	return answer, err
}

// stream exchanges streamMessages messages over 2 s.
func (c tandemCaller) stream(ctx context.Context, request []byte) ([]byte, error) {
	s, err := client.Stream[[]byte, []byte](ctx, c, streamMethod)
	if err != nil {
		return nil, err
	}
	var answer *[]byte
	for range streamMessages {
		if err := s.Send(&request); err != nil {
			return nil, err
		}
		if answer, err = s.Recv(); err != nil {
			return nil, err
		}
		time.Sleep(2 * time.Second / streamMessages)
	}
	return *answer, s.Close()
}

func (c tandemCaller) stall(ctx context.Context) error {
	s, err := client.Stream[[]byte, []byte](ctx, c, stallMethod)
	if err != nil {
		return err
	}
	request := make([]byte, requestHead)
	return s.Send(&request)
}

func failModes() map[string]tandem.FailMode {
	return map[string]tandem.FailMode{
		"failfast": client.Failfast, "failover": client.Failover, "failtry": client.Failtry,
		"failsafe": client.Failsafe, "failback": client.Failback, "broadcast": client.Broadcast,
		"fork": client.Fork, "backup": client.Backup,
	}
}

func (tandemCaller) verdict(err error) (string, bool) {
	if once.ReasonOf(err) == once.Undecided {
		return codeUndecided, !tandem.MayHaveExecuted(err)
	}
	return tandem.CodeOf(err).String(), !tandem.MayHaveExecuted(err)
}

func (c tandemCaller) close() { _ = c.Close() } // the process ends
