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

	mu     sync.Mutex
	server *hashicorp.Server // nil before open
	index  int               // of the interface on which server has joined the group
	ears   map[string]map[*ear]struct{}
}

// ear receives the announcements of one service, for one watch.
type ear struct {
	news chan struct{} // has a token after an announcement

	mu   sync.Mutex
	gone map[string]bool // labels of the instances that have ended
}

// maxGone bounds the labels that an ear keeps: any program may announce any label.
const maxGone = 1000

func newListener(iface string, log *slog.Logger) *listener {
	return &listener{iface: iface, log: log, ears: map[string]map[*ear]struct{}{}}
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

// add returns an ear for a service, by its full name.
func (l *listener) add(service string) *ear {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &ear{news: make(chan struct{}, 1), gone: map[string]bool{}}
	if l.ears[service] == nil {
		l.ears[service] = map[*ear]struct{}{}
	}
	l.ears[service][e] = struct{}{}
	return e
}

func (l *listener) remove(service string, e *ear) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ears[service], e)
	if len(l.ears[service]) == 0 {
		delete(l.ears, service)
	}
}

// Records passes an announcement to the ears of its service. The library calls it for each
// question that it receives. It returns no answers.
func (l *listener) Records(q dns.Question) []dns.RR {
	label, rest, _ := strings.Cut(strings.ToLower(q.Name), ".")
	what, service, _ := strings.Cut(rest, ".")
	if what != "_new" && what != "_gone" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for e := range l.ears[service] {
		e.hear(label, what == "_gone")
	}
	return nil
}

func (e *ear) hear(label string, gone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if gone && len(e.gone) < maxGone {
		e.gone[label] = true
	}
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// left returns the labels of the instances that have ended since its last call.
func (e *ear) left() map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	gone := e.gone
	e.gone = map[string]bool{}
	return gone
}
