package services_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/tandemtest"
)

// start serves what register adds, and returns a client.
func start(t *testing.T, register func(*server.Server) error, opts ...server.Option) *client.Client {
	t.Helper()
	network := tandemtest.NewNetwork(t)
	network.Serve("services", register, opts...)
	return network.Dial("services")
}

// An instance is announced when it is registered, also if there is no registry.
func TestAnnounce(t *testing.T) {
	in := tandem.Instance{ID: "s1", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}}}
	list := registry.NewMemory()
	for what, r := range map[string]registry.Registrar{"a registry": list, "no registry": nil} {
		var announced []string
		registrar := services.Announce(r, func(in tandem.Instance) { announced = append(announced, in.ID) })
		entry, err := registrar.Register(t.Context(), in)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := errors.Join(entry.Update(t.Context(), in), entry.Close()); err != nil || !slices.Equal(announced, []string{"s1"}) {
			t.Errorf("%s: announced %q, %v", what, announced, err)
		}
	}
	down := errors.New("down")
	list.Fail(down)
	_, err := services.Announce(list, func(tandem.Instance) { t.Error("announced without being listed") }).Register(t.Context(), in)
	if !errors.Is(err, down) {
		t.Errorf("registering in an outage: %v", err)
	}
}

func TestServices(t *testing.T) {
	c := start(t, services.Register)
	ctx := t.Context()
	product, err := client.Invoke[services.Reply](ctx, c, services.Mul, &services.Args{A: 7, B: 8})
	if err != nil || product.C != 56 {
		t.Errorf("Mul: %v, %v", product, err)
	}
	var quotient, remainder int
	err = c.Call(ctx, "Arith.Div", tandem.Args{17, 5}, tandem.Results{&quotient, &remainder})
	if err != nil || quotient != 3 || remainder != 2 {
		t.Errorf("Div: %d, %d, %v", quotient, remainder, err)
	}
	if err := c.Call(ctx, "Arith.Div", tandem.Args{17, 0}, nil); tandem.CodeOf(err) != tandem.InvalidArgument {
		t.Errorf("Div by zero: %v", err)
	}
	for _, codec := range []string{"generated", "json"} {
		sent := services.Greeting{Name: "world", Letter: "dear world"}
		answer, err := client.Invoke[services.Greeting](ctx, c, services.Say, &sent, client.Codec(codec))
		if want := (services.Greeting{Name: "world", Answer: "Hello, world", Letter: "dear world"}); err != nil || *answer != want {
			t.Errorf("Say in %s: %+v, %v", codec, answer, err)
		}
	}
}

func TestGreetingRefusesInvalidData(t *testing.T) {
	whole, err := (&services.Greeting{Name: "world", Letter: "dear world"}).MarshalAppend(nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := new(services.Greeting).Unmarshal(whole[:n]); err == nil {
			t.Errorf("the first %d bytes of %q were accepted", n, whole)
		}
	}
	if err := new(services.Greeting).Unmarshal(append(whole, 0)); err == nil {
		t.Error("a byte after the message was accepted")
	}
}

func TestTalk(t *testing.T) {
	c := start(t, services.Register)
	s, err := client.Stream[services.Line, services.Line](t.Context(), c, services.Talk)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, text := range []string{"hello", "goodbye"} {
		if err := s.Send(&services.Line{Text: text}); err != nil {
			t.Fatal(err)
		}
		if line, err := s.Recv(); err != nil || line.Text != "you said: "+text {
			t.Errorf("got %v, %v", line, err)
		}
	}
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
	for line, err := range s.All() {
		t.Errorf("after the end: %v, %v", line, err)
	}
}

func TestLedgerWritesBeforeItAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	for range 2 { // opened again, it appends
		ledger, err := services.OpenLedger(path)
		if err != nil {
			t.Fatal(err)
		}
		c := start(t, ledger.Serve)
		receipt, err := client.Invoke[services.Receipt](t.Context(), c, services.Append, &services.Entry{ID: 42})
		if err != nil || receipt.ID != 42 {
			t.Errorf("got %v, %v", receipt, err)
		}
		ledger.Close()
		_, err = client.Invoke[services.Receipt](t.Context(), c, services.Append, &services.Entry{ID: 43})
		if tandem.CodeOf(err) != tandem.DataLoss {
			t.Errorf("what can't be written: %v", err)
		}
	}
	if data, err := os.ReadFile(path); string(data) != "42\n42\n" {
		t.Errorf("journal %q, %v", data, err)
	}
}

func TestHold(t *testing.T) {
	holder := new(services.Holder)
	ran := make(chan struct{}, 1)
	c := start(t, func(srv *server.Server) error {
		return server.Handle(srv, "A.B", func(context.Context, *services.Args) (*services.Reply, error) {
			ran <- struct{}{}
			return new(services.Reply), nil
		})
	}, server.WithInterceptors(holder.Intercept))
	const hold = 50 * time.Millisecond
	began := time.Now()
	p := c.Go(t.Context(), "A.B", new(services.Args), nil, nil, services.Hold(hold))
	<-ran
	if n := holder.Running(); n != 1 {
		t.Errorf("%d calls running while one is held", n)
	}
	if <-p.Done; p.Error != nil || time.Since(began) < hold {
		t.Errorf("answered after %v, %v", time.Since(began), p.Error)
	}
	if n := holder.Running(); n != 0 {
		t.Errorf("%d calls running afterwards", n)
	}
}
