// Package traffic decodes what two sides of a connection say to each other: tandem's own protocol,
// HTTP/1 and HTTP/2, which it tells apart by the first bytes; of others it counts the bytes. It is
// pure: it is given bytes and times, and returns events. What it keeps of a connection is bounded;
// what it can't follow it stops decoding, and says so.
package traffic

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/wire"
)

// Side is a side of a connection.
type Side int

// The sides.
const (
	Client Side = iota // it has connected
	Server             // it has accepted
)

// String returns the side's name.
func (s Side) String() string { return [...]string{"client", "server"}[s&1] }

// other returns the other side.
func (s Side) other() Side { return 1 - s }

// Event is something that one side has sent, or that has happened to a connection. Its fields are
// documented in docs/reference/cli.md.
type Event struct {
	At       time.Time `json:"at"`
	Conn     int       `json:"conn"`               // number of the connection
	From     string    `json:"from,omitempty"`     // client or server; "" for the connection itself
	Protocol string    `json:"protocol,omitempty"` // tandem, http/1, http/2, tls, or unknown
	Kind     string    `json:"kind"`
	Call     string    `json:"call,omitempty"`   // number of the call, or of the stream of HTTP/2
	Method   string    `json:"method,omitempty"` // of RPC, or the request line of HTTP
	Size     int64     `json:"size,omitempty"`   // bytes of the message on the wire
	Status   string    `json:"status,omitempty"`
	Took     float64   `json:"took,omitempty"`    // seconds since the request
	Detail   string    `json:"detail,omitempty"`  // what else there is to say
	Payload  string    `json:"payload,omitempty"` // the beginning of the message, escaped
}

// Options say what is decoded.
type Options struct {
	Payload int  // bytes of each message that are shown; 0 for none
	All     bool // also frames that only keep the connection going: windows, pings, settings
}

// Bounds of what is kept of one direction of a connection.
const (
	maxHead = 64 << 10 // bytes of a head of HTTP, or of a frame
	maxOpen = 10_000   // calls that are open at a time
)

// Conversation decodes one connection. It is not safe for concurrent use.
type Conversation struct {
	conn    int
	options Options
	emit    func(Event)

	now     time.Time // of the bytes that are being decoded
	from    Side
	name    string  // of the protocol; "" while it is not known
	decoder decoder // nil for bytes
	first   []byte  // what the client has sent while the protocol is not known
	read    [2]int64
	began   time.Time
}

// unknown is the name of a protocol that is not known.
const unknown = "unknown"

// decoder decodes a protocol. It fails when it can't follow the bytes any more.
type decoder interface {
	feed(from Side, p []byte) error
}

// New returns the decoder of a connection, which passes events to emit.
func New(conn int, o Options, emit func(Event), now time.Time) *Conversation {
	return &Conversation{conn: conn, options: o, emit: emit, began: now}
}

// Feed decodes bytes that a side has sent.
func (c *Conversation) Feed(from Side, p []byte, now time.Time) {
	c.now, c.from = now, from
	c.read[from] += int64(len(p))
	switch {
	case c.name != "":
		c.decode(from, p)
	case from == Server: // it speaks first, which none of the protocols does
		c.begin(unknown, nil)
		if len(c.first) > 0 {
			c.decode(Client, c.first)
			c.first = nil
		}
		c.decode(from, p)
	default:
		c.first = append(c.first, p...)
		if name, known := detect(c.first); known {
			c.begin(name, c.decoderOf(name))
			c.decode(from, c.first)
			c.first = nil
		}
	}
}

// Opened says that the connection is there.
func (c *Conversation) Opened(detail string) {
	c.now = c.began
	c.emit(Event{At: c.now, Conn: c.conn, Kind: "open", Detail: detail})
}

