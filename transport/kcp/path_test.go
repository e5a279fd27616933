package kcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/kcp"
)

// path carries packets between one client and a server, and loses some.
type path struct {
	near   net.PacketConn
	far    net.Conn
	every  int // each such packet is lost; 0 for none
	cut    atomic.Bool
	lost   atomic.Int64
	client atomic.Pointer[net.Addr]
	wg     sync.WaitGroup
}

func newPath(t *testing.T, server string, every int) *path {
	t.Helper()
	near, err := net.ListenPacket("udp", loopback())
	if err != nil {
		t.Fatal(err)
	}
	far, err := net.Dial("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	p := &path{near: near, far: far, every: every}
	p.wg.Go(p.there)
	p.wg.Go(p.back)
	t.Cleanup(func() {
		near.Close()
		far.Close()
		p.wg.Wait()
	})
	return p
}

func (p *path) loses(n int) bool {
	if p.cut.Load() || p.every > 0 && n%p.every == p.every-1 {
		p.lost.Add(1)
		return true
	}
	return false
}

func (p *path) there() {
	buf := make([]byte, 2000)
	for i := 0; ; i++ {
		n, from, err := p.near.ReadFrom(buf)
		if err != nil {
			return
		}
		p.client.Store(&from)
		if !p.loses(i) {
			_, _ = p.far.Write(buf[:n])
		}
	}
}

func (p *path) back() {
	buf := make([]byte, 2000)
	for i := 0; ; i++ {
		n, err := p.far.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if to := p.client.Load(); err == nil && to != nil && !p.loses(i) {
			_, _ = p.near.WriteTo(buf[:n], *to)
		}
	}
}

// listen starts a server with an echo.
func listen(t *testing.T, opts ...kcp.Option) (*server.Server, string) {
	t.Helper()
	ln, err := open(t, opts...).Listen(t.Context(), loopback())
	if err != nil {
		t.Fatal(err)
	}
	srv := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
	if err := server.Handle(srv, "Test.Echo", func(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil }); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return srv, ln.Addr().String()
}

// Lost packets are sent again: nothing is missing, and nothing arrives twice.
func TestLossyPath(t *testing.T) {
	_, address := listen(t)
	p := newPath(t, address, 7)
	c, err := client.Dial("kcp://"+p.near.LocalAddr().String(), client.WithTransport("kcp", open(t)), client.WithTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 30 {
		msg := bytes.Repeat([]byte{byte(i)}, i*i*100)
		got, err := client.Invoke[[]byte](t.Context(), c, "Test.Echo", &msg)
		if err != nil || !bytes.Equal(*got, msg) {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	if p.lost.Load() == 0 {
		t.Error("no packet was lost")
	}
}

// A connection that is closed after the peer's half close stays open until the peer has read
// what was written, also if that takes more than one packet.
func TestAnswerToHalfClose(t *testing.T) {
	ln, err := open(t).Listen(t.Context(), loopback())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := newPath(t, ln.Addr().String(), 0)
	c, err := open(t).Dial(t.Context(), p.near.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	dialed := transport.Wrap(c)
	defer dialed.Close()
	if c, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	accepted := transport.Wrap(c)
	end := time.Now().Add(20 * time.Second)
	if err := errors.Join(dialed.SetDeadline(end), accepted.SetDeadline(end), dialed.CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if _, err := accepted.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	p.cut.Store(true)
	words := bytes.Repeat([]byte("words "), 2000)
	_, err = accepted.Write(words)
	if err := errors.Join(err, accepted.CloseWrite(), accepted.Close()); err != nil {
		t.Fatal(err)
	}
	<-time.After(200 * time.Millisecond)
	p.cut.Store(false)
	if got, err := io.ReadAll(dialed); !bytes.Equal(got, words) || err != nil {
		t.Errorf("%d of %d bytes arrived: %v", len(got), len(words), err)
	}
}

// Both ends give up a connection whose path is cut, although neither has anything to send.
func TestCutPath(t *testing.T) {
	idle := kcp.WithIdleTimeout(time.Second)
	ln, err := open(t, idle).Listen(t.Context(), loopback())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := newPath(t, ln.Addr().String(), 0)
	dialed, err := open(t, idle).Dial(t.Context(), p.near.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialed.Close()
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	ends := make(chan error, 2)
	for _, c := range []net.Conn{dialed, accepted} {
		go func() {
			_, err := c.Read(make([]byte, 1))
			ends <- err
		}()
	}
	select {
	case err := <-ends:
		t.Fatalf("an idle connection ended: %v", err)
	case <-time.After(3 * time.Second): // three times the idle timeout
	}
	p.cut.Store(true)
	for range 2 {
		select {
		case err := <-ends:
			if err == nil || errors.Is(err, io.EOF) {
				t.Errorf("the end is %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a cut connection is still open")
		}
	}
}

// Packets of a client without the key are ignored.
func TestWrongKey(t *testing.T) {
	srv, address := listen(t, kcp.WithKey([]byte("0123456789abcdef")))
	for name, opts := range map[string][]kcp.Option{"another": {kcp.WithKey([]byte("fedcba9876543210"))}, "none": nil} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		c, err := open(t, opts...).Dial(ctx, address)
		cancel()
		if err == nil {
			c.Close()
			t.Errorf("%s: a connection was made", name)
		}
	}
	if n := srv.Unrecognized(); n > 0 {
		t.Errorf("%d connections of strangers reached the server", n)
	}
	for _, n := range []int{0, 15, 33} {
		if _, err := kcp.New(kcp.WithKey(make([]byte, n))); err == nil {
			t.Errorf("a key of %d bytes is taken", n)
		}
	}
}

// Stray packets become no connections, and do no harm.
func TestStrayPackets(t *testing.T) {
	srv, address := listen(t)
	stray, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer stray.Close()
	for i := range 300 {
		packet := bytes.Repeat([]byte{byte(i), 81, 0}, 20)
		if _, err := stray.Write(packet[:i%60]); err != nil {
			t.Log(err) // an ICMP error may have come back
		}
	}
	c, err := client.Dial("kcp://"+address, client.WithTransport("kcp", open(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := client.Invoke[[]byte](t.Context(), c, "Test.Echo", &[]byte{1}); err != nil {
		t.Error(err)
	}
	if n := srv.Unrecognized(); n > 0 {
		t.Errorf("%d of them reached the server as connections", n)
	}
}

func ExampleNew() {
	key := []byte("sixteen bytes ok") // both sides have it
	t, err := kcp.New(kcp.WithKey(key))
	if err != nil {
		fmt.Println(err)
		return
	}
	ln, err := t.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := server.New()
	defer srv.Close()
	if err := srv.RegisterFunc("Math.Double", func(n int) int { return 2 * n }); err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = srv.ServeListener(ln) }()

	c, err := client.Dial("kcp://"+ln.Addr().String(), client.WithTransport("kcp", t))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	four, err := client.Invoke[int](context.Background(), c, "Math.Double", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*four)
	// Output: 4
}
