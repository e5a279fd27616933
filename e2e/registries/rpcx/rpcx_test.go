// Package rpcx runs rpcx's own discovery and its own register plugins against the
// directories that tandem's registries write and read in rpcx's layout, on real
// servers of etcd and ZooKeeper.
package rpcx

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/smallnest/rpcx/client"
	"github.com/smallnest/rpcx/log"
	"github.com/smallnest/rpcx/protocol"
	"github.com/smallnest/rpcx/server"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

func TestMain(m *testing.M) {
	log.SetDummyLogger()
	m.Run()
}

// The directory of the tests' only service: rpcx's base path and the service's name.
const base, service = "/rpcx_test", "Who"

// ttl is the time to live of tandem's registrations.
const ttl = 3 * time.Second

// who is an rpcx service whose method returns the name of its server.
type who struct{ name string }

func (w *who) Are(_ context.Context, _ *string, reply *string) error {
	*reply = w.name
	return nil
}

// serve runs an rpcx server until the test ends, and returns it and its address. plugin
// may be nil.
func serve(t *testing.T, name string, plugin func(address string) server.Plugin, metadata string) (*server.Server, string) {
	t.Helper()
	s := server.NewServer()
	address := registrytest.FreeAddress(t)
	if plugin != nil {
		s.Plugins.Add(plugin("tcp@" + address))
	}
	if err := s.RegisterName(service, &who{name}, metadata); err != nil {
		t.Fatal(err)
	}
	go s.Serve("tcp", address)
	t.Cleanup(func() { s.Close() })
	<-s.Started
	return s, address
}

// on runs a test with each registry that has rpcx's layout.
func on(t *testing.T, test func(t *testing.T, k kind, b *backend)) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k, k.start(t))
		})
	}
}

// An rpcx client finds servers that are registered with tandem's registry, calls them by
// their weight and group, and does not call a server that has left.
func TestRPCXFindsTandemInstances(t *testing.T) {
	on(t, func(t *testing.T, k kind, b *backend) {
		r := k.open(t, b)
		_, blue := serve(t, "blue", nil, "")
		_, green := serve(t, "green", nil, "")
		first := register(t, r, rpcxInstance(blue, "blue", 3))
		d, err := k.discover(b)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		finds(t, d, "tcp@"+blue)
		second := register(t, r, rpcxInstance(green, "green", 1))
		finds(t, d, "tcp@"+blue, "tcp@"+green)

		option := client.DefaultOption
		option.SerializeType = protocol.JSON
		x := client.NewXClient(service, client.Failtry, client.WeightedRoundRobin, d, option)
		defer x.Close()
		if got := calls(t, x, 8); got["blue"] != 6 || got["green"] != 2 {
			t.Errorf("calls by weight: %v, want 6 of blue and 2 of green", got)
		}
		option.Group = "green"
		grouped := client.NewXClient(service, client.Failtry, client.RoundRobin, d, option)
		defer grouped.Close()
		if got := calls(t, grouped, 4); got["green"] != 4 {
			t.Errorf("calls in the group green: %v", got)
		}

		if err := second.Close(); err != nil {
			t.Error(err)
		}
		finds(t, d, "tcp@"+blue)
		if got := calls(t, x, 4); got["blue"] != 4 {
			t.Errorf("calls when green has gone: %v", got)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		finds(t, d)
	})
}

// Tandem's registry finds a server that is registered with rpcx's plugin, which writes its
// entry again and again, next to an instance of its own.
func TestTandemFindsRPCXServers(t *testing.T) {
	on(t, func(t *testing.T, k kind, b *backend) {
		r := k.open(t, b)
		ours := rpcxInstance("10.0.0.1:8972", "blue", 3)
		entry := register(t, r, ours)
		defer entry.Close()
		w := watch(t, r, b.target())
		w.sees(t, "tcp://10.0.0.1:8972")

		s, address := serve(t, "theirs", func(address string) server.Plugin { return k.plugin(t, b, address) }, "weight=7&group=green&flavour=sweet")
		theirs := "tcp://" + address
		list := w.sees(t, "tcp://10.0.0.1:8972", theirs)
		i := slices.IndexFunc(list, func(in tandem.Instance) bool { return in.Endpoints[0].Address == address })
		got := list[i]
		if got.Weight != 7 || got.Group != "green" || got.Tags["flavour"] != "sweet" {
			t.Errorf("rpcx's server is listed as %+v", got)
		}
		if want := (tandem.Endpoint{Transport: "tcp", Address: address, Protocol: "rpcx"}); got.Endpoints[0] != want {
			t.Errorf("its endpoint is %+v, want %+v", got.Endpoints[0], want)
		}
		if err := s.UnregisterAll(); err != nil {
			t.Fatal(err)
		}
		w.sees(t, "tcp://10.0.0.1:8972")
	})
}

// TestOneList lists one server with rpcx's plugin and one with tandem: rpcx's discovery
// and tandem's watch find both.
func TestOneList(t *testing.T) {
	on(t, func(t *testing.T, k kind, b *backend) {
		_, theirs := serve(t, "theirs", func(address string) server.Plugin { return k.plugin(t, b, address) }, "weight=1")
		_, ours := serve(t, "ours", nil, "")
		r := k.open(t, b)
		w := watch(t, r, b.target())
		w.sees(t, "tcp://"+theirs)
		register(t, r, rpcxInstance(ours, "", 1))
		d, err := k.discover(b)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		finds(t, d, "tcp@"+ours, "tcp@"+theirs)
		w.sees(t, "tcp://"+ours, "tcp://"+theirs)
		x := client.NewXClient(service, client.Failtry, client.RoundRobin, d, client.DefaultOption)
		defer x.Close()
		if got := calls(t, x, 4); got["ours"] != 2 || got["theirs"] != 2 {
			t.Errorf("calls in turn: %v", got)
		}
	})
}

// rpcxInstance returns an instance with the ID that an entry in rpcx's layout gets from
// its key.
func rpcxInstance(address, group string, weight int) tandem.Instance {
	return tandem.Instance{
		ID: "tcp://" + address, Group: group, Weight: weight,
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: address, Protocol: "rpcx"}},
	}
}

