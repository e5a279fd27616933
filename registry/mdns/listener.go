package mdns

import (
	"log/slog"
	"strings"
	"sync"

	hashicorp "github.com/hashicorp/mdns"
	"github.com/miekg/dns"
)

// listener receives the announcements of starting and ending instances on one interface. It
// runs the library's server, which answers no question.
type listener struct {
	iface string
	log   *slog.Logger

	mu        sync.Mutex
	server    *hashicorp.Server // nil before open
	index     int               // index of the interface on which server has joined the group
	receivers map[string]map[*receiver]struct{}
}

// receiver gets the announcements of one service, for one watch.
type receiver struct {
	news chan struct{} // has a token after an announcement

	mu   sync.Mutex
	gone map[string]bool // labels of the instances that have ended
}

// maxGone bounds the labels that a receiver keeps: any program may announce any label.
const maxGone = 1000

func newListener(iface string, log *slog.Logger) *listener {
	return &listener{iface: iface, log: log, receivers: map[string]map[*receiver]struct{}{}}
}

// open starts to listen, unless it listens already. A recreated interface has another
// index, and is joined again.
func (l *listener) open() error {
	iface, err := interfaceOf(l.iface)
	if err != nil {
		return err
	}
	index := 0
	if iface != nil {
		index = iface.Index
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil && l.index == index {
		return nil
	}
	server, err := hashicorp.NewServer(&hashicorp.Config{Zone: l, Iface: iface, Logger: logger(l.log)})
	if err != nil {
		return err
	}
	if l.server != nil {
		_ = l.server.Shutdown() // never fails
	}
	l.server, l.index = server, index
	return nil
}

// close stops listening.
func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		_ = l.server.Shutdown() // never fails
		l.server = nil
	}
}

// add returns a receiver for a service, by its full name.
func (l *listener) add(service string) *receiver {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &receiver{news: make(chan struct{}, 1), gone: map[string]bool{}}
	if l.receivers[service] == nil {
		l.receivers[service] = map[*receiver]struct{}{}
	}
	l.receivers[service][s] = struct{}{}
	return s
}

func (l *listener) remove(service string, s *receiver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.receivers[service], s)
	if len(l.receivers[service]) == 0 {
		delete(l.receivers, service)
	}
}

// Records passes an announcement to the receivers of its service. The library calls it for each
// question that it receives. It returns no answers.
func (l *listener) Records(q dns.Question) []dns.RR {
	label, rest, _ := strings.Cut(strings.ToLower(q.Name), ".")
	what, service, _ := strings.Cut(rest, ".")
	if what != "_new" && what != "_gone" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.receivers[service] {
		s.hear(label, what == "_gone")
	}
	return nil
}

func (s *receiver) hear(label string, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone && len(s.gone) < maxGone {
		s.gone[label] = true
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// left returns the labels of the instances that have ended since its last call.
func (s *receiver) left() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := s.gone
	s.gone = map[string]bool{}
	return gone
}
