package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// startRelay starts a TCP load balancer on the last host and returns its address as the only
// element.
func (r *rig) startRelay(backends []string) ([]string, error) {
	i := len(backends)
	own, log := serverAddr(i)+":9000", filepath.Join(r.dir, "relay.log")
	p, err := r.startProcess(r.net.host(i), log, 0, append([]string{roleRelay, own}, backends...)...)
	if err != nil {
		return nil, err
	}
	r.relay = p
	return []string{own}, p.expectReady(log)
}

// relayRole runs a TCP load balancer. Its arguments are ADDRESS BACKEND... Connections go to
// the backends in turn; a backend that can't be reached is skipped.
func relayRole(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("%s: arguments %q: want an address and backends", roleRelay, args)
	}
	ln, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var next atomic.Uint64
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go relayConn(c, args[1:], next.Add(1))
	}
}

// relayConn copies bytes in both directions until both sides have ended.
func relayConn(c net.Conn, backends []string, first uint64) {
	defer func() { _ = c.Close() }() // both sides have ended
	for k := range backends {
		b, err := net.DialTimeout("tcp", backends[(first+uint64(k))%uint64(len(backends))], time.Second) //nolint:gosec // small
		if err != nil {
			continue
		}
		var ways sync.WaitGroup
		ways.Go(func() { carry(b, c) })
		ways.Go(func() { carry(c, b) })
		ways.Wait()
		_ = b.Close() // both sides have ended
		return
	}
}

// carry copies bytes until from ends, and then closes to for writing.
func carry(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok {
		err = errors.Join(err, half.CloseWrite())
	}
	if err != nil { // one side has failed: close both
		_, _ = to.Close(), from.Close()
	}
}
