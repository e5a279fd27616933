package doctor

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/introspect"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/wire"
)

// said returns findings, a line each.
func said(findings []Finding) string {
	var out strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&out, "%s %s: %s\n", f.Severity, strings.TrimSpace(f.ID+" "+f.Subject), f.Text)
	}
	return out.String()
}

func limits() *Limits {
	return &Limits{
		RegistryWarning: time.Second, RegistryCritical: 5 * time.Second, PingWarning: time.Second, PingCritical: 2 * time.Second,
		CertWarning: 21 * 24 * time.Hour, CertCritical: 7 * 24 * time.Hour, DownCritical: 50, Least: 1, Versions: 1, Skew: 5 * time.Second, Stale: time.Minute,
	}
}

func at(port string) tandem.Endpoint { return tandem.Endpoint{Transport: "tcp", Address: "h:" + port} }

func TestJudge(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	a := tandem.Instance{ID: "a", Version: "1", Endpoints: []tandem.Endpoint{at("1")}, Started: now}
	b := tandem.Instance{ID: "b", Version: "2", Endpoints: []tandem.Endpoint{at("1")}, Started: now.Add(time.Minute), Load: &tandem.Load{At: now.Add(-time.Hour)}}
	c := tandem.Instance{ID: "c", Version: "1", Endpoints: []tandem.Endpoint{{Transport: "memory", Address: "c"}}}
	set := []byte(`{"change": {"revision": 3}, "set": [{"instance": "b", "state": "disabled", "by": "ann", "at": "2026-11-21T09:00:00Z"}, {"instance": "c", "state": "draining"}]}`)
	soon := &x509.Certificate{Subject: pkix.Name{CommonName: "cart"}, NotAfter: now.Add(48 * time.Hour)}
	root := &x509.Certificate{Subject: pkix.Name{CommonName: "root"}, NotAfter: now.Add(4800 * time.Hour)}
	early := &x509.Certificate{NotBefore: now.Add(time.Hour), NotAfter: now.Add(4800 * time.Hour)}
	expired := &x509.Certificate{NotAfter: now.Add(-time.Hour)}
	reports := []policy.Applied{{Client: "one", Version: "7", InForce: "7"}, {Client: "two", Version: "7", Error: "no such pick"}}
	for _, c := range []struct {
		name  string
		facts Facts
		want  string
	}{
		{"a registry that is down", Facts{ListErr: errors.New("down")}, "critical registry.answer: down\n"},
		{"a slow registry without instances", Facts{ListTook: 3 * time.Second},
			"warning registry.answer: the list came in 3s\ncritical instances.called: 0 of 0 listed instances get calls\nok clocks: no time is in the future\n"},
		{"what operators set, clocks, and addresses", Facts{Instances: []tandem.Instance{a, b, c}, Overrides: &Document{Name: "/o", Text: set}},
			"ok registry.answer: the list came in 0s\nok overrides.valid /o: revision 3 sets 2 overrides\n" +
				"ok instances.called: 1 of 3 listed instances get calls\nwarning overrides.withheld: 2 of 3 instances are withheld by operators\n" +
				"warning instances.address b: tcp://h:1 is listed for a, too\nwarning versions: 2 with 1, 1 with 2\n" +
				"warning clocks b: it started 1m0s in the future\nwarning load.age b: its load was last reported 1h0m0s ago\n" +
				"warning clocks b: an override by ann was set 1h0m0s in the future\nok endpoints.left: 3 of 3 instances were not connected to\n"},
		{"documents", Facts{Instances: []tandem.Instance{a}, Late: true, Overrides: &Document{Name: "/o", Text: []byte("{")}, Policies: []Document{
			{Name: "/p", Text: []byte(`{"version": "7"}`), Reports: reports}, {Name: "/q", Text: []byte(`{"x": 1}`)}, {Name: "/r", Err: errors.New("lost")},
		}}, "ok registry.answer: the list came in 0s\ncritical overrides.valid /o: overrides: unexpected EOF\nok instances.called: 1 of 1 listed instances get calls\n" +
			"ok policy.valid /p: version 7\nwarning policy.rollout /p: 7 is applied by 1 of 2 clients, 1 refused: no such pick\n" +
			"critical policy.valid /q: policy: unknown field \"x\"\ncritical policy.valid /r: lost\nok versions: 1 with 1\nok clocks: no time is in the future\n" +
			"unknown endpoints.left: the time was over; 1 of 1 instances were not connected to\n"},
		{"endpoints", Facts{Instances: []tandem.Instance{a, b, c}, Client: early, Overrides: &Document{Name: "/o", Text: []byte(`{"set": [{"instance": "b", "state": "draining"}]}`)}, Probes: map[string][]*Probed{
			"a": {
				{Endpoint: at("1"), Connect: time.Second, Ping: time.Second / 2, Chain: []*x509.Certificate{root, soon}, Health: introspect.NotServing},
				{Endpoint: tandem.Endpoint{Transport: "tcp", Address: "h:2", Protocol: "grpc"}, HealthOf: errors.New("unauthenticated"), Chain: []*x509.Certificate{expired}},
			},
			"b": {{Endpoint: at("1"), Err: errors.New("connection refused")}},
			"c": {{Endpoint: c.Endpoints[0], Skipped: "transport memory is not checked"}},
		}}, "warning endpoint.connect a tcp://h:1: connected in 1s, ping in 500ms\n" +
			"critical tls.expiry a tcp://h:1: the certificate of cart expires in 2 days, at 2026-11-23T08:00:00Z\nwarning health a tcp://h:1: NOT_SERVING\n" +
			"ok endpoint.connect a tcp://h:2 grpc: connected in 0s\ncritical tls.expiry a tcp://h:2 grpc: the certificate of no name has expired 1h0m0s ago, at 2026-11-21T07:00:00Z\n" +
			"warning health a tcp://h:2 grpc: it does not say: unauthenticated\n" +
			"ok endpoint.connect b tcp://h:1: connection refused; it is draining, so it gets no calls\n" +
			"ok endpoint.connect c memory://c: transport memory is not checked\nwarning instances.down: 1 of 2 instances can't be called\n"},
		{"an instance with one endpoint of two, and one with none", Facts{Instances: []tandem.Instance{a, c}, Probes: map[string][]*Probed{
			"a": {{Endpoint: at("1"), Err: errors.New("connection refused")}, {Endpoint: at("2"), Health: introspect.Serving}},
			"c": {{Endpoint: at("3"), Err: errors.New("connection refused")}},
		}}, "warning instances.down: 1 of 2 instances can't be called\n"},
	} {
		c.facts.Now = now
		got := said(Judge(&c.facts, limits()))
		if !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
		if c.facts.Client != nil && !strings.Contains(got, "critical tls.client: the certificate is not valid before 2026-11-21T09:00:00Z") {
			t.Errorf("%s: got\n%s", c.name, got)
		}
	}
}

