package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// link describes the network between the client and each server. The zero value adds no
// limits.
type link struct {
	Mbit    float64       // rate of each direction in Mbit/s, limited by tbf; 0 for no limit
	Delay   time.Duration // of each packet in each direction, by NFQUEUE
	Jitter  time.Duration // maximum random extra delay of each packet, which reorders packets
	LossIn  int           // percentage of the packets to the server that nftables drops
	LossOut int           // percentage of the packets from the server that nftables drops
}

// prepareNamespaces mounts a tmpfs on /run/netns that only the lab sees.
func prepareNamespaces() error {
	const dir = "/run/netns"
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("faults", dir, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", dir, err)
	}
	return nil
}

// network has one namespace for the client, one for each server, and a veth pair between the
// client and each server.
type network struct {
	lane    int // part of the namespaces' names, so that networks can exist at the same time
	client  string
	servers []string
	cc      string
	queues  []*packetQueue
}

func serverAddr(i int) string { return fmt.Sprintf("10.77.%d.2", i+1) }

// sources is the number of additional addresses of the client's host on its link to server 0.
const sources = 10

// sourceAddr returns the i-th of these addresses.
func sourceAddr(i int) string { return fmt.Sprintf("10.77.1.%d", 100+i%sources) }

// newNetwork creates the namespaces and connects them.
func newNetwork(lane, servers int, cc string) (*network, error) {
	n := &network{lane: lane, cc: cc, client: fmt.Sprintf("lane%d-client", lane)}
	if err := n.addHost(n.client); err != nil {
		return nil, err
	}
	for i := range servers {
		if err := n.addServer(i); err != nil {
			n.close()
			return nil, err
		}
	}
	for i := range sources {
		if err := commands(fmt.Sprintf("ip -n %s addr add %s/24 dev %s", n.client, sourceAddr(i), n.near(0))); err != nil {
			n.close()
			return nil, err
		}
	}
	// The servers reach each other through the client's host, which forwards their packets.
	return n, commands("ip netns exec " + n.client + " sysctl -qw net.ipv4.ip_forward=1")
}

func (n *network) addHost(host string) error {
	return commands("ip netns add "+host, "ip -n "+host+" link set lo up")
}

func (n *network) addServer(i int) error {
	host, near, far := n.host(i), n.near(i), "up0"
	n.servers = append(n.servers, host)
	subnet := fmt.Sprintf("10.77.%d", i+1)
	if err := n.addHost(host); err != nil {
		return err
	}
	return commands(
		fmt.Sprintf("ip link add %s netns %s type veth peer name %s netns %s", near, n.client, far, host),
		fmt.Sprintf("ip -n %s addr add %s.1/24 dev %s", n.client, subnet, near),
		fmt.Sprintf("ip -n %s addr add %s.2/24 dev %s", host, subnet, far),
		fmt.Sprintf("ip -n %s link set %s up", n.client, near),
		fmt.Sprintf("ip -n %s link set %s up", host, far),
		// The sysctl of a new namespace does not allow cubic, but its routes do.
		fmt.Sprintf("ip -n %s route change %s.0/24 dev %s proto kernel scope link src %s.1 congctl %s", n.client, subnet, near, subnet, n.cc),
		fmt.Sprintf("ip -n %s route change %s.0/24 dev %s proto kernel scope link src %s.2 congctl %s", host, subnet, far, subnet, n.cc),
		fmt.Sprintf("ip -n %s route add default via %s.1", host, subnet),
	)
}

// host returns the namespace of server i.
func (n *network) host(i int) string { return fmt.Sprintf("lane%d-server%d", n.lane, i) }

func (n *network) near(i int) string { return fmt.Sprintf("to%d", i) }

// close removes the namespaces. All processes in them must have ended.
func (n *network) close() {
	for _, q := range n.queues {
		q.close()
	}
	for _, host := range append([]string{n.client}, n.servers...) {
		_ = commands("ip netns del " + host) // it may not exist
	}
}

