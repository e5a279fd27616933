package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// rig holds the processes and the network of a running arm.
type rig struct {
	settings settings
	cell     cell
	plan     plan // of the client
	ctx      context.Context
	arm      arm
	net      *network
	dir      string
	servers  []*process
	registry *registryServer // nil without one
	store    *storeServer    // nil without one
	relay    *process        // nil without a TCP load balancer
	client   *process
	result   *armResult

	proving sync.Mutex // guards result.proof
}

// provef records a proof that the fault had an effect.
func (r *rig) provef(format string, args ...any) {
	r.proving.Lock()
	defer r.proving.Unlock()
	r.result.proof = append(r.result.proof, fmt.Sprintf(format, args...))
}

// wait sleeps for d, or until the lab is interrupted.
func (r *rig) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
	}
}

// runArm runs one arm of a cell. An error is in the result's invalid.
func (l *lab) runArm(ctx context.Context, c cell, a arm, lane int) *armResult {
	res := &armResult{arm: a, ran: executions{}}
	res.invalid = l.tryArm(ctx, c, a, lane, res)
	return res
}

func (l *lab) tryArm(ctx context.Context, c cell, a arm, lane int, res *armResult) error {
	dir, err := l.armDir(c, a)
	if err != nil {
		return err
	}
	hosts := c.Instances
	if c.Registry != "" || c.Balanced || c.Store != "" {
		hosts++ // for the registry, the TCP load balancer or the store
	}
	net, err := newNetwork(lane, hosts, a.CC)
	if err != nil {
		return err
	}
	defer net.close()
	r := &rig{settings: l.settings, cell: c, ctx: ctx, arm: a, net: net, dir: dir, result: res}
	defer r.end()
	if !a.Control {
		if err := net.shape(c.Link); err != nil {
			return err
		}
	}
	if err := r.prepare(c); err != nil {
		return err
	}
	if err := r.run(l, c, r.plan); err != nil {
		return err
	}
	return r.collect(r.plan)
}

// prepare starts the processes: first the registry, then the servers, then the client.
func (r *rig) prepare(c cell) (err error) {
	if err := r.startServers(c); err != nil {
		return err
	}
	p := c.Load
	p.System, p.Duration, p.Usage = r.arm.System, loadTime(c, r.arm), c.Usage
	p.Journal, p.Registry = filepath.Join(r.dir, "client.jsonl"), r.registryTarget()
	if r.arm.Control {
		p.Stalls, p.Calm = 0, true
	}
	for i := range c.Instances {
		p.Addrs = append(p.Addrs, serverAddr(i)+":9000")
	}
	if c.Chain {
		p.Addrs = p.Addrs[:1]
	}
	if c.Balanced {
		if p.Addrs, err = r.startRelay(p.Addrs); err != nil {
			return err
		}
	}
	if c.Before != nil {
		if err := c.Before(r, &p); err != nil {
			return err
		}
	}
	r.plan = p
	if r.client, err = r.startClient(p); err != nil || !c.Usage {
		return err
	}
	r.result.server.before, err = r.serverUsage()
	return err
}

// startServers starts the registry and the store, if the cell has them, and the servers.
func (r *rig) startServers(c cell) (err error) {
	if c.Registry != "" {
		if r.registry, err = newRegistryServer(c.Registry, r.net.host(c.Instances), serverAddr(c.Instances), r.dir); err != nil {
			return err
		}
		if err := r.registry.start(); err != nil {
			return err
		}
	}
	if c.Store != "" {
		if r.store, err = newStoreServer(c.Store, r.net.host(c.Instances), serverAddr(c.Instances), r.dir); err != nil {
			return err
		}
		if err := r.store.start(); err != nil {
			return err
		}
	}
	for i := range c.Instances {
		s, err := r.startServer(i)
		if err != nil {
			return err
		}
		r.servers = append(r.servers, s)
	}
	return nil
}

// countRefused asks the last server how many requests it has refused, and how much processor
// time it has used.
func (r *rig) countRefused() error {
	u, err := r.servers[len(r.servers)-1].usage()
	r.result.refused = int(u.refused) //nolint:gosec // small
	r.provef("the last server refused %d requests; its whole CPU time was %v", u.refused, u.cpu.Round(time.Millisecond))
	return err
}

