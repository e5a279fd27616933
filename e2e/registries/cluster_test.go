//go:build integration

package registries

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// cluster is a set of server processes that are listed in one registry.
type cluster struct {
	t       *testing.T
	backend *backend
	servers map[string]*exec.Cmd
}

func newCluster(t *testing.T, b *backend, ids ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, backend: b, servers: map[string]*exec.Cmd{}}
	t.Cleanup(func() {
		for id := range c.servers {
			c.kill(id)
		}
	})
	for _, id := range ids {
		c.start(id)
	}
	c.listed(30*time.Second, ids...) // processes start slowly on a busy machine
	return c
}

// start starts a server, and does not wait until it is listed.
func (c *cluster) start(id string) {
	c.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envServer+"="+id, envTarget+"="+c.backend.target)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.servers[id] = cmd
}

// kill kills a server with SIGKILL.
func (c *cluster) kill(id string) {
	cmd := c.servers[id]
	delete(c.servers, id)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // the error only says that it was killed
}

// stop ends a server with SIGTERM, on which it drains, and waits for its end.
func (c *cluster) stop(id string) {
	c.t.Helper()
	cmd := c.servers[id]
	delete(c.servers, id)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		c.t.Errorf("server %s ends with %v", id, err)
	}
}

// listed waits until a new watch sees a list of exactly these IDs, and returns how long
// that took.
func (c *cluster) listed(limit time.Duration, ids ...string) time.Duration {
	c.t.Helper()
	slices.Sort(ids)
	target, err := registry.ParseTarget(c.backend.target)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	began := time.Now()
	var last string
	err = resolvers()[target.Scheme].Watch(ctx, target, func(s registry.Snapshot) {
		var seen []string
		for _, in := range s.Instances {
			seen = append(seen, in.ID)
		}
		last = fmt.Sprint(seen, s.Err)
		if s.Err == nil && slices.Equal(seen, ids) {
			cancel()
		}
	})
	if ctx.Err() != context.Canceled {
		c.t.Fatalf("after %v there is %s listed, want %v: %v", limit, last, ids, err)
	}
	return time.Since(began)
}
