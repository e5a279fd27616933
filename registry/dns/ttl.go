package dns

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"net"
	"sync"
	"time"
)

// tap reads the times to live in the responses that a [net.Resolver] gets: that resolver does not
// report them. One tap serves one lookup. It is safe for concurrent use.
type tap struct {
	mu    sync.Mutex
	least uint32 // of the answers so far, in seconds
	known bool
}

// tapped returns a resolver like r that the tap reads. server is asked instead of the system's
// unless it is "".
func (t *tap) tapped(r *net.Resolver, server string) *net.Resolver {
	dial := r.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return &net.Resolver{
		PreferGo:     r.PreferGo || server != "", // the system's own resolver asks its own servers
		StrictErrors: r.StrictErrors,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, cmp.Or(server, address))
			if err != nil {
				return nil, err
			}
			if packets, ok := conn.(packetConn); ok { // net.Resolver asks for this, too
				return tapPackets{packets, t}, nil
			}
			return &tapStream{Conn: conn, tap: t}, nil
		},
	}
}

// ttl returns the least time to live of the answers, and whether there were any.
func (t *tap) ttl() (time.Duration, bool) {
	if t == nil {
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Duration(t.least) * time.Second, t.known
}

func (t *tap) take(message []byte) {
	least, ok := leastTTL(message)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known || least < t.least {
		t.least, t.known = least, true
	}
}

// packetConn is a connection of UDP.
type packetConn interface {
	net.Conn
	net.PacketConn
}

// tapPackets passes packets, one message each.
type tapPackets struct {
	packetConn
	tap *tap
}

// Read reads a packet.
func (c tapPackets) Read(b []byte) (int, error) {
	n, err := c.packetConn.Read(b)
	c.tap.take(b[:n])
	return n, err
}

// tapStream passes the bytes of a connection of TCP, whose messages have two bytes with their
// length before them.
type tapStream struct {
	net.Conn
	tap  *tap
	read []byte // of the message that is being read, with its length
}

// Read reads some bytes.
func (c *tapStream) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read = append(c.read, b[:n]...)
	for len(c.read) >= 2 {
		end := 2 + int(binary.BigEndian.Uint16(c.read))
		if len(c.read) < end {
			break
		}
		c.tap.take(c.read[2:end])
		c.read = c.read[end:]
	}
	return n, err
}

// leastTTL returns the least time to live of the answers of a response, in seconds, and whether it
// has any. It is false for what is no response.
func leastTTL(message []byte) (least uint32, ok bool) {
	const header, response, fixed = 12, 0x80, 10
	if len(message) < header || message[2]&response == 0 {
		return 0, false
	}
	questions, answers := binary.BigEndian.Uint16(message[4:]), binary.BigEndian.Uint16(message[6:])
	rest := message[header:]
	for range questions {
		if rest = afterName(rest); len(rest) < 4 {
			return 0, false
		}
		rest = rest[4:] // type and class
	}
	least = math.MaxUint32
	for range answers {
		if rest = afterName(rest); len(rest) < fixed {
			return 0, false
		}
		ttl, data := binary.BigEndian.Uint32(rest[4:]), int(binary.BigEndian.Uint16(rest[8:]))
		if ttl > math.MaxInt32 {
			ttl = 0 // RFC 2181, section 8
		}
		if rest = rest[fixed:]; len(rest) < data {
			return 0, false
		}
		least, rest = min(least, ttl), rest[data:]
	}
	return least, answers > 0
}

// afterName returns what follows a name, nil if it does not end.
func afterName(b []byte) []byte {
	for len(b) > 0 {
		n := int(b[0])
		switch {
		case n == 0:
			return b[1:]
		case n >= 0xc0: // a pointer ends a name
			return b[min(2, len(b)):]
		case len(b) < 1+n:
			return nil
		}
		b = b[1+n:]
	}
	return nil
}