// run starts the load, injects the fault, and waits until both have ended.
func (r *rig) run(l *lab, c cell, p plan) error {
	r.result.start = time.Now()
	if _, err := fmt.Fprintln(r.client.in, "go"); err != nil {
		return err
	}
	limit := time.AfterFunc(p.Duration+max(p.Deadline, p.UploadDeadline)+30*time.Second, func() { _ = r.client.cmd.Process.Kill() })
	defer limit.Stop()
	fault := make(chan error, 1)
	go func() {
		var watching sync.WaitGroup
		if c.Usage && !r.arm.Control {
			watching.Go(func() { r.watchMemory(p.Duration) })
		}
		err := r.fault(c)
		watching.Wait()
		fault <- err
	}()
	loaded := l.follow(r)
	err := <-fault
	if loaded = errors.Join(loaded, r.client.cmd.Wait()); loaded != nil {
		return fmt.Errorf("the client process ended early: %w", loaded)
	}
	if err == nil && c.Usage && !r.arm.Control {
		r.result.server.after, err = r.serverUsage()
		r.provef("server: %d then %d goroutines, heap %d then %d, resident over time %d KiB", r.result.server.before.goroutines,
			r.result.server.after.goroutines, r.result.server.before.heap, r.result.server.after.heap, r.result.resident)
	}
	if err == nil && c.Proof != nil && !r.arm.Control {
		err = c.Proof(r)
	}
	return err
}

func (r *rig) fault(c cell) error {
	if r.arm.Control || c.Fault == nil {
		return nil
	}
	r.wait(c.At)
	r.result.began = time.Now()
	err := c.Fault(r)
	r.result.ended = time.Now()
	return err
}

// follow reads the client's output until the client closes it. It records the client's
// reports, and shows its counts every tenth line.
func (l *lab) follow(r *rig) error {
	for n := 1; ; n++ {
		line, err := r.client.out.ReadString('\n')
		if err != nil {
			return r.ctx.Err() // the client has closed its output
		}
		if proof, ok := strings.CutPrefix(line, "proof "); ok {
			r.provef("%s", strings.TrimSpace(proof))
			continue
		}
		if capacity, ok := strings.CutPrefix(line, "capacity "); ok {
			if err := r.offered(capacity); err != nil {
				return err
			}
			continue
		}
		if stats, ok := strings.CutPrefix(line, "stats "); ok {
			r.provef("client: %s", strings.TrimSpace(stats))
			_, err = fmt.Sscanf(stats, statsFormat, &r.result.client.before.goroutines, &r.result.client.after.goroutines, &r.result.client.before.heap, &r.result.client.after.heap)
			if err != nil {
				return err
			}
			continue
		}
		if n%10 == 0 {
			var made, ok, failed int
			if _, err := fmt.Sscan(strings.TrimSpace(line), &made, &ok, &failed); err == nil {
				l.printf(r.cell, "   … %d s: %d calls, %d ok, %d failed\n", n, made, ok, failed)
			}
		}
	}
}

// offered records the capacity and the times of the overload from the client's report.
func (r *rig) offered(line string) error {
	var began, ended int64
	if _, err := fmt.Sscanf(line, capacityFormat, &r.result.capacity, &began, &ended); err != nil {
		return err
	}
	r.result.began, r.result.ended = time.Unix(0, began), time.Unix(0, ended)
	r.provef("the server's capacity is %.0f calls a second", r.result.capacity)
	return nil
}

// collect reads the journals into the result.
func (r *rig) collect(p plan) (err error) {
	if r.result.entries, err = readEntries(p.Journal); err != nil {
		return err
	}
	if r.result.fresh, err = readEntries(filepath.Join(r.dir, freshJournal)); errors.Is(err, os.ErrNotExist) {
		err = nil // most cells have no second client
	}
	if err != nil {
		return err
	}
	for i := range r.servers {
		if err := readExecutions(serverJournal(r.dir, i), i, r.result.ran); err != nil {
			return err
		}
	}
	if r.store != nil {
		if err := r.store.readExecutions(r.ctx, r.result.ran); err != nil {
			return err
		}
	}
	if r.result.capacity > 0 && !r.arm.Control {
		r.provef("goodput %d %% of the capacity; %d %% of the calls succeeded from %v after the overload on", r.result.goodput(), r.result.recovered(), overloadRecover)
	}
	return nil
}

// end kills all processes that still run.
func (r *rig) end() {
	for _, s := range r.servers {
		s.kill()
	}
	if r.client != nil {
		r.client.kill()
	}
	if r.registry != nil {
		r.registry.kill()
	}
	if r.store != nil {
		r.store.remove()
	}
	if r.relay != nil {
		r.relay.kill()
	}
}