func register(t *testing.T, r registry.Registrar, in tandem.Instance) registry.Registration {
	t.Helper()
	entry, err := r.Register(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { entry.Close() })
	return entry
}

// calls makes n calls and counts the answers of each server.
func calls(t *testing.T, x client.XClient, n int) map[string]int {
	t.Helper()
	by := map[string]int{}
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		var arg, reply string
		if err := x.Call(ctx, "Are", &arg, &reply); err != nil {
			t.Fatalf("after the answers %v: %v", by, err)
		}
		cancel()
		by[reply]++
	}
	return by
}

// finds waits until rpcx's discovery has exactly these servers.
func finds(t *testing.T, d client.ServiceDiscovery, want ...string) {
	t.Helper()
	slices.Sort(want)
	var found []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // its channels miss changes
		found = nil
		for _, pair := range d.GetServices() {
			found = append(found, pair.Key)
		}
		slices.Sort(found)
		if slices.Equal(found, want) {
			time.Sleep(250 * time.Millisecond) // rpcx lists ZooKeeper's nodes before it watches them, and misses what comes between
			return
		}
	}
	t.Fatalf("rpcx finds %q, want %q", found, want)
}

// watcher collects the snapshots of a watch.
type watcher struct{ lists chan registry.Snapshot }

func watch(t *testing.T, r registry.Resolver, target string) *watcher {
	t.Helper()
	at, err := registry.ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{lists: make(chan registry.Snapshot, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Watch(ctx, at, func(s registry.Snapshot) { w.lists <- s }) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

// sees waits for a list of exactly these IDs, and returns it.
func (w *watcher) sees(t *testing.T, ids ...string) []tandem.Instance {
	t.Helper()
	slices.Sort(ids)
	timeout := time.After(10 * time.Second)
	var last []string
	for {
		select {
		case s := <-w.lists:
			if s.Err != nil {
				t.Fatal(s.Err)
			}
			last = nil
			for _, in := range s.Instances {
				last = append(last, in.ID)
			}
			if slices.Equal(last, ids) {
				return s.Instances
			}
		case <-timeout:
			t.Fatalf("tandem finds %q, want %q", last, ids)
		}
	}
}
