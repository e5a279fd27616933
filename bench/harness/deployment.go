package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Deployment says where servers and clients run.
type Deployment string

// The three deployments of the seeds' table, as far as one machine can have them.
const (
	Same       Deployment = "same"        // a server and a client side by side
	Apart      Deployment = "apart"       // each in a network namespace of its own
	TwoServers Deployment = "two-servers" // a client and two servers, each in a network namespace of its own

	Elsewhere Deployment = "elsewhere" // servers that run already
)

// topology returns where the processes of the deployment run, for reports.
func (d Deployment) topology() string {
	switch d {
	case Apart:
		return "client and server in two network namespaces of one machine, veth"
	case TwoServers:
		return "a client and two servers in three network namespaces of one machine, veth"
	case Elsewhere:
		return "servers that ran already"
	}
	return "client and server on one machine, loopback"
}

// apart reports whether calls leave the client's namespace.
func (d Deployment) apart() bool { return d == Apart || d == TwoServers || d == Elsewhere }

// servers returns how many servers the deployment has.
func (d Deployment) servers() int {
	if d == TwoServers {
		return 2
	}
	return 1
}

// check returns an error for settings that make no sense, or that this machine does not
// support.
func (d Deployment) check(s Settings) error {
	switch d {
	case "", Same:
		return nil
	case Elsewhere:
		if len(s.Addrs) == 0 {
			return fmt.Errorf("harness: deployment %q needs the servers' addresses", d)
		}
		return nil
	case Apart, TwoServers:
	default:
		return fmt.Errorf("harness: deployment %q; there are %s, %s and %s", d, Same, Apart, TwoServers)
	}
	if n := d.servers(); s.Conns < n {
		return fmt.Errorf("harness: %d shared connections to %d servers: each server needs one", s.Conns, n)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("harness: deployment %q makes network namespaces with the command ip (iproute2): %w", d, err)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("harness: deployment %q makes network namespaces: run as root", d)
	}
	return nil
}

// network says where the peers of a deployment run, by names of network namespaces, "" for
// this process's own, and where the servers listen.
type network struct {
	client  string
	servers []string
	addrs   []string // addresses of the servers, with a port that the kernel picks
}

// local is a server in this process's namespace, as is the client.
func local() network { return network{servers: []string{""}, addrs: []string{"127.0.0.1:0"}} }

// networks are the networks of a run's deployments.
type networks map[Deployment]network

// networks creates the networks of all deployments.
func (s Settings) networks(ctx context.Context) (networks, error) {
	all := networks{}
	for _, d := range orZero(s.Deployments) {
		if _, twice := all[d]; twice {
			continue
		}
		n, err := setUp(ctx, d)
		if err != nil {
			return nil, errors.Join(err, all.tearDown())
		}
		all[d] = n
	}
	return all, nil
}

func (all networks) tearDown() error {
	var errs []error
	for _, n := range all {
		errs = append(errs, n.tearDown())
	}
	return errors.Join(errs...)
}

// setUp creates the network namespaces of a deployment, which tearDown removes. Their names
// contain this process's id; a name that exists already is an error, and its namespace
// stays unchanged.
func setUp(ctx context.Context, d Deployment) (n network, err error) {
	switch d {
	case "", Same:
		return local(), nil
	case Elsewhere:
		return network{}, nil
	}
	// An interrupt must not leave half a network: this takes milliseconds.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endGrace)
	defer cancel()
	defer func() {
		if err != nil {
			err = errors.Join(err, n.tearDown())
		}
	}()
	name := fmt.Sprintf("%s%s-", namespacePrefix(), d)
	if err := ip(ctx, "netns", "add", name+"client"); err != nil {
		return n, err
	}
	n.client = name + "client"
	for i := range d.servers() {
		server := fmt.Sprintf("%sserver%d", name, i)
		if err := ip(ctx, "netns", "add", server); err != nil {
			return n, err
		}
		n.servers = append(n.servers, server)
		n.addrs = append(n.addrs, fmt.Sprintf("10.77.%d.2:0", i))
		if err := n.connect(ctx, i); err != nil {
			return n, err
		}
	}
	return n, nil
}

// namespacePrefix returns the prefix of the names of this process's namespaces.
func namespacePrefix() string { return fmt.Sprintf("bench-%d-", os.Getpid()) }

// connect creates a veth pair between the client's namespace and that of server i. Both
// ends are created in their namespaces and removed with them; no other namespace has them
// in between.
func (n network) connect(ctx context.Context, i int) error {
	here, there := fmt.Sprintf("client%d", i), "server"
	for _, args := range [][]string{
		{"link", "add", here, "netns", n.client, "type", "veth", "peer", "name", there, "netns", n.servers[i]},
		{"-n", n.client, "addr", "add", fmt.Sprintf("10.77.%d.1/30", i), "dev", here},
		{"-n", n.servers[i], "addr", "add", fmt.Sprintf("10.77.%d.2/30", i), "dev", there},
		{"-n", n.client, "link", "set", here, "up"},
		{"-n", n.servers[i], "link", "set", there, "up"},
		{"-n", n.client, "link", "set", "lo", "up"},
		{"-n", n.servers[i], "link", "set", "lo", "up"},
	} {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// tearDown removes the namespaces that setUp created, also after the run's context has
// ended.
func (n network) tearDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), endGrace)
	defer cancel()
	var errs []error
	for _, name := range append(n.servers, n.client) {
		if name != "" {
			errs = append(errs, ip(ctx, "netns", "del", name))
		}
	}
	return errors.Join(errs...)
}

// inNamespace returns the command line that runs a program in a namespace; none for this
// process's own.
func inNamespace(name string) []string {
	if name == "" {
		return nil
	}
	return []string{"ip", "netns", "exec", name}
}

// ip runs the command ip.
func ip(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("harness: ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
