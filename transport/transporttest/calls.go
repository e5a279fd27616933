package transporttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// sample returns n bytes that are not all the same.
func sample(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
	return b
}

func echo(ctx context.Context, c tandem.Caller, msg []byte, opts ...tandem.CallOption) error {
	got, err := client.Invoke[[]byte](ctx, c, "Test.Echo", &msg, append(opts, client.Codec("raw"))...)
	if err != nil {
		return fmt.Errorf("echo of %d bytes: %w", len(msg), err)
	}
	if !bytes.Equal(*got, msg) {
		return fmt.Errorf("echo of %d bytes: %d others came back", len(msg), len(*got))
	}
	return nil
}

// wantCode checks the code of a call's error.
func wantCode(err error, code tandem.Code) error {
	if e, ok := errors.AsType[*tandem.Error](err); !ok || e.Code != code {
		return fmt.Errorf("the error is %w, want one that is %v", orNone(err), code)
	}
	return nil
}

func orNone(err error) error {
	if err == nil {
		return errors.New("none at all")
	}
	return err
}

func roundTrip(s *session) error {
	c, _, _, err := s.both()
	if err != nil {
		return err
	}
	for i := range 100 {
		if err := echo(s.ctx, c, sample(i, i)); err != nil {
			return err
		}
	}
	return wantCode(c.Call(s.ctx, "Test.Missing", &[]byte{}, nil), tandem.Unimplemented)
}

func addresses(s *session) error {
	c, v, _, err := s.both()
	if err != nil {
		return err
	}
	if a := v.ln.Addr(); a == nil || a.Network() == "" || a.String() == "" {
		return fmt.Errorf("the listener's address is %v", a)
	}
	got, err := client.Invoke[[]byte](s.ctx, c, "Test.Peer", &[]byte{}, client.Codec("raw"))
	if err != nil {
		return err
	}
	if encrypted := string(*got) == "tls"; encrypted != s.h.TLS {
		return fmt.Errorf("TLS in the call's Peer: %t, want %t", encrypted, s.h.TLS)
	}
	dialed, _, err := s.pair()
	if err == nil && (dialed.LocalAddr() == nil || dialed.RemoteAddr() == nil) {
		err = fmt.Errorf("the client's end has the addresses %v and %v", dialed.LocalAddr(), dialed.RemoteAddr())
	}
	return err
}

func large(s *session) error {
	const most = 4 << 20
	c, _, _, err := s.both()
	if err != nil {
		return err
	}
	for _, n := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20, most - 1, most} {
		if err := echo(s.ctx, c, sample(n, 1)); err != nil {
			return err
		}
	}
	return nil
}

// streams runs several streams at once, with messages of one byte to several blocks.
func streams(s *session) error {
	c, _, _, err := s.both()
	if err != nil {
		return err
	}
	return together(4, func(seed int) error {
		stream, err := client.Stream[[]byte, []byte](s.ctx, c, "Test.Talk", client.Codec("raw"))
		if err != nil {
			return err
		}
		defer stream.Close()
		const messages = 100
		sent := make(chan error, 1)
		go func() {
			for i := range messages {
				m := sample(1+i*i*5, seed+i)
				if err := stream.Send(&m); err != nil {
					sent <- err
					return
				}
			}
			sent <- stream.CloseSend()
		}()
		for i := range messages {
			m, err := stream.Recv()
			if err != nil || !bytes.Equal(*m, sample(1+i*i*5, seed+i)) {
				return fmt.Errorf("message %d is not the one that was sent: %w", i, orNone(err))
			}
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("after the last message: %w", orNone(err))
		}
		return <-sent
	})
}

