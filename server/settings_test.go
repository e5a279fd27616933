package server_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

var declaredOption = regexp.MustCompile(`(?m)^func (With\w+)\(.*\) Option \{`)

// optionsOf returns the names of the options that the package declares.
func optionsOf(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declaredOption.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "WithoutOverloadControl" { // shown as WithOverloadControl
				names = append(names, m[1])
			}
		}
	}
	slices.Sort(names)
	return names
}

func namesOf(list []tandem.Setting) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// Every option is shown once, and says whether it was given.
func TestEveryOptionIsASetting(t *testing.T) {
	want := optionsOf(t)
	list := server.New().Settings()
	if got := namesOf(list); !slices.Equal(got, want) {
		t.Errorf("settings:\n%q, options:\n%q", got, want)
	}
	for _, s := range list {
		if s.From != "default" || s.Value == "" {
			t.Errorf("without options: %+v", s)
		}
	}
	all := server.New(
		server.WithCodecs(codec.JSON()), server.WithCompressors(compress.Gzip()), server.WithCompressAbove(1), server.WithTransport("mem", transport.NewMemory()),
		server.WithProtocols(talk{}), server.WithTLS(&tls.Config{ServerName: "secret"}), server.WithInterceptors(passThrough), server.WithPlugins(atHeader{}),
		server.WithMaxConcurrency(5, 6), server.WithOverloadControl(server.OverloadConfig{Calls: 7, Every: time.Second}),
		server.WithTrustedCriticality(func(*tandem.Peer) bool { return true }), server.WithMaxMessage(8), server.WithMemory(9), server.WithMaxDecoded(10),
		server.WithStreamWindow(1<<16), server.WithMaxOpenCalls(11), server.WithMaxConnections(12), server.WithTimeout(time.Second), server.WithHandshakeTimeout(time.Minute),
		server.WithStallTimeout(time.Hour), server.WithSilence(20*time.Second), server.WithMaxConnectionAge(time.Hour, time.Minute), server.WithLameDuck(time.Second),
		server.WithProxies(netip.MustParsePrefix("10.0.0.0/8")), server.WithLogger(slog.Default()),
		server.WithRegistrar(registry.NewMemory(), tandem.Instance{}), server.WithLoadReport(0), server.WithClients(nil),
		server.WithRules(server.Rules{First: &policy.Server{Kind: policy.KindServer}}),
		server.WithBaggage(server.Baggage{Keys: []string{"a"}, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}),
	).Settings()
	values := map[string]string{}
	for _, s := range all {
		if values[s.Name] = s.Value; s.From != "option" {
			t.Errorf("given: %+v", s)
		}
	}
	for name, want := range map[string]string{
		"WithCodecs": "generated, gob, json, raw", "WithRules": "fixed", "WithBaggage": "a of authenticated callers, 10.0.0.0/8", "WithTransport": "mem, tcp, unix", "WithProtocols": "talk", "WithTLS": "on", "WithMaxConcurrency": "5 calls, 6 in the queue",
		"WithInterceptors": "server_test.passThrough", "WithPlugins": "server_test.atHeader", "WithOverloadControl": "on: Calls 7, Every 1s",
		"WithMemory": "9", "WithStallTimeout": "1h0m0s", "WithMaxConnectionAge": "1h0m0s, and 1m0s for running calls", "WithProxies": "10.0.0.0/8",
		"WithRegistrar": "*registry.Memory", "WithLoadReport": "none", "WithClients": "on", "WithLogger": "on",
	} {
		if values[name] != want {
			t.Errorf("%s is %q, want %q", name, values[name], want)
		}
	}
	if off := server.New(server.WithoutOverloadControl()).Settings(); !slices.Contains(off, tandem.Setting{Name: "WithOverloadControl", Value: "off", From: "option"}) {
		t.Errorf("%+v", off)
	}
}

func passThrough(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error { return next(ctx, call) }
}
