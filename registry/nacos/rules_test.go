package nacos

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// The tests in this file run with the stand-in and, with the tag integration, also with the
// real server.

func TestConformance(t *testing.T) { conformance(t, standIn(t)) }

func conformance(t *testing.T, b *backend) {
	registrytest.Run(t, func(t testing.TB) registrytest.Harness {
		const service = "Suite"
		target, err := registry.ParseTarget(b.target(t, service))
		if err != nil {
			t.Fatal(err)
		}
		var opts []Option
		if strings.HasSuffix(t.Name(), "/many_instances") {
			opts = append(opts, WithTTL(time.Minute)) // fewer than 200 beats a second
		}
		put := func(key string, text []byte) error { return b.publish(t, path.Base(key), text) }
		if b.swaps {
			put = nil
		}
		other := target
		other.Query = url.Values{"cluster": {"east"}, "namespace": {"public"}}
		return registrytest.Harness{
			Registrar:   b.registry(t, service, opts...),
			Resolver:    Resolver(WithPoll(b.poll)),
			Target:      target,
			Aliases:     []registry.Target{other},
			PutDocument: put,
			Lose:        func(id string) error { return b.lose(t, service, id) },
			Outage:      b.relay.outage,
			Within:      b.within,
		}
	})
}

func TestConsole(t *testing.T) { console(t, standIn(t)) }

