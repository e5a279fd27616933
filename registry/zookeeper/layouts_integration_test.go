//go:build integration

package zookeeper

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// both returns an instance that clients of Dubbo and of rpcx can call.
func both() tandem.Instance {
	in := instance("any")
	in.Endpoints = []tandem.Endpoint{
		{Transport: "tcp", Address: "10.0.0.1:50051", Protocol: "grpc"},
		{Transport: "tcp", Address: "10.0.0.1:8972", Protocol: "rpcx"},
	}
	in.Weight, in.Group, in.Version = 7, "blue", "1.0.0"
	return in
}

// TestLayouts registers an instance in the layouts of Dubbo and rpcx, and reads it
// together with nodes that Dubbo or rpcx has written.
func TestLayouts(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := s.connect(t)
	for _, c := range []struct {
		path, below string
		want        string // prefix of the node's unescaped name
		id          string
		alien, data string // name and data of a node that Dubbo or rpcx has written
		bad         string
	}{
		{
			"/dubbo/" + greeter + "?layout=dubbo&ttl=2s", "/providers", "tri://10.0.0.1:50051/" + greeter + "?",
			"tri://10.0.0.1:50051/blue/" + greeter + ":1.0.0",
			strings.Replace(provider, "10.0.0.1", "10.0.0.2", 1), "", "dubbo%3A%2F%2F10.0.0.3%3A20880%2F" + greeter,
		},
		{
			"/rpcx_test/Arith?layout=rpcx&ttl=2s", "", "tcp@10.0.0.1:8972",
			"tcp://10.0.0.1:8972",
			"tcp@10.0.0.2:8972", "weight=3&group=g&state=active", "tcp@10.0.0.3:8972",
		},
	} {
		where := "zookeeper://" + s.address() + c.path
		r := open(t, where, logged(t))
		dir := r.target.Path + c.below
		entry, err := r.Register(t.Context(), both())
		if err != nil {
			t.Fatal(err)
		}
		w := watch(t, Resolver(), mustParse(t, where))
		w.await(t, c.id, 5*time.Second, func(s registry.Snapshot) bool {
			return len(s.Instances) == 1 && s.Instances[0].ID == c.id && s.Instances[0].Weight == 7 && s.Instances[0].Group == "blue"
		})
		if names := names(t, other, dir); len(names) != 1 || !strings.HasPrefix(names[0], c.want) {
			t.Errorf("the nodes are %q, want %q", names, c.want)
		}
		writeOverrides(t, r)
		if names := names(t, other, dir); len(names) != 1 {
			t.Errorf("after the list's document was written the nodes are %q", names)
		}
		changed := both()
		changed.Weight = 8
		if err := entry.Update(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		w.await(t, "the update", 5*time.Second, func(s registry.Snapshot) bool {
			return len(s.Instances) == 1 && s.Instances[0].Weight == 8
		})
		if names := names(t, other, dir); len(names) != 1 {
			t.Errorf("after an update the nodes are %q", names)
		}
		put(t, other, map[string]string{dir + "/" + c.alien: c.data, dir + "/" + c.bad: "state=inactive"})
		w.sees(t, 2, 15*time.Second)
		heals(t, other, dir, entry, w)
	}
}

// heals deletes the registration's node, waits until it exists again, and then closes the
// registration.
func heals(t *testing.T, other *zk.Conn, dir string, entry registry.Registration, w *watcher) {
	t.Helper()
	own := ""
	list, _, err := other.Children(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if strings.Contains(name, "10.0.0.1") {
			own = dir + "/" + name
		}
	}
	if err := other.Delete(own, -1); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for there := false; !there; there, _, err = other.Exists(own) {
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%s is not listed again: %v", own, err)
		}
		time.Sleep(20 * time.Millisecond) // the watch may not have seen the deletion
	}
	w.sees(t, 2, 15*time.Second)
	if err := entry.Close(); err != nil {
		t.Error(err)
	}
	w.sees(t, 1, 15*time.Second)
}

// names returns the names of a directory's nodes, unescaped.
func names(t *testing.T, conn *zk.Conn, dir string) []string {
	t.Helper()
	list, _, err := conn.Children(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range list {
		if list[i], err = url.QueryUnescape(name); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(list)
	return list
}

// TestDubboProviderRestarts registers a provider at the address of one that was killed,
// whose node has another name.
func TestDubboProviderRestarts(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	where := "zookeeper://" + s.address() + "/dubbo/" + greeter + "?layout=dubbo&ttl=2s"
	old := open(t, where)
	first, err := old.Register(t.Context(), both())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	later := both()
	later.Started, later.Incarnation = later.Started.Add(time.Hour), "second"
	second, err := open(t, where).Register(t.Context(), later)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	old.link.hint() // makes the first check its node, which it must not create again
	if _, err := open(t, where).Register(t.Context(), both()); err == nil {
		t.Error("an earlier incarnation was registered")
	}
	w := watch(t, Resolver(), mustParse(t, where))
	w.await(t, "the second", 5*time.Second, func(s registry.Snapshot) bool {
		return len(s.Instances) == 1 && s.Instances[0].Incarnation == "second"
	})
	if names := names(t, s.connect(t), "/dubbo/"+greeter+"/providers"); len(names) != 1 {
		t.Errorf("the nodes are %q", names)
	}
}

// writeOverrides writes the document of a registry's own list.
func writeOverrides(t testing.TB, r *Registry) {
	t.Helper()
	d, key, err := r.DocumentsOf(registry.Target{})
	if err == nil {
		err = d.(registry.DocumentWriter).SwapDocument(t.Context(), key, nil, []byte(`{}`))
	}
	if err != nil {
		t.Fatal(err)
	}
}