// shape applies l to the links to all servers.
func (n *network) shape(l link) error {
	for i, host := range n.servers {
		if l.Mbit > 0 {
			if err := commands(tbf(n.client, n.near(i), l.Mbit), tbf(host, "up0", l.Mbit)); err != nil {
				return err
			}
		}
		if l.LossIn > 0 || l.LossOut > 0 {
			if err := n.filter(host, losses(l)); err != nil {
				return err
			}
		}
		if l.Delay > 0 || l.Jitter > 0 {
			if err := n.delay(host, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// losses returns the nftables rules that drop packets, by chain: input or output of the
// server.
func losses(l link) map[string]string {
	chains := map[string]string{}
	for chain, pct := range map[string]int{"input": l.LossIn, "output": l.LossOut} {
		if pct > 0 {
			chains[chain] = fmt.Sprintf("numgen random mod 100 < %d counter drop", pct)
		}
	}
	return chains
}

// tbf returns the command that limits the rate at which dev sends. The queue holds the bytes
// of 50 ms, or 32 KiB if that is more, in addition to the burst.
func tbf(host, dev string, mbit float64) string {
	limit := max(32<<10, int(mbit*1e6/8*0.05))
	return fmt.Sprintf("tc -n %s qdisc add dev %s root tbf rate %dkbit burst 32k limit %d", host, dev, int(mbit*1000), limit+32<<10)
}

// delay delays the packets that enter and leave host.
func (n *network) delay(host string, l link) error {
	for num, chain := range []string{"INPUT", "OUTPUT"} {
		if err := commands(fmt.Sprintf("ip netns exec %s iptables -A %s -p tcp -j NFQUEUE --queue-num %d", host, chain, num)); err != nil {
			return err
		}
		q, err := openPacketQueue(host, uint16(num), l) //nolint:gosec // 0 or 1
		if err != nil {
			return err
		}
		n.queues = append(n.queues, q)
	}
	return nil
}

// filter replaces host's rules by chains, which has a rule for each chain. A counter before
// each rule counts the packets that reach it.
func (n *network) filter(host string, chains map[string]string) error {
	var b strings.Builder
	b.WriteString("table inet faults\ndelete table inet faults\ntable inet faults {\n")
	for chain, rule := range chains {
		fmt.Fprintf(&b, "chain %s {\ntype filter hook %s priority 0\nmeta l4proto tcp counter\nmeta l4proto tcp %s\n}\n", chain, chain, rule)
	}
	b.WriteString("}\n")
	cmd := exec.Command("ip", "netns", "exec", host, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(b.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft on %s: %w: %s", host, err, out)
	}
	return nil
}

// unfilter removes host's rules.
func (n *network) unfilter(host string) error {
	return commands("ip netns exec " + host + " nft delete table inet faults")
}

// passage holds how many packets reached a chain's rule, and how many of them it dropped.
type passage struct{ seen, dropped int }

// dropped returns how many packets host's rules have seen and dropped in each direction.
func (n *network) dropped(host string) (in, out passage, err error) {
	text, err := exec.Command("ip", "netns", "exec", host, "nft", "list", "table", "inet", "faults").Output() //nolint:gosec // our names
	if err != nil {
		return in, out, fmt.Errorf("nft on %s: %w", host, err)
	}
	in, out = passages(string(text))
	return in, out, nil
}

// passages reads the counters from the output of nft list.
func passages(text string) (in, out passage) {
	p := &in
	for line := range strings.Lines(text) {
		switch count := sumAfter(line, "packets"); {
		case strings.Contains(line, "chain output"):
			p = &out
		case strings.Contains(line, "chain input"):
			p = &in
		case strings.Contains(line, "drop"):
			p.dropped += count
		default:
			p.seen += count
		}
	}
	return in, out
}

// sent returns how many bytes dev has sent.
func (n *network) sent(host, dev string) (int, error) {
	out, err := exec.Command("tc", "-n", host, "-s", "qdisc", "show", "dev", dev).Output() //nolint:gosec // our names
	if err != nil {
		return 0, fmt.Errorf("tc on %s: %w", host, err)
	}
	return sumAfter(string(out), "Sent"), nil
}

// sumAfter returns the sum of the numbers that directly follow word in text.
func sumAfter(text, word string) (sum int) {
	fields := strings.Fields(text)
	for i, f := range fields {
		if f == word && i+1 < len(fields) {
			v, _ := strconv.Atoi(fields[i+1]) // not a number: 0
			sum += v
		}
	}
	return sum
}

// commands runs commands one after the other. Spaces separate the words of a command; there is
// no quoting.
func commands(lines ...string) error {
	for _, line := range lines {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil { //nolint:gosec // our words
			return fmt.Errorf("%s: %w: %s", line, err, out)
		}
	}
	return nil
}
