package transporttest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// startTLS checks that WithTLS of a server takes effect, whether it serves the transport by
// name or its listener, or is an error before a connection is accepted.
func startTLS(s *session) error {
	serverTLS, clientTLS, err := certificates()
	if err != nil {
		return err
	}
	clientTLS.ServerName = "localhost"
	for _, byName := range []bool{true, false} {
		address, err := s.startTLS(serverTLS, byName)
		if err != nil {
			return err
		}
		if address == "" {
			continue // it was refused
		}
		if err := s.mustBeTLS(s.h.Name+"://"+address, clientTLS); err != nil {
			return fmt.Errorf("a server with WithTLS, served by its name %v: %w", byName, err)
		}
	}
	return nil
}

// startTLS starts a server and returns its address; "" if the server refused WithTLS.
func (s *session) startTLS(config *tls.Config, byName bool) (address string, err error) {
	srv := server.New(server.WithTransport(s.h.Name, s.h.Server), server.WithTLS(config))
	if err := newMethods().register(srv); err != nil {
		return "", err
	}
	var ln net.Listener
	if !byName {
		if ln, err = s.h.Server.Listen(s.ctx, s.h.Address()); err != nil {
			return "", err
		}
	}
	served := make(chan error, 1) // Close waits for the server
	go func() {
		if byName {
			served <- srv.Serve(s.h.Name, s.h.Address())
		} else {
			served <- srv.ServeListener(ln)
		}
	}()
	s.atEnd(func() { _ = srv.Close() })
	for range 1000 * int(s.h.within()/time.Second) {
		select {
		case err := <-served:
			return "", refusal(err)
		case <-time.After(time.Millisecond): // polls: a server does not report that it listens
		}
		if all := srv.Addrs(); len(all) > 0 {
			return all[0].String(), nil
		}
	}
	return "", errors.New("a server with WithTLS neither listens nor says why not")
}

// refusal returns nil if err is a server's refusal of WithTLS.
func refusal(err error) error {
	if err == nil || !strings.Contains(err.Error(), "WithTLS") {
		return fmt.Errorf("a server with WithTLS does not serve, and the error does not say why: %w", orNone(err))
	}
	return nil
}

// mustBeTLS checks that a client with TLS is served, and one without TLS is not.
func (s *session) mustBeTLS(target string, config *tls.Config) error {
	c, err := s.dial(target, client.WithTLS(config))
	if err != nil {
		return err
	}
	state, err := client.Invoke[[]byte](s.ctx, c, "Test.Peer", new([]byte), client.Codec("raw"))
	if err != nil || string(*state) != "tls" {
		return fmt.Errorf("a client with TLS: %w", orNone(err))
	}
	plain, err := s.dial(target, client.WithWait(500*time.Millisecond))
	if err != nil {
		return err
	}
	if err := plain.Call(s.ctx, "Test.Peer", new([]byte), new([]byte), client.Codec("raw")); err == nil || tandem.MayHaveExecuted(err) {
		return fmt.Errorf("a client without TLS: the error is %w", orNone(err))
	}
	return nil
}
