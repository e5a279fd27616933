package server_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// door is a listener whose connections come from the addresses that a test names, and which has
// a number of file descriptors.
type door struct {
	net.Listener // for what is not used

	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	room   atomic.Int64
}

func newDoor(room int64) *door {
	d := &door{conns: make(chan net.Conn), closed: make(chan struct{})}
	d.room.Store(room)
	return d
}

// comer is a connection from a given address.
type comer struct {
	net.Conn

	door *door
	from net.Addr
	once sync.Once
}

func (c *comer) RemoteAddr() net.Addr { return c.from }

func (c *comer) Close() error {
	c.once.Do(func() { c.door.room.Add(1) })
	return c.Conn.Close()
}

func (d *door) Accept() (net.Conn, error) {
	if d.room.Load() <= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	select {
	case c := <-d.conns:
		d.room.Add(-1)
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *door) Addr() net.Addr { return &net.TCPAddr{} }

func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// dial connects from an address. It returns when the connection is accepted.
func (d *door) dial(t *testing.T, from string) net.Conn {
	near, far := net.Pipe()
	d.conns <- &comer{Conn: far, door: d, from: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 1))}
	t.Cleanup(func() { _ = near.Close() })
	return near
}

// open returns the numbers of the connections that the server has not closed, when all other
// goroutines of the synctest bubble wait.
func open(conns []net.Conn) (left []int) {
	synctest.Wait()
	for i, c := range conns {
		_ = c.SetReadDeadline(time.Now())
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			left = append(left, i)
		}
	}
	return left
}

// answered makes a call of talk and checks the response.
func answered(t *testing.T, c net.Conn) {
	t.Helper()
	go func() { _, _ = io.WriteString(c, "CALL Echo hello\n") }()
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "hello\n" || err != nil {
		t.Errorf("answered %q, %v", line, err)
	}
}

// doorTest starts a server with the protocol talk behind a door.
func doorTest(t *testing.T, room int64, opts ...server.Option) *door {
	t.Helper()
	srv := server.New(append(opts, server.WithProtocols(talk{}), server.WithHandshakeTimeout(time.Minute))...)
	if err := srv.RegisterFunc("Echo", func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	d := newDoor(room)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(d) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return d
}

const mostGreeted = 1024

// When too many connections are in their handshake, the oldest one of the network with most of
// them is closed, not the oldest of all. Each connection of a proxy counts as a network of its
// own.
func TestLargestNetworkMakesRoom(t *testing.T) {
	proxies := server.WithProxies(netip.MustParsePrefix("10.0.0.0/8"))
	for name, row := range map[string]struct {
		few, many, next string
		opts            []server.Option
		closed          int // its number: the first 500 are few
	}{
		"IPv4":    {few: "192.0.2.1", many: "192.0.2.2", next: "192.0.2.3", closed: 500},
		"IPv6":    {few: "2001:db8::1", many: "2001:db8:0:1::%d", next: "2001:db8::1", closed: 500},
		"proxies": {few: "192.0.2.1", many: "10.0.0.1", next: "10.0.0.1", opts: []server.Option{proxies}, closed: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := doorTest(t, 5000, row.opts...)
				var conns []net.Conn
				for i := range mostGreeted {
					from := row.few
					if i >= 500 {
						if from = row.many; name == "IPv6" {
							from = fmt.Sprintf(from, i)
						}
					}
					conns = append(conns, d.dial(t, from))
				}
				time.Sleep(time.Second)
				answered(t, d.dial(t, row.next))
				left := open(conns)
				if len(left) != mostGreeted-1 || slices.Contains(left, row.closed) {
					t.Errorf("%d are left; number %d is one of them: %v", len(left), row.closed, slices.Contains(left, row.closed))
				}
			})
		})
	}
}

// A connection whose client has sent its preface, and so may send calls as soon as it has the
// server's, is not closed to make room, though it is the oldest.
func TestGreetedConnectionsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := doorTest(t, 5000)
		greeted := d.dial(t, "192.0.2.1") // it reads nothing, so the server's preface is not written yet
		if _, err := greeted.Write(wire.AppendPreface(nil, wire.DefaultSettings())); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var silent []net.Conn
		for range mostGreeted - 1 {
			silent = append(silent, d.dial(t, "192.0.2.1"))
		}
		time.Sleep(time.Second)
		answered(t, d.dial(t, "192.0.2.1"))
		if left := open(silent); len(left) != mostGreeted-2 || left[0] != 1 {
			t.Errorf("%d silent connections are left, the first of them number %d", len(left), left[0])
		}
		if len(open([]net.Conn{greeted})) == 0 {
			t.Error("the connection with a preface was closed")
		}
	})
}

