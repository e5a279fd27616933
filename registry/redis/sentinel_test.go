//go:build integration

package redis

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// TestSentinel: a Sentinel, which has its own password, promotes the replica when the
// master is killed. Registrations and watches move to the new master.
func TestSentinel(t *testing.T) {
	master := start(t)
	replica := start(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", master.port))
	sentinel := startSentinel(t, master.port)
	ask := goredis.NewSentinelClient(&goredis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", sentinel.port), Password: "watchword", Protocol: 2, DisableIdentity: true})
	defer ask.Close()
	wait(t, "replica", func() bool {
		return strings.Contains(replica.admin().Info(t.Context(), "replication").Val(), "master_link_status:up") &&
			len(ask.Replicas(t.Context(), "main").Val()) == 1
	})

	target := sentinel.target("a?master=main&ttl=4s")
	opts := []Option{WithSentinelAuth("", "watchword")}
	v := look(t, Resolver(opts...), target)
	r := open(t, target, opts...)
	register(t, r, instance("a"))
	register(t, r, instance("b"))
	v.sees(3*time.Second, "a", "b")

	master.kill()
	v.until("error", 5*time.Second, func() bool { return v.errs > 0 })
	began := time.Now()
	admin := replica.admin()
	wait(t, "new master", func() bool {
		return strings.HasPrefix(fmt.Sprint(admin.Do(t.Context(), "ROLE").Val()), "[master")
	})
	due := func(id string) float64 { return admin.ZScore(t.Context(), keys("a")[1], id).Val() }
	a, b := due("a"), due("b")
	wait(t, "renewal with the new master", func() bool { return due("a") > a && due("b") > b })
	register(t, r, instance("c"))
	v.sees(10*time.Second, "a", "b", "c")
	t.Logf("all is listed with the new master %v after the old one was killed", time.Since(began))
	if v.empty > 0 {
		t.Errorf("%d empty lists", v.empty)
	}
}

// startSentinel runs a Sentinel for a master, which it finds at a port. The Sentinel keeps
// its state in its configuration file.
func startSentinel(t testing.TB, master int) *server {
	s := &server{t: t, dir: t.TempDir(), port: registrytest.FreePort(t)}
	config := filepath.Join(s.dir, "sentinel.conf")
	put(t, config, fmt.Appendf(nil, `port %d
bind 127.0.0.1
dir %s
requirepass watchword
sentinel monitor main 127.0.0.1 %d 1
sentinel down-after-milliseconds main 1000
sentinel failover-timeout main 5000
`, s.port, s.dir, master))
	s.runWith("Sentinel ID is", config, "--sentinel")
	t.Cleanup(s.kill)
	return s
}