// console edits weights and disables instances, and checks that a later Update of the server
// is still seen.
func console(t *testing.T, b *backend) {
	r := b.registry(t, "S")
	v := look(t, r, b.target(t, "S"), b.within)
	in, other := server(1), server(2)
	other.Weight = 50
	entry := register(t, r, in)
	register(t, r, other)
	v.shows(t, "server-1:0 server-2:50")
	b.edit(t, "S", in, 7, true)
	v.shows(t, "server-1:7 server-2:50")
	b.edit(t, "S", in, 0.3, true)
	v.shows(t, "server-1:1 server-2:50")
	b.edit(t, "S", in, 7, false)
	v.shows(t, "server-2:50")
	b.edit(t, "S", in, 0, true)
	b.edit(t, "S", other, 51, true)
	v.shows(t, "server-2:51")
	b.edit(t, "S", in, 20, true)
	v.shows(t, "server-1:20 server-2:51")

	// The edit has frozen the metadata, too. An Update replaces them, and the edit's weight stays.
	in.Weight, in.Version = 90, "v2"
	if err := entry.Update(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	v.until(t, "version v2, weight 20", func(s registry.Snapshot) bool {
		return len(s.Instances) == 2 && s.Instances[0].Version == "v2" && s.Instances[0].Weight == 20
	})
	b.edit(t, "S", in, 20, false)
	v.shows(t, "server-2:51")
	if err := entry.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ask(t, http.MethodGet, instancePath, "S", "ip", "10.1.0.1", "port", "8972"); err == nil {
		// Nacos shows the removed instance for a while.
		v.until(t, "gone", func(registry.Snapshot) bool {
			_, err := b.ask(t, http.MethodGet, instancePath, "S", "ip", "10.1.0.1", "port", "8972")
			v.update(v.last)
			return err != nil
		})
	}
}

func TestHostileEntries(t *testing.T) { hostile(t, standIn(t)) }

// hostile registers invalid entries beside a valid instance: only that one is delivered, and
// the log names each of the others once.
func hostile(t *testing.T, b *backend) {
	var log lines
	r := b.registry(t, "S", WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	good := server(1)
	register(t, r, good)
	changed := func(change func(*tandem.Instance)) string {
		in := server(2)
		in.Endpoints[0].Address = "10.9.9.9:1"
		change(&in)
		return text(in)
	}
	bad := map[string]string{ // by host
		"10.9.9.1": "{",
		"10.9.9.2": "null",
		"10.9.9.3": strings.Repeat("x", 1<<20),
		"10.9.9.9": changed(func(in *tandem.Instance) { in.Weight = 1 << 30 }),
		"10.9.9.5": changed(func(*tandem.Instance) {}), // the address of another instance
		"10.9.9.6": changed(func(in *tandem.Instance) { in.ID = good.ID; in.Endpoints[0].Address = "10.9.9.6:1" }),
		"10.9.9.7": changed(func(in *tandem.Instance) {
			in.Endpoints = []tandem.Endpoint{{Transport: "unix", Address: "/run/x"}}
		}),
		"10.9.9.8": "", // not an instance of tandem
		"größe 🚲":  "[]",
	}
	for host, value := range bad {
		metadata := text(map[string]string{key: value, "preserved.heart.beat.timeout": "60000", "preserved.ip.delete.timeout": "90000"})
		if value == "" {
			metadata = `{"a":"b"}`
		}
		b.do(t, http.MethodPost, instancePath, "S", "ip", host, "port", "1", "weight", "10000", "metadata", metadata)
	}
	v := look(t, r, b.target(t, "S"), b.within)
	v.shows(t, "server-1:0")
	deadline := time.Now().Add(b.within)
	for host := range bad {
		for !strings.Contains(log.String(), host+":1") {
			if time.Now().After(deadline) {
				t.Fatalf("no line about %s in\n%.2000s", host, log.String())
			}
			time.Sleep(b.poll) // Nacos shows a write some time later
		}
	}
	second := server(3)
	register(t, r, second)
	v.shows(t, "server-1:0 server-3:0")
	if n := strings.Count(log.String(), "entry dropped"); n != len(bad) {
		t.Errorf("%d lines about %d bad entries:\n%.3000s", n, len(bad), log.String())
	}
}

// lines collects a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestOneAddressOneInstance(t *testing.T) { oneAddress(t, standIn(t)) }

// oneAddress registers servers at one address: the one that started last is listed.
func oneAddress(t *testing.T, b *backend) {
	r := b.registry(t, "S")
	v := look(t, r, b.target(t, "S"), b.within)
	older, twin, newer := server(1), server(1), server(1)
	twin.ID, newer.ID, newer.Started = "twin", "newer", older.Started.Add(time.Hour)
	first := register(t, r, older)
	v.shows(t, "server-1:0")
	if _, err := r.Register(t.Context(), twin); err == nil || !strings.Contains(err.Error(), `"server-1" is listed at its address`) {
		t.Errorf("a second server at the same address: %v", err)
	}
	register(t, r, newer)
	v.shows(t, "newer:0")
	if _, err := r.Register(t.Context(), older); err == nil || !strings.Contains(err.Error(), "started later") {
		t.Errorf("an older server at the address: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	register(t, r, server(2))
	v.shows(t, "newer:0 server-2:0")
}

func TestManyWatches(t *testing.T) { manyWatches(t, standIn(t), 100) }

// manyWatches watches many services with one resolver, which share its connections, and
// changes each service.
func manyWatches(t *testing.T, b *backend, n int) {
	resolver := Resolver(WithPoll(max(b.poll, time.Duration(n)*time.Millisecond)))
	views := make([]*view, n)
	begin := time.Now()
	for i := range views {
		views[i] = look(t, resolver, b.target(t, fmt.Sprintf("S%d", i)), b.within)
	}
	for i := range views {
		metadata := text(map[string]string{key: text(server(i)), "preserved.heart.beat.timeout": "300000", "preserved.ip.delete.timeout": "300000"})
		at, _ := addressOf(new(server(i)))
		b.do(t, http.MethodPost, instancePath, fmt.Sprintf("S%d", i), "ip", at.host, "port", "8972", "weight", "100", "metadata", metadata)
	}
	for i, v := range views {
		v.shows(t, fmt.Sprintf("server-%d:0", i))
	}
	t.Logf("%d services saw a change each within %v", n, time.Since(begin))
}