// Silent connections do not use up WithMaxConnections: an old one is closed for a new one.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := doorTest(t, 100, server.WithMaxConnections(3))
		honest := d.dial(t, "192.0.2.1")
		answered(t, honest)
		silent := []net.Conn{d.dial(t, "192.0.2.2"), d.dial(t, "192.0.2.2")}
		more := d.dial(t, "192.0.2.3")
		synctest.Wait()
		if len(open([]net.Conn{more})) != 0 {
			t.Error("one too many came in while the others were new")
		}
		time.Sleep(time.Second)
		answered(t, d.dial(t, "192.0.2.3"))
		synctest.Wait()
		if left := open(silent); !slices.Equal(left, []int{1}) {
			t.Errorf("%v of the silent ones are left", left)
		}
		answered(t, honest)
	})
}

// When the system has no file descriptors left, silent connections are closed to make room,
// accept is tried again after a pause, and calls go on.
func TestNoFileDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 100
		d := doorTest(t, room)
		honest := d.dial(t, "192.0.2.1")
		answered(t, honest)
		var silent []net.Conn
		for range room - 1 {
			silent = append(silent, d.dial(t, "192.0.2.2"))
		}
		time.Sleep(time.Second)
		start := time.Now()
		answered(t, d.dial(t, "192.0.2.3"))
		if took := time.Since(start); took > time.Second {
			t.Errorf("the next was served after %v", took)
		}
		answered(t, honest)
		if left := len(open(silent)); left == room-1 || left == 0 {
			t.Errorf("%d of %d silent ones are left", left, room-1)
		}
	})
}

// A failed accept is tried again after 5 ms, and later at least once a second.
func TestFailedAcceptsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := doorTest(t, 1)
		honest := d.dial(t, "192.0.2.1")
		answered(t, honest)
		time.Sleep(time.Minute)
		answered(t, honest)
		d.room.Add(1)
		start := time.Now()
		answered(t, d.dial(t, "192.0.2.3"))
		if took := time.Since(start); took > time.Second {
			t.Errorf("served %v after there was room", took)
		}
	})
}

var (
	floodFor      = flag.Duration("flood", 2*time.Second, "how long TestSilentFlood lasts; make flood has 30 s")
	floodRate     = flag.Int("flood-rate", 100, "silent connections a second of TestSilentFlood, after 1,100 at once")
	floodHonest   = flag.Int("flood-honest", 100, "honest connections of TestSilentFlood")
	floodNetworks = flag.Int("flood-networks", 1, "addresses that the silent ones of TestSilentFlood come from")
	floodP99      = flag.Duration("flood-p99", 0, "time that 99 % of the honest ones may take; 0 for any")
)

// A flood of silent connections keeps no honest client out. This test floods from one address,
// which holds on a machine of any speed; make flood does so from thousands, with a time limit.
func TestSilentFlood(t *testing.T) {
	srv := server.New(server.WithProtocols(talk{}), server.WithHandshakeTimeout(30*time.Second))
	if err := srv.RegisterFunc("Echo", func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	addr := serve(t, srv, transport.TCP(), "127.0.0.1:0").String()
	for range 1100 { // more than may be in their handshake
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	stop := make(chan struct{})
	var flooding sync.WaitGroup
	var silent atomic.Int64
	flooding.Go(func() { flood(addr, stop, &silent) })
	defer func() {
		close(stop)
		flooding.Wait()
	}()

	honest := *floodHonest
	var took []time.Duration
	for i := range honest {
		start := time.Now()
		c, err := client.Dial("tcp://"+addr, client.WithTimeout(10*time.Second))
		if err == nil {
			var reply string
			err = c.Call(t.Context(), "Echo", "hello", &reply)
			_ = c.Close()
		}
		if err != nil {
			t.Errorf("honest connection %d, beside %d silent ones: %v", i, silent.Load(), err)
		}
		took = append(took, time.Since(start))
		time.Sleep(*floodFor/time.Duration(honest) - time.Since(start)) // they come at a rate
	}
	slices.Sort(took)
	t.Logf("%d silent connections; honest ones: median %v, p99 %v, longest %v",
		silent.Load(), took[honest/2], took[honest*99/100], took[honest-1])
	if p99 := took[honest*99/100]; *floodP99 > 0 && p99 > *floodP99 {
		t.Errorf("p99 is %v, want %v at most", p99, *floodP99)
	}
}

// flood opens silent connections at a rate, and leaves them open until
// the server closes them.
func flood(addr string, stop <-chan struct{}, count *atomic.Int64) {
	const most = 8000 // that are open
	var readers sync.WaitGroup
	defer readers.Wait()
	slots := make(chan struct{}, most)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for range *floodRate / 100 {
			n++
			from := n % *floodNetworks
			select {
			case slots <- struct{}{}:
			default:
				continue
			}
			d := net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(from>>8), byte(from))}}
			readers.Go(func() {
				defer func() { <-slots }()
				c, err := d.Dial("tcp", addr)
				if err != nil {
					return
				}
				defer c.Close()
				count.Add(1)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = c.Read(make([]byte, 1))
				}()
				select {
				case <-ended:
				case <-stop:
					_ = c.Close()
					<-ended
				}
			})
		}
	}
}
