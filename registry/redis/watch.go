package redis

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

//go:embed lua/list.lua
var listText string

// Limits of what is read of one list.
const (
	maxListed = 2 * registry.MaxInstances // entries
	maxText   = adapter.MaxEntry + 64     // bytes of an entry, with its owner
	maxBytes  = 64 << 20                  // bytes of all entries
)

// Times of a watch.
const (
	restPause = 100 * time.Millisecond // least time between two reads of the list
	lateBy    = 20 * time.Millisecond  // added to the time of an expiry, so that the entry has expired when it is read
)

// watch follows one list.
type watch struct {
	conn *connection
	list string
	ttl  time.Duration

	// Entries expire in an outage: when it ends, an instance may be off the list before
	// its process could renew it. So known instances stay listed for one time to live.
	known   map[string]tandem.Instance // instances as last read, by ID
	trouble bool                       // the last session failed
	spared  time.Time                  // known instances stay listed until then
}

// session follows the list until something fails.
func (w *watch) session(ctx context.Context, m *adapter.Mirror) error {
	err := w.follow(ctx, m)
	w.trouble = w.trouble || ctx.Err() == nil
	return err
}

// follow subscribes, and then reads the list, so that it misses no change between the two.
// It reads the list again whenever it may have changed.
func (w *watch) follow(ctx context.Context, m *adapter.Mirror) error {
	// A list that can't be read, for lack of rights, must not make the shared line fail.
	if _, err := w.read(ctx); err != nil {
		return err
	}
	rcv := w.conn.listen(channel(w.list))
	defer rcv.close()
	select {
	case <-rcv.ready:
	case <-rcv.line.done:
		return rcv.line.err
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		fields, err := w.read(ctx)
		if err != nil {
			return err
		}
		due := w.mirror(fields, m, time.Now())
		if err := rcv.wait(ctx, restPause, nil); err != nil {
			return err
		}
		if err := rcv.wait(ctx, due, rcv.news); err != nil {
			return err
		}
	}
}

// read reads the list: for each entry its ID, its text, and the milliseconds until it
// expires. The size of an entry that is too large replaces its text.
func (w *watch) read(ctx context.Context) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.conn.list.Run(ctx, w.conn.client, keys(w.list), maxListed, maxText, maxBytes).Slice()
}

// mirror replaces the list in m by what was read, and returns after which time to read it
// again if there is no announcement.
func (w *watch) mirror(fields []any, m *adapter.Mirror, now time.Time) time.Duration {
	due := w.ttl
	list := make(map[string]tandem.Instance, len(fields)/3)
	for ; len(fields) >= 3; fields = fields[3:] {
		id, _ := fields[0].(string)
		left, _ := fields[2].(int64)
		due = min(due, time.Duration(left)*time.Millisecond)
		in, err := decodeAs(id, fields[1])
		if err != nil {
			m.Refuse(w.list+"/"+id, err)
			continue
		}
		list[id] = in
	}
	if w.trouble {
		w.trouble, w.spared = false, now.Add(w.ttl)
	}
	if left := w.spared.Sub(now); left > 0 {
		due = min(due, left)
		for id, in := range w.known {
			if _, listed := list[id]; !listed {
				list[id] = in
			}
		}
	}
	w.known = list
	m.Replace(list)
	return due + lateBy
}

// decodeAs parses the entry under an ID.
func decodeAs(id string, value any) (tandem.Instance, error) {
	text, ok := value.(string)
	if !ok {
		return tandem.Instance{}, fmt.Errorf("it has %v bytes, limit %d, and %d for the list", value, maxText, maxBytes)
	}
	in, err := decode(text)
	if err == nil && in.ID != id {
		err = fmt.Errorf("it says that its id is %q", in.ID)
	}
	return in, err
}

// decode parses an entry: JSON, after an optional name of its writer.
func decode(text string) (tandem.Instance, error) {
	i := strings.IndexByte(text, '{')
	if i < 0 {
		return tandem.Instance{}, errors.New("it has no JSON object")
	}
	return adapter.Decode([]byte(text[i:]))
}