func TestFormats(t *testing.T) {
	r := NewReport("etcd://h/a", time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), []Finding{
		{ID: "registry.answer", Text: "slow", Severity: Warning, Hint: "wait", Measure: &Measure{Value: 0.75, Unit: Seconds, Warning: new(0.5), Critical: new(1.0)}},
		{ID: "health", Subject: `a"b|c`, Text: "un\nknown | x", Severity: Unknown},
		{ID: "instances.called", Text: "fine", Measure: &Measure{Value: 3, Critical: new(1.0), Least: true}},
		{ID: "instances.called", Text: "twice", Severity: Critical},
	})
	r.Findings[3].Severity = Warning
	r.Severity, r.Code = Warning, 1
	for format, want := range map[Format]string{
		Text: "RESULT   CHECK             SUBJECT  WHAT\nwarning  registry.answer   -        slow (wait)\nunknown  health            a\"b|c    un known | x\n" +
			"ok       instances.called  -        fine\nwarning  instances.called  -        twice\nwarning: 2 warning, 1 unknown, 1 ok\n",
		Nagios: "TANDEM WARNING - registry.answer: slow; instances.called: twice | 'registry.answer'=0.75s;0.5;1 'instances.called'=3;;1:\n" +
			"warning registry.answer: slow\nunknown health a\"b/c: un known / x\nok instances.called: fine\nwarning instances.called: twice\n",
		Prometheus: `tandem_check_finding{target="etcd://h/a",id="health",subject="a\"b|c"} 3` + "\n" + `tandem_check_finding{target="etcd://h/a",id="instances.called",subject=""} 1` + "\n#",
		JSON:       `"severity": "warning",` + "\n  \"code\": 1,\n",
	} {
		var out strings.Builder
		if err := r.Write(&out, format, false); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: got\n%s\nwant\n%s", format, out.String(), want)
		}
	}
	var f Format
	if err := f.Set("xml"); err == nil || f.Set("json") != nil || f.String() != "json" || f.Type() != "text|json|nagios|prometheus" {
		t.Error(err, f)
	}
	if worst := NewReport("", time.Now(), []Finding{{Severity: Unknown}, {Severity: Warning}, {Severity: OK}}); worst.Severity != Warning {
		t.Errorf("%s is the worst", worst.Severity)
	}
}

// TestProbe: servers that say nothing, something else, or that they accept no calls.
func TestProbe(t *testing.T) {
	preface := wire.AppendPreface(nil, wire.DefaultSettings())
	for _, c := range []struct {
		name   string
		answer []byte
		want   string
	}{
		{"silent", nil, "i/o timeout"},
		{"another protocol", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak tandem's protocol"},
		{"goaway", wire.AppendGoAway(preface, wire.GoAway{Message: "bye"}), "the server accepts no calls: it drains: bye"},
		{"no pong", preface, "timeout"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write(c.answer)
			_, _ = conn.Read(make([]byte, 1<<10))
			_, _ = conn.Read(make([]byte, 1)) // until the prober closes
			_ = conn.Close()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		p := Probe(ctx, tandem.Endpoint{Transport: "tcp", Address: l.Addr().String()}, introspect.Access{})
		cancel()
		_ = l.Close()
		<-done
		if p.Err == nil || !strings.Contains(p.Err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, p.Err, c.want)
		}
	}
	if p := Probe(t.Context(), tandem.Endpoint{Transport: "kcp", Address: "h:1"}, introspect.Access{}); p.Skipped == "" || p.Err != nil {
		t.Errorf("kcp: %+v", p)
	}
}
