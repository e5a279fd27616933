package client

import (
	"cmp"
	"time"

	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/resilience"
	"github.com/tandem-rpc/tandem/wire"
)

// Connections says how a client connects to its servers, for [WithConnections]. A field that is
// zero has its default, or what an earlier option has set.
type Connections struct {
	// PerInstance is how many connections are held to each instance, 64 at most; 1 by default,
	// which is best unless TLS or a saturated core limits the throughput.
	PerInstance int

	// Timeout is how long connecting and the handshake may take, which are two round trips; 10 s
	// by default.
	Timeout time.Duration

	// Backoff is the pause before the first reconnect, and MaxBackoff the longest one; between
	// them it doubles. The actual pause is random between zero and that ("full jitter"). The
	// default is 100 ms and 3 s.
	Backoff, MaxBackoff time.Duration

	// HealthCheck is how long a connection may be silent before the server is pinged: a random
	// time between half of HealthCheck and all of it. The default is 10 s, the minimum 100 ms, and
	// a negative value means never. A server that was stopped, or whose machine failed, is thus
	// found before a call is sent to it, at most 1.125 intervals and 1.4 s later. It is then a
	// suspect, which gets a call only if no other instance can take it, until it answers or the
	// client has connected again; the client reconnects when it was silent for as long as Silence
	// says. Connections with calls outstanding are watched more closely in any case.
	HealthCheck time.Duration

	// Silence is how long a server may be silent while calls are outstanding before it is given
	// up: 20 s by default; less than 2 s is an error. If what the client writes is not acknowledged
	// for so long, the connection is closed. If it is, but the server answers no ping, its process
	// hangs: then calls fail with Unavailable, except those with a deadline of their own, which
	// wait until then. A deadline from [WithTimeout] is not their own. Over QUIC and KCP, whose
	// acknowledgements the process makes itself, a process that hangs counts as a lost connection.
	//
	// A silent server is a suspect much earlier, after a second or four round trips. Calls then go
	// to other instances if there are any; calls that wait for the suspect are made elsewhere if
	// they are [Idempotent] or have a [Key], under [Failover] or [Backup], and the retry budget allows it. Over the
	// protocols of [WithProtocols] the client knows only what HealthCheck finds: a connection that
	// has been silent for so long is replaced, and its calls wait until their own deadlines.
	Silence time.Duration

	// StreamWindow is how many bytes of a stream's messages the server may send before they are
	// received here; 1 MiB by default, from 16 KiB to 64 MiB. All streams of a connection together
	// may have 16 times as many. A stream carries at most one window per round trip. It is an error
	// if the protocol of the target carries no streams.
	StreamWindow int
}

// WithConnections says how the client connects to its servers.
func WithConnections(c Connections) Option {
	return func(o *options) {
		c.setConnecting(o)
		c.setWatching(o)
		if c.StreamWindow != 0 {
			o.want(c.StreamWindow >= wire.MinWindow && c.StreamWindow <= session.MaxStreamWindow, "WithConnections: StreamWindow", c.StreamWindow, "16 KiB to 64 MiB")
			o.windowGiven = true
			o.given.Add("WithConnections: StreamWindow")
			o.streamWindow = min(max(wire.MinWindow, c.StreamWindow), session.MaxStreamWindow)
		}
	}
}

func (c *Connections) setConnecting(o *options) {
	if n := c.PerInstance; n != 0 {
		o.want(n >= 1 && n <= maxConnections, "WithConnections: PerInstance", n, "1 to 64")
		o.given.Add("WithConnections: PerInstance")
		o.connections = min(max(1, n), maxConnections)
	}
	if c.Timeout != 0 {
		o.want(c.Timeout > 0, "WithConnections: Timeout", c.Timeout, "more than 0")
		o.given.Add("WithConnections: Timeout")
		o.connectTimeout = c.Timeout
	}
	if c.Backoff != 0 || c.MaxBackoff != 0 {
		o.given.Add("WithConnections: Backoff, MaxBackoff")
		first, most := cmp.Or(c.Backoff, o.backoff.First), cmp.Or(c.MaxBackoff, o.backoff.Most)
		o.want(first >= 0 && most >= first, "WithConnections: Backoff, MaxBackoff", [2]time.Duration{first, most}, "a first pause of 0 or more, and the longest no shorter")
		o.backoff = resilience.Backoff{First: max(first, time.Millisecond), Most: max(first, most)}
	}
}

func (c *Connections) setWatching(o *options) {
	if c.HealthCheck != 0 {
		o.given.Add("WithConnections: HealthCheck")
	}
	switch h := c.HealthCheck; {
	case h > 0:
		o.healthCheck = max(h, leastHealthCheck)
	case h < 0:
		o.healthCheck = 0
	}
	if c.Silence != 0 {
		o.want(c.Silence >= leastSilence, "WithConnections: Silence", c.Silence, "2s and more")
		o.given.Add("WithConnections: Silence")
		o.silence = max(leastSilence, c.Silence)
	}
}

const (
	maxConnections   = 64
	leastSilence     = 2 * time.Second
	leastHealthCheck = 100 * time.Millisecond
)
