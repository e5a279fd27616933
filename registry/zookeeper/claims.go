package zookeeper

import (
	"context"
	"maps"
)

// hint tells every registration that it may be lost.
func (l *link) hint() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for lost := range l.hints {
		select {
		case lost <- struct{}{}:
		default:
		}
	}
}

// register has lost receive when the session is a new one, until unregister.
func (l *link) register(lost chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hints[lost] = true
}

func (l *link) unregister(lost chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hints, lost)
}

// claim notes that the node at a path is the entry's, of all entries of this link.
func (l *link) claim(path string, e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims[path] = e
}

// claimed reports whether it still is.
func (l *link) claimed(path string, e *entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claims[path] == e
}

func (l *link) unclaim(path string, e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claims[path] == e {
		delete(l.claims, path)
	}
}

// leave has the nodes of a closed entry deleted later: their session may live on.
func (l *link) leave(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leavings[e] = true
}

// cleanUp deletes what closed entries could not delete.
func (l *link) cleanUp() {
	l.mu.Lock()
	left := maps.Clone(l.leavings)
	l.mu.Unlock()
	for e := range left {
		if l.unusable() != nil {
			return
		}
		ctx, cancel := context.WithTimeout(l.ctx, connectWait)
		err := e.remove(ctx)
		cancel()
		if err == nil {
			l.mu.Lock()
			delete(l.leavings, e)
			l.mu.Unlock()
		}
	}
}
