//go:build integration

package zookeeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// relay forwards connections between clients and a server. It records the sessions and
// their passwords, which are needed to end a session.
type relay struct {
	server string
	ln     net.Listener
	wg     sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	sessions map[int64][]byte // passwords
}

func startRelay(t testing.TB, server string) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{server: server, ln: ln, conns: map[net.Conn]bool{}, sessions: map[int64][]byte{}}
	r.wg.Go(r.accept)
	t.Cleanup(func() {
		ln.Close()
		r.cut()
		r.wg.Wait()
	})
	return r
}

func (r *relay) address() string { return r.ln.Addr().String() }

func (r *relay) accept() {
	for {
		client, err := r.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", r.server, time.Second)
		if err != nil {
			client.Close()
			continue
		}
		r.mu.Lock()
		r.conns[client], r.conns[server] = true, true
		r.mu.Unlock()
		both := func(to, from net.Conn, first func(io.Reader) io.Reader) {
			io.Copy(to, first(from))
			to.Close()
			from.Close()
			r.mu.Lock()
			delete(r.conns, from)
			r.mu.Unlock()
		}
		r.wg.Go(func() { both(server, client, func(from io.Reader) io.Reader { return from }) })
		r.wg.Go(func() { both(client, server, r.learn) })
	}
}

// learn records the session of a server's first response. The response has length,
// version and timeout, of four bytes each, the session's number, and the password with
// its length before it.
func (r *relay) learn(from io.Reader) io.Reader {
	head := make([]byte, 40)
	n, err := io.ReadFull(from, head)
	if err == nil && binary.BigEndian.Uint32(head[20:]) == 16 {
		r.mu.Lock()
		r.sessions[int64(binary.BigEndian.Uint64(head[12:]))] = head[24:40]
		r.mu.Unlock()
	}
	return io.MultiReader(bytes.NewReader(head[:n]), from)
}

// cut closes every connection. The sessions survive.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		conn.Close()
	}
}

// endSessions ends every recorded session, by joining and closing it.
func (r *relay) endSessions() error {
	r.mu.Lock()
	sessions := r.sessions
	r.sessions = map[int64][]byte{}
	r.mu.Unlock()
	if len(sessions) == 0 {
		return errors.New("the relay has seen no session")
	}
	for id, password := range sessions {
		ended, err := false, error(nil)
		for n := 0; n < 20 && !ended && err == nil; n++ {
			ended, err = endSession(r.server, id, password)
		}
		if !ended {
			return fmt.Errorf("session %x could not be ended: %w", id, err)
		}
	}
	return nil
}

// endSession joins a session and closes it. It reports whether the session has ended: its
// client loses the connection when another one joins, and may rejoin before the session
// is closed.
func endSession(server string, id int64, password []byte) (bool, error) {
	conn, err := net.DialTimeout("tcp", server, time.Second)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	join := binary.BigEndian.AppendUint32(nil, 44)         // length
	join = binary.BigEndian.AppendUint32(join, 0)          // version
	join = binary.BigEndian.AppendUint64(join, 0)          // last transaction seen
	join = binary.BigEndian.AppendUint32(join, 3000)       // timeout, ms
	join = binary.BigEndian.AppendUint64(join, uint64(id)) // session
	join = append(binary.BigEndian.AppendUint32(join, 16), password...)
	closing := binary.BigEndian.AppendUint32(nil, 8)    // length
	closing = binary.BigEndian.AppendUint32(closing, 1) // number of the request
	closing = append(closing, 0xff, 0xff, 0xff, 0xf5)   // operation -11
	if _, err := conn.Write(append(join, closing...)); err != nil {
		return false, err
	}
	answers, _ := io.ReadAll(conn) // until the server closes the connection
	if len(answers) < 20 {
		return false, nil
	}
	joined := int(binary.BigEndian.Uint32(answers)) + 4
	gone := binary.BigEndian.Uint64(answers[12:]) == 0
	return gone || len(answers) > joined, nil // the second answer is that to the closing
}
