package sim

import (
	"time"

	"github.com/tandem-rpc/tandem/resilience"
)

// reconnectHerd: all clients lose the same server at once, and reconnect (reliability F14).
func reconnectHerd() *Scenario {
	return &Scenario{
		Name:  "reconnect-herd",
		Title: "20,000 clients lose their server: handshakes that it gets a second",
		Story: "A server with 20,000 connections is restarted and is back after 2 s. It does 5,000 handshakes a second and has room " +
			"for 4,096 that wait; the rest are refused. Clients retry after a pause.",
		Defence: "full jitter, 100 ms to 3 s", Against: "every 500 ms",
		Faults: []string{"no jitter"},
		Figures: []Figure{
			{What: "until all are connected, after the server is back", Limit: 10, Unit: "s"},
			{What: "attempts to connect in the worst 100 ms, a second", Limit: 25_000},
			{What: "refused attempts for each client, since too many came at once", Limit: 1},
		},
		X: "seconds", Y: "attempts to connect / s",
		play: playReconnectHerd,
	}
}

// acceptor is a server that clients connect to.
type acceptor struct {
	*world
	open     bool
	waiting  int
	refused  int
	up       int
	last     time.Duration // when the last client was connected
	attempts []int         // in each tenth of a second
	pause    func(failures int) time.Duration
}

const (
	herd       = 20_000
	handshakes = 5000 // a second
	backlog    = 4096 // that may wait
)

func playReconnectHerd(s setting) measured {
	d := &acceptor{world: newWorld(s.seed)}
	backoff := resilience.Backoff{First: 100 * time.Millisecond, Most: 3 * time.Second}
	switch {
	case s.naive:
		d.pause = func(int) time.Duration { return 500 * time.Millisecond }
	case s.fault == "no jitter":
		d.pause = func(failures int) time.Duration { return backoff.Pause(failures, 1) }
	default:
		d.pause = func(failures int) time.Duration { return backoff.Pause(failures, d.random.Float64()) }
	}
	const back, end = 2 * time.Second, 30 * time.Second
	d.attempts = make([]int, end/(100*time.Millisecond)+1)
	for range herd { // they notice the loss within a few milliseconds
		d.after(d.about(2*time.Millisecond), func() { d.connect(0) })
	}
	d.after(back, func() {
		d.open = true
		d.every(time.Second/handshakes, d.shake)
	})
	d.run(end)
	worst := 0
	var line []Point
	for i, n := range d.attempts {
		line = append(line, dot(float64(i)/10, float64(10*n)))
		if time.Duration(i)*100*time.Millisecond >= back {
			worst = max(worst, n)
		}
	}
	all := (d.last - began - back).Seconds()
	if d.up < herd {
		all = end.Seconds()
	}
	return measured{
		values: []float64{all, float64(10 * worst), float64(d.refused) / herd},
		line:   line[:min(len(line), 120)],
		worlds: []*world{d.world},
	}
}

// connect tries to connect a client until it is connected.
func (d *acceptor) connect(failures int) {
	d.attempts[d.since()/(100*time.Millisecond)]++
	d.note(noteConnected, uint64(failures), uint64(d.waiting)) //nolint:gosec // small
	switch {
	case d.open && d.waiting < backlog:
		d.waiting++
		return
	case d.open:
		d.refused++
	}
	d.after(d.pause(failures), func() { d.connect(failures + 1) })
}

// shake does the handshake of one client that waits.
func (d *acceptor) shake() {
	if d.waiting == 0 {
		return
	}
	d.waiting--
	d.up++
	d.last = d.now
}
