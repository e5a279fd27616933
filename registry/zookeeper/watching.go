package zookeeper

import (
	"path"

	"github.com/go-zookeeper/zk"
)

// Kinds of watches that the library keeps.
const (
	ofChildren = iota
	ofData
	ofExistence
)

// watchKey names a one-shot watch.
type watchKey struct {
	path string
	kind int
}

// watchState is the state of one watch.
type watchState struct {
	set     bool // the watch is set, and has not fired
	setting int  // how many goroutines are setting it
	fired   bool // the watch has fired while goroutines were setting it
}

// watching records which watches are set, and which receivers get their events. The library
// would keep another channel each time that a watch is set again, and has no way to remove
// one. The link's mutex guards it.
type watching struct {
	states    map[watchKey]*watchState
	receivers map[string]map[*receiver]bool // receivers by directory
}

// begin is called before a node is read. It reports whether the read must set a watch; if
// so, the caller must call end.
func (w *watching) begin(key watchKey) bool {
	s := w.states[key]
	if s == nil {
		if w.states == nil {
			w.states = make(map[watchKey]*watchState)
		}
		s = new(watchState)
		w.states[key] = s
	}
	if s.set {
		return false
	}
	s.setting++
	return true
}

// end is called when the watch is set, or could not be; ok tells which.
func (w *watching) end(key watchKey, ok bool) {
	s := w.states[key]
	if s == nil {
		return // it was begun in an earlier session
	}
	s.setting--
	s.set = s.set || ok && !s.fired
	if s.setting <= 0 && !s.set {
		delete(w.states, key)
	}
}

// isSet reports whether a watch is set, so that a change causes an event.
func (w *watching) isSet(key watchKey) bool {
	s := w.states[key]
	return s != nil && s.set
}

// fired records that an event has ended its watches, and passes the change to the receivers.
func (w *watching) fired(e zk.Event) {
	var kinds []int
	switch e.Type {
	case zk.EventNodeCreated:
		kinds = []int{ofExistence}
	case zk.EventNodeDataChanged:
		kinds = []int{ofData, ofExistence}
	case zk.EventNodeChildrenChanged:
		kinds = []int{ofChildren}
	case zk.EventNodeDeleted:
		kinds = []int{ofChildren, ofData, ofExistence}
	default:
		return
	}
	for _, kind := range kinds {
		key := watchKey{e.Path, kind}
		s := w.states[key]
		switch {
		case s == nil:
		case s.setting > 0:
			s.set, s.fired = false, true
		default:
			delete(w.states, key)
		}
	}
	w.tell(e.Path)
}

// tell tells the receivers of a path, and of the directory it is in, that it has changed.
func (w *watching) tell(changed string) {
	for e := range w.receivers[changed] {
		e.list = true
		e.wake()
	}
	dir, child := path.Split(changed)
	if dir == "" || dir == "/" {
		return
	}
	for e := range w.receivers[dir[:len(dir)-1]] {
		e.nodes[child] = true
		e.wake()
	}
}

// forget drops all watches, as their session has ended.
func (w *watching) forget() { w.states = nil }

// receiver collects a directory's changes. The link's mutex guards it.
type receiver struct {
	news  chan struct{}   // has a token when there are changes
	list  bool            // the list of the directory's nodes has changed
	nodes map[string]bool // these nodes have changed, or are gone
}

func (e *receiver) wake() {
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// listen returns a receiver for a directory. The caller must call unlisten.
func (l *link) listen(dir string) *receiver {
	e := &receiver{news: make(chan struct{}, 1), nodes: make(map[string]bool)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watching.receivers == nil {
		l.watching.receivers = make(map[string]map[*receiver]bool)
	}
	if l.watching.receivers[dir] == nil {
		l.watching.receivers[dir] = make(map[*receiver]bool)
	}
	l.watching.receivers[dir][e] = true
	return e
}

// unlisten removes a receiver.
func (l *link) unlisten(dir string, e *receiver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.watching.receivers[dir], e)
	if len(l.watching.receivers[dir]) == 0 {
		delete(l.watching.receivers, dir)
	}
}

// takeChanges returns the changes since its last call.
func (l *link) takeChanges(e *receiver) (list bool, nodes map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, nodes = e.list, e.nodes
	e.list, e.nodes = false, make(map[string]bool)
	return list, nodes
}
