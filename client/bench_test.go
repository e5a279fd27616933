package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/policy"
)

// BenchmarkCall is a unary call through the whole client to a server that does almost nothing.
func BenchmarkCall(b *testing.B) {
	for _, mode := range []struct {
		name string
		mode tandem.FailMode
	}{{"failfast", client.Failfast}, {"failover", client.Failover}} {
		b.Run(mode.name, func(b *testing.B) {
			benchmarkCall(b, client.WithFailMode(mode.mode))
		})
	}
}

// BenchmarkCallWithPolicy is the same by a policy that names a hundred methods and ten
// services.
func BenchmarkCallWithPolicy(b *testing.B) {
	for name, p := range policies() {
		b.Run(name, func(b *testing.B) { benchmarkCall(b, client.WithPolicy(p)) })
	}
}

// policies are policies that name the called method in different places.
func policies() map[string]*policy.Policy {
	m := policy.Method{Timeout: policy.Duration(time.Minute), AttemptTimeout: policy.Duration(30 * time.Second), Idempotent: new(true), Breaker: new(policy.Breaker)}
	all := map[string]*policy.Policy{}
	for _, name := range []string{"Test.Echo", "Test.*", "Elsewhere.*"} {
		p := &policy.Policy{Methods: map[string]policy.Method{}}
		for i := range 100 {
			p.Methods[fmt.Sprintf("Service%d.Method%d", i%10, i)] = m
			p.Methods[fmt.Sprintf("Service%d.*", i%10)] = m
		}
		p.Methods[name] = m
		all[name] = p
	}
	return all
}

func benchmarkCall(b *testing.B, opts ...client.Option) {
	c := dial(b, "tcp://"+cannedServer(b), append(opts, client.WithCodec(codec.Raw()))...)
	message, reply := make([]byte, 600), make([]byte, 0, 600)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Call(b.Context(), "Test.Echo", &message, &reply); err != nil {
			b.Fatal(err)
		}
	}
}
