package load

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// maxHosts bounds how many loopback addresses a server listens on; a million
// connections need no more.
const maxHosts = 64

// listenOn listens on addr and, with more hosts than one, on the same port of
// 127.0.0.2 and so on: a client's ports run out for each address of a server
// alone.
func listenOn(addr string, hosts int) (net.Listener, error) {
	first, err := net.Listen("tcp", addr)
	if err != nil || hosts == 1 {
		return first, err
	}
	if hosts < 1 || hosts > maxHosts {
		return nil, errors.Join(first.Close(), fmt.Errorf("load: %d addresses to listen on; there must be 1 to %d", hosts, maxHosts))
	}
	all := &listeners{Listener: first, conns: make(chan net.Conn), closed: make(chan struct{})}
	all.list = append(all.list, first)
	_, port, _ := net.SplitHostPort(first.Addr().String())
	for host := 1; host < hosts; host++ {
		ln, err := net.Listen("tcp", net.JoinHostPort(loopback(host).String(), port))
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all.list = append(all.list, ln)
	}
	for _, ln := range all.list {
		all.accepting.Go(func() { all.accept(ln) })
	}
	return all, nil
}

// listeners are several that look like their first.
type listeners struct {
	net.Listener
	list      []net.Listener
	conns     chan net.Conn
	accepting sync.WaitGroup
	once      sync.Once
	closed    chan struct{}
}

func (l *listeners) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			_ = l.Close() // one that fails ends all
			return
		}
		select {
		case l.conns <- conn:
		case <-l.closed:
			_ = conn.Close() // nobody will serve it
		}
	}
}

func (l *listeners) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listeners) Close() error {
	var err error
	l.once.Do(func() {
		close(l.closed)
		for _, ln := range l.list {
			err = errors.Join(err, ln.Close())
		}
	})
	return err
}

// loopback is the n-th address of this machine that nobody else can reach.
func loopback(n int) net.IP { return net.IPv4(127, 0, 0, byte(n+1)) } //nolint:gosec // n is below maxHosts