// Closed says that the connection has ended; err is nil if both sides have ended it.
func (c *Conversation) Closed(err error, now time.Time) {
	c.now = now
	if d, ok := c.decoder.(interface{ closed() }); ok {
		d.closed()
	}
	e := Event{At: now, Conn: c.conn, Kind: "close", Protocol: c.name, Took: now.Sub(c.began).Seconds()}
	e.Detail = fmt.Sprintf("the client sent %d bytes, the server %d", c.read[Client], c.read[Server])
	if err != nil {
		e.Detail += ": " + err.Error()
	}
	c.emit(e)
}

func (c *Conversation) begin(name string, d decoder) {
	c.name, c.decoder = name, d
	switch {
	case name == "tls":
		c.say(Event{Kind: "undecoded", Detail: "TLS: what it protects is passed on as it is"})
	case d == nil:
		c.say(Event{Kind: "undecoded", Detail: "the protocol is not known: its bytes are passed on as they are"})
	}
}

func (c *Conversation) decode(from Side, p []byte) {
	c.from = from
	if c.decoder == nil {
		if c.options.Payload > 0 {
			c.say(Event{Kind: "bytes", Size: int64(len(p)), Payload: c.payload(p)})
		}
		return
	}
	if err := c.decoder.feed(from, p); err != nil {
		c.lose(err)
	}
}

// lose gives up decoding: what follows is passed on as it is.
func (c *Conversation) lose(err error) {
	c.decoder = nil
	c.say(Event{Kind: "undecoded", Detail: "what follows is passed on as it is: " + err.Error()})
}

// say emits an event of the side whose bytes are being decoded.
func (c *Conversation) say(e Event) {
	e.At, e.Conn, e.Protocol = c.now, c.conn, c.name
	e.From = c.from.String()
	c.emit(e)
}

// payload returns the beginning of a message, escaped; "" if payloads are not shown.
func (c *Conversation) payload(p []byte) string {
	if c.options.Payload == 0 || len(p) == 0 {
		return ""
	}
	if len(p) > c.options.Payload {
		return escaped(p[:c.options.Payload]) + "…"
	}
	return escaped(p)
}

// escaped returns bytes as text in which control characters, and what is no text, are escaped as in
// Go. Quotes stay as they are, so that JSON can be read.
func escaped(p []byte) string {
	quoted := strconv.Quote(string(p))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// http2Preface is what a client of HTTP/2 sends first (RFC 9113, section 3.4).
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// detect returns the protocol that a client's first bytes begin; known is false if more are
// needed.
func detect(first []byte) (name string, known bool) {
	for _, p := range []struct{ name, magic string }{{"tandem", wire.Magic}, {"http/2", http2Preface}, {"tls", "\x16\x03"}} {
		n := min(len(first), len(p.magic))
		if string(first[:n]) != p.magic[:n] {
			continue
		}
		return p.name, n == len(p.magic)
	}
	method, _, complete := bytes.Cut(first, []byte(" "))
	const longest = 20 // letters of a method
	for _, b := range method {
		if b < 'A' || b > 'Z' || len(method) > longest {
			return unknown, true
		}
	}
	return "http/1", complete && len(method) > 0
}

func (c *Conversation) decoderOf(name string) decoder {
	switch name {
	case "tandem":
		return newTandem(c)
	case "http/1":
		return newHTTP1(c)
	case "http/2":
		return newHTTP2(c)
	}
	return nil
}

// input holds the bytes of one direction until there are enough.
type input struct{ held []byte }

// each calls f with the bytes that are there, until it consumes none because it needs more of them.
// It fails if f needs more than limit bytes at a time.
func (in *input) each(p []byte, limit int, f func(p []byte) (int, error)) error {
	if len(in.held) > 0 {
		p = append(in.held, p...)
	}
	for len(p) > 0 {
		n, err := f(p)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		p = p[n:]
	}
	if len(p) > limit {
		return fmt.Errorf("more than %d bytes belong together", limit)
	}
	in.held = append([]byte(nil), p...)
	return nil
}