func many(s *session) error {
	c, _, _, err := s.both(client.WithConnections(client.Connections{PerInstance: 3}))
	if err != nil {
		return err
	}
	return together(64, func(caller int) error {
		for i := range 20 {
			if err := echo(s.ctx, c, sample((caller*7919+i*104729)%20_000, caller+i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// together runs f in n goroutines.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func deadline(s *session) error {
	c, _, m, err := s.both()
	if err != nil {
		return err
	}
	if err := echo(s.ctx, c, sample(10, 0)); err != nil { // connected
		return err
	}
	err = c.Call(s.ctx, "Test.Wait", &[]byte{}, nil, client.Timeout(200*time.Millisecond))
	if err := wantCode(err, tandem.DeadlineExceeded); err != nil {
		return err
	}
	select {
	case <-m.began:
		if err := s.await("the end of the handler's context", m.ended); err != nil {
			return err
		}
	default: // on a slow machine the handler may not have begun
	}
	return echo(s.ctx, c, sample(10, 0))
}

func canceling(s *session) error {
	c, _, m, err := s.both()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	called := make(chan error, 1)
	go func() { called <- c.Call(ctx, "Test.Wait", &[]byte{}, nil) }()
	if err := s.await("the call", m.began); err != nil {
		return err
	}
	cancel()
	late, err := s.result("the end of the cancelled call", called)
	if err := errors.Join(late, wantCode(err, tandem.Canceled)); err != nil {
		return err
	}
	if err := s.await("the end of the handler's context", m.ended); err != nil {
		return err
	}
	return echo(s.ctx, c, sample(10, 0))
}

func callBack(s *session) error {
	v, _, err := s.serve()
	if err != nil {
		return err
	}
	c, err := s.dial(s.target(v), client.WithFunc("Client.Reverse", func(_ context.Context, in *[]byte) (*[]byte, error) {
		out := bytes.Clone(*in)
		for i, b := range *in {
			out[len(out)-1-i] = b
		}
		return &out, nil
	}))
	if err != nil {
		return err
	}
	got, err := client.Invoke[[]byte](s.ctx, c, "Test.CallBack", new([]byte("abc")), client.Codec("raw"))
	if err == nil && string(*got) != "cba" {
		err = fmt.Errorf("the client's own method answered %q", *got)
	}
	return err
}

// waiting makes a call that stays open.
func (s *session) waiting(c *client.Client, m *methods) (<-chan error, error) {
	called := make(chan error, 1)
	ctx := context.WithoutCancel(s.ctx) // without a deadline
	go func() { called <- c.Call(ctx, "Test.Wait", &[]byte{}, nil) }()
	return called, s.await("the call", m.began)
}

func clientCloses(s *session) error {
	c, _, m, err := s.both()
	if err != nil {
		return err
	}
	called, err := s.waiting(c, m)
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	late, err := s.result("the end of the call", called)
	if err := errors.Join(late, wantCode(err, tandem.Unavailable)); err != nil {
		return err
	}
	return s.await("the end of the handler's context", m.ended)
}

func serverCloses(s *session) error {
	c, v, m, err := s.both()
	if err != nil {
		return err
	}
	called, err := s.waiting(c, m)
	if err != nil {
		return err
	}
	if err := v.Close(); err != nil {
		return err
	}
	late, err := s.result("the end of the call", called)
	return errors.Join(late, wantCode(err, tandem.Unavailable))
}

func comesBack(s *session) error {
	c, v, _, err := s.both(client.WithConnections(client.Connections{Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond}))
	if err != nil {
		return err
	}
	if err := echo(s.ctx, c, sample(10, 0)); err != nil {
		return err
	}
	if err := v.Close(); err != nil {
		return err
	}
	err = s.until("listen on the same address", func() error {
		_, _, err := s.serveAt(s.h.Server, v.ln.Addr().String())
		return err
	})
	if err != nil {
		return err
	}
	return s.until("a call of the new server", func() error { return echo(s.ctx, c, sample(10, 0)) })
}

// until repeats a step until it succeeds.
func (s *session) until(what string, step func() error) error {
	end := time.Now().Add(s.h.within())
	for {
		err := step()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: %w", what, err)
		}
		<-time.After(10 * time.Millisecond) // a condition is polled
	}
}

// vanishes stops the server's process, as far as a client can see: the server sends nothing any
// more, but bytes to it are accepted. A client with an open call sends pings, and must notice.
func vanishes(s *session) error {
	g := &gate{inner: s.h.Server}
	v, m, err := s.serveAt(g, s.h.Address())
	if err != nil {
		return err
	}
	c, err := s.dial(s.target(v), client.WithTimeout(0), client.WithConnections(client.Connections{Silence: 2 * time.Second}))
	if err != nil {
		return err
	}
	called, err := s.waiting(c, m)
	if err != nil {
		return err
	}
	g.frozen.Store(true)
	late, err := s.result("word of the lost peer", called)
	if err := errors.Join(late, wantCode(err, tandem.Unavailable)); err != nil {
		return err
	}
	if e := tandem.AsError(err); e.NotExecuted {
		return fmt.Errorf("a call that has begun is said not to have run: %w", err)
	}
	return nil
}

// drains shuts down one of two servers under load.
func drains(s *session) error {
	leaver, _, err := s.serve()
	if err != nil {
		return err
	}
	stayer, _, err := s.serve()
	if err != nil {
		return err
	}
	both := leaver.ln.Addr().String() + "," + stayer.ln.Addr().String()
	c, err := s.dial("static://" + both + "?transport=" + s.h.Name)
	if err != nil {
		return err
	}
	var calls atomic.Int64
	left := make(chan struct{})
	go func() {
		defer close(left)
		_ = s.until("load", func() error {
			if calls.Load() < 200 {
				return errors.New("few calls")
			}
			return nil
		})
		if err := leaver.Shutdown(s.ctx); err != nil && !errors.Is(err, server.ErrServerClosed) {
			calls.Store(-1 << 40)
		}
	}()
	err = together(16, func(caller int) error {
		for i, after := 0, 0; after < 50; i++ {
			if err := echo(s.ctx, c, sample(i%3000, caller)); err != nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
			calls.Add(1)
			select {
			case <-left:
				after++
			default:
			}
		}
		return nil
	})
	if err == nil && calls.Load() < 0 {
		err = errors.New("the server did not end in good order")
	}
	return err
}
