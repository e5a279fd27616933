package sim

import (
	"time"

	"github.com/tandem-rpc/tandem"
)

// server has workers, and a queue in front of them.
type server struct {
	world    *world
	number   int
	instance tandem.Instance
	workers  int
	room     int                                 // of the queue
	takes    func() time.Duration                // draws how long a worker needs for a call
	serve    func(a *attempt, reply func(error)) // answers a call instead, without a worker
	fails    error                               // error with which every call is answered at once; nil: calls are served
	silent   bool                                // receives and sends nothing
	patient  bool                                // also works for callers that have stopped waiting
	life     int                                 // counts its starts
	busy     int                                 // workers that work
	queue    []*attempt                          // that wait for one
	open     []*attempt                          // attempts that have not ended, and some that have
	arrivals []int                               // calls, by the second of the world
}

// Errors of simulated servers and connections, with the codes of real ones.
var (
	errFails      = &tandem.Error{Code: tandem.Unavailable, Message: "the server fails", Remote: true}
	errFull       = &tandem.Error{Code: tandem.ResourceExhausted, Message: "the queue is full", Remote: true, NotExecuted: true}
	errDeadline   = &tandem.Error{Code: tandem.DeadlineExceeded, Message: "no answer in time"}
	errLost       = &tandem.Error{Code: tandem.Unavailable, Message: "the connection was lost"}
	errNoInstance = &tandem.Error{Code: tandem.Unavailable, Message: "no instance is known", NotExecuted: true}
)

// quickly is how long a server needs to answer with an error.
const quickly = 100 * time.Microsecond

// receive handles an attempt that arrives from the network.
func (s *server) receive(a *attempt) {
	if s.silent {
		return
	}
	second := int(s.world.since() / time.Second)
	for len(s.arrivals) <= second {
		s.arrivals = append(s.arrivals, 0)
	}
	s.arrivals[second]++
	switch {
	case s.fails != nil:
		s.world.after(quickly, func() { s.reply(a, s.fails) })
	case s.serve != nil:
		s.serve(a, func(err error) { s.reply(a, err) })
	case s.busy < s.workers:
		s.work(a)
	case len(s.queue) < s.room:
		s.queue = append(s.queue, a)
	default:
		s.reply(a, errFull)
	}
}

// work lets a worker serve an attempt, and then the next in the queue.
func (s *server) work(a *attempt) {
	s.busy++
	life := s.life
	s.world.after(s.takes(), func() {
		if s.life != life {
			return // the server was stopped in between
		}
		s.busy--
		s.world.note(noteServed, uint64(s.number), uint64(a.call.number)) //nolint:gosec // small
		s.reply(a, nil)
		s.pull()
	})
}

// pull gives an idle worker the next attempt whose caller still waits.
func (s *server) pull() {
	for len(s.queue) > 0 {
		a := s.queue[0]
		s.queue = s.queue[1:]
		if s.patient || a.call.deadline > s.world.now {
			s.work(a)
			return
		}
	}
}

func (s *server) reply(a *attempt, err error) {
	life := s.life
	s.world.after(a.call.client.net.delay(), func() {
		if s.life == life {
			a.end(err)
		}
	})
}

// stop drops all work of the server. Clients notice only when their connections are closed.
func (s *server) stop() {
	s.life++
	s.silent, s.busy, s.queue = true, 0, nil
}

func (s *server) start() { s.silent = false }

// lose ends every attempt that waits for the server: its connections are closed.
func (s *server) lose() {
	open := s.open
	s.open = nil
	for _, a := range open {
		a.end(errLost)
	}
}

// track keeps an attempt until it has ended.
func (s *server) track(a *attempt) {
	if len(s.open) >= 64 && len(s.open) == cap(s.open) {
		kept := s.open[:0]
		for _, o := range s.open {
			if !o.over {
				kept = append(kept, o)
			}
		}
		clear(s.open[len(kept):])
		s.open = kept
	}
	s.open = append(s.open, a)
}

// calls returns how many calls arrived from second first to before last.
func (s *server) calls(first, last int) (n int) {
	for i := first; i < min(last, len(s.arrivals)); i++ {
		n += s.arrivals[i]
	}
	return n
}
