package web

import (
	"bytes"
	"errors"
	"io"
)

// lineBody is the body of a request with one message a line. Read ends with io.EOF at the end of
// each line; next goes on to the next one. A line that has begun must keep arriving: 64 KiB, or
// the rest, within the stall timeout (see [timedStreamBody]). Between lines there is no limit.
type lineBody struct {
	io.ReadCloser
	pacer

	buffer []byte
	ahead  []byte // part of buffer that has been read from the body, and not from here
	begun  bool   // the current line has begun
	ended  bool   // the current line has ended
	pacing bool   // the timer has been started for the current line
	failed error  // why the body can't be read further; io.EOF at its end

	unpaced int // bytes until the timer is started again
}

// pacer limits the time until more of a message arrives.
type pacer interface {
	start()
	stop()
}

// lineBuffer is how much is read from the body at once, in bytes.
const lineBuffer = 4 << 10

// next goes on to the next line. It returns false at the end of the body.
func (l *lineBody) next() bool {
	l.begun, l.ended = false, false
	return len(l.ahead) > 0 || !errors.Is(l.failed, io.EOF)
}

// Read reads from the current line, without the line feed at its end.
func (l *lineBody) Read(b []byte) (int, error) {
	if l.ended {
		return 0, io.EOF
	}
	if len(l.ahead) == 0 {
		if l.fill(); len(l.ahead) == 0 {
			return 0, l.failed
		}
	}
	part := l.ahead[:min(len(b), len(l.ahead))]
	l.begun = true
	if end := bytes.IndexByte(part, '\n'); end >= 0 {
		l.ended = true
		l.ahead = l.ahead[end+1:]
		return copy(b, part[:end]), io.EOF
	}
	l.ahead = l.ahead[len(part):]
	return copy(b, part), nil
}

// fill reads from the body.
func (l *lineBody) fill() {
	if l.failed != nil {
		return
	}
	if l.buffer == nil {
		l.buffer = make([]byte, lineBuffer)
	}
	if l.begun && (!l.pacing || l.unpaced <= 0) {
		l.pacing, l.unpaced = true, stallBytes
		l.start()
	}
	n, err := l.ReadCloser.Read(l.buffer)
	l.ahead, l.failed = l.buffer[:n], err
	l.unpaced -= n
	if err != nil || bytes.IndexByte(l.ahead, '\n') >= 0 {
		l.pacing = false
		l.stop()
	}
}
