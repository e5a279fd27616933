package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// state is the state of a server process.
type state string

const (
	starting state = "starting"
	serving  state = "serving"
	killed   state = "killed"
	draining state = "draining"
	drained  state = "drained"
	stopped  state = "stopped"
	failed   state = "failed"
)

// cluster is the demo's server processes. Its methods may be called concurrently, but only one
// at a time for the same server.
type cluster struct {
	dir      string
	target   string // of the demo in the registry
	registry string // of the servers' list
	command  func(Role) *exec.Cmd
	observer *observer // nil if no Prometheus runs
	admin    bool      // the servers answer the console

	mu      sync.Mutex
	order   []string // names, in the order of their starts
	members map[string]*member
}

// member is a server. A restarted server is another process.
type member struct {
	process *process
	state   state
}

// newCluster returns an empty cluster. Its servers register at the target; below it if there is a
// console, which has the client in a list of its own.
func newCluster(dir, target string, cfg *Config) *cluster {
	c := &cluster{dir: dir, target: target, registry: target, command: cfg.Command, members: map[string]*member{}}
	if cfg.Console != nil {
		c.registry, c.admin = target+"/services", true
	}
	return c
}

func (c *cluster) journal(name string) string {
	return filepath.Join(c.dir, "journal-"+name+".log")
}

// journals returns the files of all servers.
func (c *cluster) journals() []string {
	var files []string
	for _, name := range c.names() {
		files = append(files, c.journal(name))
	}
	return files
}

// names returns all servers that were ever started, in order.
func (c *cluster) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

// get returns a server's process, nil if there is none, and its state.
func (c *cluster) get(name string) (*process, state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	if m == nil {
		return nil, ""
	}
	return m.process, m.state
}

func (c *cluster) set(name string, p *process, s state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[name] == nil {
		c.members[name] = new(member)
		c.order = append(c.order, name)
	}
	*c.members[name] = member{p, s}
}

// startAll starts servers together.
func (c *cluster) startAll(ctx context.Context, names []string) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = c.start(ctx, name) })
	}
	wg.Wait()
	slices.Sort(c.order) // without mu: nothing else uses the cluster yet
	return errors.Join(errs...)
}

// startTime bounds the time until a started server is listed.
const startTime = 10 * time.Second

// start starts a server and waits until it is listed.
func (c *cluster) start(ctx context.Context, name string) error {
	p, err := spawn(c.command(Role{Name: name, Registry: c.registry, Journal: c.journal(name), Metrics: c.observer != nil, Admin: c.admin}))
	if err != nil {
		return fmt.Errorf("demo: starting %s: %w", name, err)
	}
	c.set(name, p, starting)
	within, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	select {
	case <-p.ready:
		c.set(name, p, serving)
		return c.observer.scrape(name, p.metricsAt())
	case <-p.done:
		err = fmt.Errorf("it has ended (%s)%s", p.cmd.ProcessState, p.said())
	case <-within.Done():
		err = ctx.Err()
		if err == nil {
			err = fmt.Errorf("it is not listed after %v: does %s answer?%s", startTime, registry.Redact(c.registry), p.said())
		}
	}
	c.set(name, p, failed)
	return fmt.Errorf("demo: starting %s: %w", name, err)
}

// killTime bounds the time until a killed process has ended.
const killTime = 5 * time.Second

// kill kills a server and returns its process when that has ended.
func (c *cluster) kill(name string) (*process, error) {
	p, _ := c.get(name)
	if err := p.kill(); err != nil {
		return p, err
	}
	c.set(name, p, killed)
	return p, nil
}

// drainTime bounds how long a server may drain.
const drainTime = 15 * time.Second

// drain makes a server shut down gracefully, and returns its process when that has ended.
func (c *cluster) drain(ctx context.Context, name string) (*process, error) {
	p, _ := c.get(name)
	c.set(name, p, draining)
	if err := p.stop(ctx, drainTime); err != nil {
		c.set(name, p, failed)
		return p, err
	}
	c.set(name, p, drained)
	return p, c.observer.scrape(name, "") // a server that is killed stays, so that it is seen to be down
}

// stopTime bounds the shutdown of a server without calls.
const stopTime = 5 * time.Second

// stopAll shuts down all running servers gracefully. It returns the errors, by server.
func (c *cluster) stopAll() map[string]error {
	names := c.names()
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		if p, s := c.get(name); s == serving {
			wg.Go(func() {
				errs[i] = p.stop(context.Background(), stopTime)
				c.set(name, p, stopped)
			})
		}
	}
	wg.Wait()
	unclean := map[string]error{}
	for i, name := range names {
		if errs[i] != nil {
			unclean[name] = errs[i]
		}
	}
	return unclean
}

// killAll kills the processes that still run.
func (c *cluster) killAll() {
	for _, name := range c.names() {
		p, _ := c.get(name)
		_ = p.kill() // nothing more can be done
	}
}
