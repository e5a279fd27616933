package sim

import (
	"time"

	"github.com/tandem-rpc/tandem/registry/adapter"
)

// What a registry sends, in bytes, and how much it can send.
const (
	memberRate   = 125e6 // bytes a second of one member: 1 Gbit/s
	entryBytes   = 400   // an instance with its key
	keyBytes     = 80    // an instance that has gone
	renewalBytes = 100
	ruleBytes    = 2000
	renewalEvery = 5 * time.Second // a third of the time to live
)

// directory is the registry of a fleet. It sends one thing after the other.
type directory struct {
	*world
	rate float64       // bytes a second
	free time.Duration // when all that was to be sent is sent
	sent float64       // bytes
}

// send sends bytes after all others, and returns when that begins and ends.
func (d *directory) send(bytes float64) (from, to time.Duration) {
	from = max(d.free, d.now)
	d.free = from + time.Duration(bytes/d.rate*float64(time.Second))
	d.sent += bytes
	return from, d.free
}

// start makes servers renew, and clients read the whole list at intervals, as the real Follower
// does.
func (d *directory) start(f *fleet) {
	d.every(time.Second, func() {
		d.send(float64(f.size.instances) * renewalBytes / renewalEvery.Seconds())
	})
	_, relist := f.pace()
	for range f.size.clients {
		var read func()
		read = func() {
			_, done := d.send(float64(len(f.listed) * entryBytes))
			d.after(done-d.now+relist/2+time.Duration(d.random.Int64N(int64(relist/2))), read)
		}
		d.after(time.Duration(d.random.Int64N(int64(relist))), read)
	}
}

// broadcast sends bytes to every client, one after the other, and calls hear for those that are
// played when they have them.
func (d *directory) broadcast(f *fleet, bytes float64, hear func(*fleetMember)) {
	from, to := d.send(bytes * float64(f.size.clients))
	for _, m := range f.members {
		share := float64(m.number+1) / float64(f.size.clients)
		d.after(from-d.now+time.Duration(share*float64(to-from))+f.delay(), func() { hear(m) })
	}
}

// pace returns how often lists are delivered and read again.
func (f *fleet) pace() (settle, relist time.Duration) {
	if f.fault == "the pace of a short list" {
		return adapter.Follower{}.Pace(1)
	}
	return adapter.Follower{}.Pace(len(f.listed))
}
