package registries_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/compat/rpcx/registries"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBadPlugins: Start fails for a plugin with invalid fields.
func TestBadPlugins(t *testing.T) {
	for name, p := range map[string]any{
		"no address":      &registries.EtcdRegisterPlugin{EtcdServers: []string{"http://127.0.0.1:2379"}},
		"half an address": &registries.ZooKeeperRegisterPlugin{ServiceAddress: "127.0.0.1:1", ZooKeeperServers: []string{"127.0.0.1:2181"}},
		"no servers":      &registries.ConsulRegisterPlugin{ServiceAddress: "tcp@127.0.0.1:1"},
	} {
		srv := rpcx.NewServer()
		if err := srv.PluginContainer.Add(p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := srv.Start("tcp", "127.0.0.1:0"); err == nil {
			t.Errorf("%s: it serves", name)
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	}
	s := registries.NewEtcdClientSelector(nil, "", 0, rpcx.RandomSelect, 0)
	if _, err := s.Select(nil); err == nil {
		t.Error("a selector without servers selects")
	}
}
