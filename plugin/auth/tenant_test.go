package auth_test

import (
	"context"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// The rules of a server count the calls of each tenant that a principal names.
func TestRulesCountTenantsOfPrincipals(t *testing.T) {
	network := transport.NewMemory()
	byToken := auth.Bearer(func(_ context.Context, token string) (any, error) {
		return &auth.Principal{Name: "everybody", Tenant: token}, nil
	})
	rules := &policy.Server{Kind: policy.KindServer, Default: policy.ServerMethod{PerTenant: &policy.Limit{Rate: 0.001, Burst: 1}}}
	srv := server.New(server.WithPlugins(auth.New(byToken)), server.WithRules(server.Rules{First: rules}))
	if err := server.Handle(srv, "It.Does", func(_ context.Context, in *string) (*string, error) { return in, nil }); err != nil {
		t.Fatal(err)
	}
	ln, err := network.Listen(t.Context(), "it")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://it", client.WithTransport("mem", network))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Close()
		_ = srv.Close()
		<-served
	}()
	for _, call := range []struct {
		tenant string
		want   tandem.Code
	}{{"a", tandem.OK}, {"a", tandem.ResourceExhausted}, {"b", tandem.OK}} {
		_, err := client.Invoke[string](t.Context(), c, "It.Does", "x", client.Metadata("authorization", "Bearer "+call.tenant))
		if tandem.CodeOf(err) != call.want {
			t.Errorf("a call of tenant %s: %v, want %v", call.tenant, err, call.want)
		}
	}
}
