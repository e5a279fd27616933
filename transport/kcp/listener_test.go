package kcp

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// listenFor returns a listener that holds at most waiting connections that were not accepted,
// each for at most wait.
func listenFor(t *testing.T, waiting int, wait time.Duration) *listener {
	t.Helper()
	made, err := New()
	if err != nil {
		t.Fatal(err)
	}
	c := made.(*carrier)
	c.opts.waiting, c.opts.wait = waiting, wait
	ln, err := c.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.(*listener)
}

// dial connects to a listener within a time.
func dial(t *testing.T, ln *listener, within time.Duration) (net.Conn, error) {
	made, err := New()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return made.Dial(ctx, ln.Addr().String())
}

// ends waits until a dialed connection has ended.
func ends(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(defaultIdle + 10*time.Second)); err != nil { // a bye that is lost is not repeated
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that was not accepted has not ended: %v", err)
	}
	c.Close()
}

// users returns the number of users of a listener's socket: itself, and its connections.
func users(ln *listener) int {
	ln.socket.mu.Lock()
	defer ln.socket.mu.Unlock()
	return ln.socket.users
}

func awaitUsers(t *testing.T, ln *listener, want int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); users(ln) != want; time.Sleep(time.Millisecond) { // polls a condition
		if time.Now().After(end) {
			t.Fatalf("%d use the socket, want %d", users(ln), want)
		}
	}
}

// accepts checks that the listener accepts connections that work.
func accepts(t *testing.T, ln *listener) {
	t.Helper()
	stop := time.AfterFunc(30*time.Second, func() { ln.Close() }) // ends Accept
	defer stop.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { sendByte(t, ln) })
	for {
		c, err := ln.Accept()
		if err != nil {
			t.Fatalf("nothing is accepted: %v", err)
		}
		got, _ := io.ReadAll(c)
		c.Close()
		if string(got) == "a" {
			return // one without bytes was closed by its client
		}
	}
}

// sendByte connects to a listener and sends a byte.
func sendByte(t *testing.T, ln *listener) {
	c, err := dial(t, ln, 20*time.Second)
	if err != nil {
		t.Error(err)
		ln.Close() // ends Accept
		return
	}
	_, _ = c.Write([]byte("a")) // the acceptor checks it
	c.Close()
}

// A client whose hello arrives when its connection has been ended to make room is not answered
// with a hello.
func TestEndedConnectionSaysNoHello(t *testing.T) {
	for {
		ln := listenFor(t, 1, time.Minute)
		dialed := make(chan error, 1)
		go func() {
			c, err := dial(t, ln, 20*time.Second)
			if err == nil {
				c.Close()
			}
			dialed <- err
		}()
		c := takeSilent(ln, dialed)
		if c == nil {
			continue // its hello came first
		}
		select {
		case err := <-dialed:
			t.Errorf("the client of an ended connection got %v", err)
			c.abort()
		case <-time.After(300 * time.Millisecond): // a hello takes less; if it does not, the test passes
			c.abort()
			<-dialed
		}
		return
	}
}

// takeSilent waits for a connection that has not said hello, and takes it from those that wait,
// as hasRoomLocked does. It returns nil if a client has connected.
func takeSilent(ln *listener, dialed chan error) *conn {
	for len(dialed) == 0 {
		ln.mu.Lock()
		c, _, ok := ln.silent.Next()
		if ok {
			ln.takeLocked(c)
		}
		ln.mu.Unlock()
		if ok {
			return c
		}
	}
	return nil
}

// While no connection is accepted, only a few wait, and the others are turned away.
func TestWaitingAreBounded(t *testing.T) {
	const most = 5
	ln := listenFor(t, most, time.Minute)
	results := make(chan net.Conn)
	for range 4 * most {
		go func() {
			c, _ := dial(t, ln, 2*time.Second)
			results <- c
		}()
	}
	var dialed []net.Conn
	for range 4 * most {
		if c := <-results; c != nil {
			dialed = append(dialed, c)
		}
	}
	if n := len(dialed); n == 0 || n > most {
		t.Errorf("%d connections were made, want %d", n, most)
	}
	if n := users(ln) - 1; n > most {
		t.Errorf("%d connections wait, want at most %d", n, most)
	}
	ln.Close()
	for _, c := range dialed {
		ends(t, c)
	}
}

// A connection that is not accepted in time is ended, and is not accepted later.
func TestConnectionsAreDroppedUnlessAccepted(t *testing.T) {
	ln := listenFor(t, 16, 500*time.Millisecond) // room for the last packets of the first connection, too
	c, err := dial(t, ln, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, c)
	awaitUsers(t, ln, 1)
	accepts(t, ln)
}

// sayMute sends a hello as a client with a closed window, to which nothing can be sent.
func sayMute(t *testing.T, ln *listener) {
	t.Helper()
	c, err := net.Dial("udp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	packet := make([]byte, 24, 32)
	binary.LittleEndian.PutUint32(packet, 7)      // the conversation
	packet[4] = 81                                // data; the window, two bytes from 6, is 0
	binary.LittleEndian.PutUint32(packet[20:], 3) // bytes of it
	if _, err := c.Write(append(packet, control(hello)...)); err != nil {
		t.Fatal(err)
	}
}

// Clients to which nothing can be sent delay no other client, whether they wait to be accepted
// or are turned away.
func TestClientsThatTakeNothing(t *testing.T) {
	ln := listenFor(t, 1, 500*time.Millisecond)
	sayMute(t, ln)
	awaitUsers(t, ln, 2)
	sayMute(t, ln)
	awaitUsers(t, ln, 1)
	accepts(t, ln)
}

// Sessions without a hello make room for a client that says hello.
func TestSilentSessionsMakeRoom(t *testing.T) {
	const most = 3
	ln := listenFor(t, most, time.Minute)
	for range most {
		c, err := net.Dial("udp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		packet := make([]byte, 25)
		binary.LittleEndian.PutUint32(packet, 7) // the conversation
		packet[4], packet[6] = 81, 1             // data, and a window
		packet[12], packet[20] = 1, 1            // the second segment; the first never comes
		if _, err := c.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	awaitUsers(t, ln, most+1)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) { // polls a condition: the silent ones must be old enough
		c, err := dial(t, ln, 20*time.Second)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
