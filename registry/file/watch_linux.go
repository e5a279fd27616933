package file

import (
	"os"
	"sync"
	"syscall"
)

// watch reports changes in a directory by inotify(7).
type watch struct {
	changes chan struct{} // holds a token when there was a change
	file    *os.File
	reader  sync.WaitGroup
	current int // watch descriptor of the directory, 0 before the first
}

// changed are the events after which the directory's list may differ. The kernel
// closes a dead owner's lock file, which is IN_CLOSE_WRITE.
const changed = syscall.IN_CREATE | syscall.IN_DELETE | syscall.IN_MOVED_FROM | syscall.IN_MOVED_TO |
	syscall.IN_MODIFY | syscall.IN_CLOSE_WRITE | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF

func newWatch() (*watch, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &watch{changes: make(chan struct{}, 1), file: os.NewFile(uintptr(fd), "inotify")}
	w.reader.Go(w.read)
	return w, nil
}

// read turns events into tokens. It ignores the content of events: the whole
// directory is read again, also after events were lost.
func (w *watch) read() {
	buf := make([]byte, 4<<10)
	for {
		if _, err := w.file.Read(buf); err != nil {
			return // closed
		}
		select {
		case w.changes <- struct{}{}:
		default:
		}
	}
}

func (w *watch) follow(dir string) {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // fails when closed
		d, err := syscall.InotifyAddWatch(int(fd), dir, changed|syscall.IN_ONLYDIR)
		if err != nil || d == w.current {
			return
		}
		if w.current != 0 { // the old directory was moved; for a deleted one the watch has ended already
			_, _ = syscall.InotifyRmWatch(int(fd), uint32(w.current)) //nolint:gosec // never negative
		}
		w.current = d
	})
}

func (w *watch) close() {
	_ = w.file.Close()
	w.reader.Wait()
}
