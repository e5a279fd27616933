package rpcx_test

import (
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/server"
)

// onRegister is a plugin that calls a function when a service is registered, and one when it
// returns its options.
type onRegister struct {
	register func(name string)
	options  func()
}

func (p *onRegister) Register(name string, _ any, _ ...string) error {
	p.register(name)
	return nil
}

func (p *onRegister) ServerOptions() ([]server.Option, error) {
	p.options()
	return nil, nil
}

// soon fails the test if done is not closed within a minute.
func soon(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute): // it would take for ever; a busy machine takes seconds to encode a large request
		t.Fatalf("%s after a minute", what)
	}
}

// TestPluginsAskTheServer: a plugin may call Address and register a further service while the
// server calls the plugin.
func TestPluginsAskTheServer(t *testing.T) {
	srv := rpcx.NewServer()
	var seen, names []string
	p := &onRegister{
		register: func(name string) {
			seen, names = append(seen, srv.Address()), append(names, name)
			if name == "Arith" {
				if err := srv.RegisterName("Other", new(Arith2)); err != nil {
					t.Error(err)
				}
			}
		},
		options: func() { seen = append(seen, srv.Address()) },
	}
	if err := srv.PluginContainer.Add(p); err != nil {
		t.Fatal(err)
	}
	seen = nil // Add asks for options, too
	started := make(chan struct{})
	var at string
	go func() {
		defer close(started)
		at = start(t, srv, new(Arith))
	}()
	soon(t, "the server has not started", started)
	if len(seen) != 3 || seen[0] != at || seen[1] != at || seen[2] != at || len(names) != 2 || names[1] != "Other" {
		t.Errorf("at %s: %q, %q", at, seen, names)
	}
	c := rpcx.NewClient(direct(t, at))
	defer closeAll(t, c)
	var reply Reply
	if err := c.Call("Other.Mul", &Args{7, 8}, &reply); err != nil || reply.C != 560 {
		t.Errorf("%v, %v", reply, err)
	}
}

// TestSlowPluginKeepsNoCallWaiting: calls do not wait for a plugin that is slow with a new
// service.
func TestSlowPluginKeepsNoCallWaiting(t *testing.T) {
	srv := rpcx.NewServer()
	entered, leave := make(chan struct{}), make(chan struct{})
	p := &onRegister{
		register: func(name string) {
			if name == "Slow" {
				close(entered)
				<-leave
			}
		},
		options: func() {},
	}
	if err := srv.PluginContainer.Add(p); err != nil {
		t.Fatal(err)
	}
	s := direct(t, start(t, srv, new(Arith)))
	registered := make(chan struct{})
	go func() {
		defer close(registered)
		if err := srv.RegisterName("Slow", new(Arith2)); err != nil {
			t.Error(err)
		}
	}()
	defer func() { <-registered }()
	defer close(leave)
	<-entered
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if c, err := mul(t, s, rpcx.Failfast); err != nil || c != 56 {
			t.Errorf("%d, %v", c, err)
		}
	}()
	soon(t, "the call is not answered", answered)
}
