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

// register makes hint send to lost, until unregister.
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

// claim notes that the node at a path belongs to e, and to no other entry of this link.
func (l *link) claim(path string, e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims[path] = e
}

// claimed reports whether e was the last entry to claim the node at a path.
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

// leave makes cleanUp delete the nodes of a closed entry later: their session may last.
func (l *link) leave(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leavings[e] = true
}

// cleanUp deletes the nodes that closed entries could not delete.
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
