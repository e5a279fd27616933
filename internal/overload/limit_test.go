package overload_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tandem-rpc/tandem/internal/overload"
)

// Whatever a method can do, whatever timeout its calls have, and however many calls come: half
// a minute later most of what it can do is done in time. A slight excess of calls is as hard as
// a large one: the handlers' times grow over minutes, and may be taken for usual.
func TestLimitIsFound(t *testing.T) {
	type scenario struct {
		connections int
		hold        int64   // ns that a handler needs a connection
		patient     int64   // timeout of a call in ns
		load        float64 // offered calls, as a multiple of what the method can do at first
		least       int     // percent of what it can do, or of the calls if those are fewer, that must end in time from 30 s on

		cold   int64 // hold in the first half second, if it is longer
		slower int64 // hold becomes this many times longer after 15 s; 0 for no change
		lost   int   // connections that are lost then
		outage bool  // from then on for ten seconds handlers need 10 s
		stuck  int   // handlers that never end and have no deadline
		config overload.Config
	}
	for name, s := range map[string]scenario{
		"as much as it can":   {connections: 16, hold: 50 * ms, patient: second, load: 1, least: 97},
		"a little too much":   {connections: 16, hold: 50 * ms, patient: second, load: 1.016, least: 97},
		"5 % too much":        {connections: 16, hold: 50 * ms, patient: second, load: 1.05, least: 97},
		"twice as much":       {connections: 16, hold: 50 * ms, patient: second, load: 2, least: 97},
		"ten times as much":   {connections: 16, hold: 50 * ms, patient: second, load: 10, least: 95},
		"short deadlines":     {connections: 16, hold: 50 * ms, patient: second / 5, load: 1.05, least: 93},
		"short, three times":  {connections: 16, hold: 50 * ms, patient: second / 5, load: 3, least: 90},
		"long deadlines":      {connections: 16, hold: 50 * ms, patient: 5 * second, load: 3, least: 97},
		"slower dependency":   {connections: 16, hold: 50 * ms, patient: second, load: 0.9, slower: 4, least: 93},
		"much slower":         {connections: 16, hold: 50 * ms, patient: second, load: 0.9, slower: 8, least: 70},
		"fewer connections":   {connections: 16, hold: 50 * ms, patient: 3 * second / 20, load: 0.9, lost: 12, least: 55},
		"slow, no pool":       {connections: 10_000, hold: 50 * ms, patient: second, load: 0.00144, slower: 12, least: 92},
		"slow from the start": {connections: 10_000, hold: 600 * ms, patient: second, load: 0.018, least: 97},
		"cold start":          {connections: 16, hold: 50 * ms, patient: second, load: 3, cold: 3 * second, least: 95},
		"an outage":           {connections: 16, hold: 50 * ms, patient: second, load: 1.05, outage: true, least: 90},
		"stuck handlers":      {connections: 16, hold: 50 * ms, patient: second, load: 1.2, stuck: 200, least: 60},
		"a small first limit": {connections: 16, hold: 50 * ms, patient: second, load: 1.5, slower: 4, config: overload.Config{FirstLimit: 16}, least: 80},
		"many connections":    {connections: 200, hold: 100 * ms, patient: second, load: 1.05, least: 97},
		"quick handlers":      {connections: 4, hold: 2 * ms, patient: second, load: 1.05, least: 97},
		"one connection":      {connections: 1, hold: 300 * ms, patient: second, load: 1.2, least: 60},
		"two, that take long": {connections: 2, hold: 400 * ms, patient: second, load: 3, least: 40},
	} {
		for _, heeds := range []bool{true, false} {
			if raceDetector && (heeds || s.load*float64(s.connections)/float64(s.hold) > 4e-7) {
				continue // the simulation has one goroutine, and takes ten times as long
			}
			for seed := range uint64(2) {
				p := newPooled(s.config, s.patient, heeds, 1)
				p.random = rand.New(rand.NewPCG(seed, 1))
				p.free, p.hold = s.connections, max(s.hold, s.cold)
				p.at(second+second/2, func() { p.hold = s.hold })
				for range s.stuck {
					p.gate.Ask(&overload.Request{Method: p.method}, p.now)
				}
				offered := s.load * float64(s.connections) / float64(s.hold) * float64(second)
				p.comes(0, offered, second, 61*second)
				p.run(16 * second)
				from := 31 * second
				switch {
				case s.outage:
					p.hold = 10 * second
					p.at(26*second, func() { p.hold = s.hold })
					from += 10 * second
				case s.slower > 0 || s.lost > 0:
					p.hold *= max(1, s.slower)
					p.free -= s.lost
					if !heeds {
						from += 15 * second // running handlers ignore their deadlines and take that much longer
					}
				}
				p.run(from)
				p.callers[0] = counts{}
				p.run(61 * second)
				can := min(offered, float64(s.connections-s.lost)/float64(p.hold)*float64(second))
				seconds := float64(61*second-from) / float64(second)
				if percent := int(100 * float64(p.callers[0].good) / (can * seconds)); percent < s.least {
					r, limit, waiting := p.method.State(p.gate)
					t.Errorf("%s, heeding %v, seed %d: %d %% of what it can do, want %d (%d run, limit %d, %d wait)", name, heeds, seed, percent, s.least, r, limit, waiting)
				}
			}
		}
	}
}
