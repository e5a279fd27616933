package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/resilience"
	"github.com/tandem-rpc/tandem/transport"
)

var declaredOption = regexp.MustCompile(`(?m)^func (With\w+)[\[(].*\) Option \{`)

// optionsOf returns the names of the options that the package declares, sorted.
func optionsOf(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	for _, name := range files {
		text, bad := os.ReadFile(name)
		err = errors.Join(err, bad)
		for _, m := range declaredOption.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// settingsOf returns the settings by name.
func settingsOf(t *testing.T, c *client.Client, method string) map[string]tandem.Setting {
	t.Helper()
	all := map[string]tandem.Setting{}
	for _, s := range c.Settings(method) {
		if all[s.Name] != (tandem.Setting{}) {
			t.Errorf("%s is shown twice", s.Name)
		}
		all[s.Name] = s
	}
	return all
}

// Every option is shown, and says whether it was given.
func TestEveryOptionIsASetting(t *testing.T) {
	var names []string
	for _, s := range dial(t, "tcp://127.0.0.1:1").Settings("") {
		if s.From != "default" || s.Value == "" {
			t.Errorf("without options: %+v", s)
		}
		if name, _, _ := strings.Cut(s.Name, ":"); name != "Idempotent" && name != "Routes" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if got, want := slices.Compact(names), optionsOf(t); !slices.Equal(got, want) {
		t.Errorf("settings:\n%q, options:\n%q", got, want)
	}
}

// The settings of options that were given are those of the options, without secrets.
func TestGivenSettings(t *testing.T) {
	none := func(next tandem.Func) tandem.Func { return next }
	c := dial(t, "mem://127.0.0.1:1", client.WithTransport("mem", transport.NewMemory()), client.WithTLS(&tls.Config{ServerName: "secret"}),
		client.WithTLSFrom(func() (*tls.Config, error) { return &tls.Config{ServerName: "secret"}, nil }),
		client.WithResolver("memory", registry.NewMemory()), client.WithSnapshots(t.TempDir()), client.WithBalancer(balance.Maglev()),
		client.WithEjection(&client.Ejection{Breaker: resilience.BreakerConfig{Pause: time.Minute}}), client.WithBreaker(resilience.BreakerConfig{MinCalls: 7}),
		client.WithRoute(tandem.Route{Version: "2"}), client.WithBaggage(client.Baggage{Keys: []string{"a"}, Target: client.Trusted}), client.WithHashKey(func(string, any) string { return "" }), client.WithFailMode(client.Failover), client.WithRetries(3),
		client.WithInterceptors(none), client.WithAttemptInterceptors(none), client.WithTimeout(time.Minute), client.WithMaxMessage(1000), client.WithLogger(slog.Default()),
		client.WithService("Served", new(Arith)), client.WithFunc("Func.One", func(context.Context, *int) (*int, error) { return nil, nil }),
		client.WithCodec(codec.JSON()), client.WithCompression(client.Compression{Usual: compress.Gzip(), Others: []tandem.Compressor{compress.Deflate()}, Above: 10}),
		client.WithAttempts(client.Attempts{
			Timeout: time.Second, Budget: &policy.Budget{Share: 0.5, PerSecond: 5}, Fork: 3, BackupShare: 0.1, BroadcastShare: 0.5, BroadcastAtOnce: 6,
			Failback: client.FailbackQueue{Size: 8},
		}),
		client.WithConnections(client.Connections{
			PerInstance: 2, Timeout: time.Second, Backoff: time.Second, HealthCheck: time.Minute, Silence: time.Minute, StreamWindow: 1 << 17,
		}),
		client.WithThrottle(nil), client.WithWait(0), client.WithPolicy(new(policy.Policy)), client.WithID("me"), client.WithProtocols(), client.WithPlugins(client.Serving{}),
		client.WithPolicyFrom(newDesk(), "it"),
	)
	all := settingsOf(t, c, "")
	for _, s := range all {
		if s.From != "option" && s.Name != "Idempotent" && s.Name != "Routes" {
			t.Errorf("given: %+v", s)
		}
	}
	for name, want := range map[string]string{
		"WithTLS": "on", "WithTransport": "mem, tcp, unix", "WithBalancer": "route(maglev)", "WithFailMode": "failover", "WithRetries": "3", "WithTimeout": "1m0s",
		"WithBreaker": "Window 10s, MinCalls 7, FailureRate 0.5, Consecutive 5, Pause 5s, MaxPause 5m0s, Probes 2", "WithRoute": "version 2", "WithBaggage": "a sent; lanes by lane",
		"WithService": "Served", "WithFunc": "Func.One", "WithCodec": "json of generated, gob, json, raw", "WithCompression: Usual": "gzip", "WithCompression: Above": "10",
		"WithAttempts: Budget": "Share 0.5, PerSecond 5", "WithAttempts: Failback": "Size 8, Tries 3, Pause 5s", "WithAttempts: Fork": "3", "WithThrottle": "off",
		"WithConnections: Backoff, MaxBackoff": "1s, 3s", "WithConnections: Silence": "1m0s", "WithWait": "none", "WithID": "me", "WithPolicyFrom": "*client_test.desk as it",
		"WithInterceptors": "client_test.TestGivenSettings.func1", "Idempotent": "false",
	} {
		if all[name].Value != want {
			t.Errorf("%s is %q, want %q", name, all[name].Value, want)
		}
	}
	if e := all["WithEjection"].Value; !strings.HasPrefix(e, "Outliers {Every 1s, ") || !strings.Contains(e, "Breaker {") || !strings.Contains(e, " Pause 1m0s,") {
		t.Errorf("WithEjection is %q", e)
	}
}

// What a policy sets is shown with its version, for the methods that it is about; the rest is as
// the options say.
func TestSettingsOfAPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkbench(t, unavailable, "a", client.WithTimeout(time.Minute))
		want := func(method string, want ...tandem.Setting) {
			t.Helper()
			all := settingsOf(t, w.c, method)
			for _, s := range want {
				if all[s.Name] != s {
					t.Errorf("for %q: %+v, want %+v", method, all[s.Name], s)
				}
			}
		}
		budget := tandem.Setting{Name: "WithAttempts: Budget", Value: "Share 1, PerSecond 1000000", From: "option"}
		want("", tandem.Setting{Name: "WithTimeout", Value: "1m0s", From: "option"}, tandem.Setting{Name: "WithRetries", Value: "2", From: "default"}, budget)
		w.say(`{
			"version": "7", "balancer": {"pick": "random"}, "ejection": {"off": true},
			"default": {"failMode": "failover"},
			"methods": {"Try.*": {"timeout": "2s", "breaker": {"minCalls": 9}}, "Try.It": {"idempotent": true, "retries": 0, "attemptTimeout": "1s"}}
		}`)
		want("", tandem.Setting{Name: "WithTimeout", Value: "1m0s", From: "option"}, tandem.Setting{Name: "WithFailMode", Value: "failover", From: "policy 7"},
			tandem.Setting{Name: "WithBalancer", Value: "route(random)", From: "policy 7"}, tandem.Setting{Name: "WithEjection", Value: "off", From: "policy 7"},
			tandem.Setting{Name: "WithBreaker", Value: "off", From: "default"}, budget)
		want("Try.Other", tandem.Setting{Name: "WithTimeout", Value: "2s", From: "policy 7"}, tandem.Setting{Name: "Idempotent", Value: "false", From: "default"},
			tandem.Setting{Name: "WithRetries", Value: "2", From: "default"})
		want("Try.It", tandem.Setting{Name: "WithTimeout", Value: "2s", From: "policy 7"}, tandem.Setting{Name: "Idempotent", Value: "true", From: "policy 7"},
			tandem.Setting{Name: "WithRetries", Value: "0", From: "policy 7"}, tandem.Setting{Name: "WithAttempts: Timeout", Value: "1s", From: "policy 7"},
			tandem.Setting{Name: "WithFailMode", Value: "failover", From: "policy 7"},
			tandem.Setting{Name: "WithBreaker", Value: "Window 10s, MinCalls 9, FailureRate 0.5, Consecutive 5, Pause 5s, MaxPause 5m0s, Probes 2", From: "policy 7"})
		w.say(`{"version": "8", "retryBudget": {"share": 0, "perSecond": 3}}`)
		want("Try.It", tandem.Setting{Name: "WithTimeout", Value: "1m0s", From: "option"}, tandem.Setting{Name: "WithFailMode", Value: "failfast", From: "default"},
			tandem.Setting{Name: "WithAttempts: Budget", Value: "Share 0, PerSecond 3", From: "policy 8"}, tandem.Setting{Name: "WithPolicyFrom", Value: "*client_test.desk as bench", From: "option"})
	})
}

// Instances that operators have disabled are shown with the reason.
func TestSettingsOfOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		if all := settingsOf(t, s.client, ""); all["overrides"].From != "" {
			t.Errorf("without overrides: %+v", all["overrides"])
		}
		s.set(override.Override{Instance: "s1", State: override.Disabled})
		all := settingsOf(t, s.client, "")
		if o := all["overrides"]; o.Value == "" || o.From != "override" {
			t.Errorf("%+v", o)
		}
		if in := all["instance s1"]; !strings.Contains(in.Value, "ann") || in.From != "override" {
			t.Errorf("%+v", in)
		}
	})
}
