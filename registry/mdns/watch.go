package mdns

import (
	"context"
	"log/slog"
	"strings"
	"time"

	hashicorp "github.com/hashicorp/mdns"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// firstInterval is the first pause between two questions; it doubles from there.
const firstInterval = 500 * time.Millisecond

// watch asks for the instances of one service.
type watch struct {
	at       place
	ttl      time.Duration
	log      *slog.Logger
	listener *listener
	heard    map[string]answer // last answers, by label
	trouble  bool              // the last session failed
}

// answer is the last answer of a label.
type answer struct {
	in tandem.Instance
	at time.Time
}

// session asks at intervals until something fails.
func (w *watch) session(ctx context.Context, m *adapter.Mirror) error {
	err := w.follow(ctx, m)
	w.trouble = w.trouble || ctx.Err() == nil
	return err
}

func (w *watch) follow(ctx context.Context, m *adapter.Mirror) error {
	rcv := w.listener.add(w.at.fqdn())
	defer w.listener.remove(w.at.fqdn(), rcv)
	for pause := firstInterval; ; pause = min(2*pause, w.ttl/3) {
		if err := w.listener.open(); err != nil {
			return err
		}
		if err := w.round(ctx, rcv, m); err != nil {
			return err
		}
		if len(w.heard) == 0 && pause == firstInterval { // a packet may have been lost
			if err := w.round(ctx, rcv, m); err != nil {
				return err
			}
		}
		m.Replace(w.list())
		if err := wait(ctx, pause, rcv.news); err != nil {
			return err
		}
	}
}

// round asks once.
func (w *watch) round(ctx context.Context, rcv *receiver, m *adapter.Mirror) error {
	gone := rcv.left() // before asking: an instance that still answers is not gone
	answers, err := ask(ctx, w.at, w.at.service, w.log)
	if err != nil {
		return err
	}
	now := time.Now()
	w.take(answers, m, now)
	w.forget(gone, now)
	return nil
}

// wait waits for d or for news, or fails with ctx's error.
func wait(ctx context.Context, d time.Duration, news <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-news:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take records the answers. After an outage, the instances that were known before it count
// as having answered now: they could not answer in the outage.
func (w *watch) take(answers []*hashicorp.ServiceEntry, m *adapter.Mirror, now time.Time) {
	if w.trouble {
		w.trouble = false
		for label, a := range w.heard {
			w.heard[label] = answer{a.in, now}
		}
	}
	for _, e := range answers {
		label, service, _ := strings.Cut(e.Name, ".")
		if service != w.at.fqdn() {
			continue // the library also delivers answers to questions of other programs
		}
		in, err := decodeTXT(e.InfoFields)
		if err != nil {
			m.Refuse(e.Name, err)
			continue
		}
		if _, known := w.heard[label]; known || len(w.heard) < 2*registry.MaxInstances {
			w.heard[label] = answer{in, now}
		}
	}
}

// forget removes instances that have not answered for a time to live, and those that have
// announced their end and not answered just now.
func (w *watch) forget(gone map[string]bool, now time.Time) {
	for label, a := range w.heard {
		if silent := now.Sub(a.at); silent >= w.ttl || gone[label] && silent > 0 {
			delete(w.heard, label)
		}
	}
}

// list returns the instances by ID. Of several with one ID, it takes the one that started
// last, and of those the one with the least label, so that all clients choose the same.
func (w *watch) list() map[string]tandem.Instance {
	best := map[string]string{} // label by ID
	for label, a := range w.heard {
		other, twice := best[a.in.ID]
		if !twice || a.in.Started.After(w.heard[other].in.Started) ||
			a.in.Started.Equal(w.heard[other].in.Started) && label < other {
			best[a.in.ID] = label
		}
	}
	list := make(map[string]tandem.Instance, len(best))
	for id, label := range best {
		list[id] = w.heard[label].in
	}
	return list
}
