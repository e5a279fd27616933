package jsonrpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/tandem-rpc/tandem/codec"
)

// frame finds the end of a JSON object or array. It counts brackets outside strings and
// checks little else, so a message that it finds may still be invalid JSON.
type frame struct {
	open    []byte // the brackets that are open
	commas  int    // commas between the requests of a batch
	quoted  bool   // inside a string
	escaped bool   // after a backslash
	member  bool   // after an opening brace: the name of a member or the closing brace must follow
}

var errNotJSON = errors.New("not a JSON object or array")

// scan processes the next bytes and returns how many belong to the message. done reports
// whether the message ends with them.
func (f *frame) scan(b []byte) (n int, done bool, err error) {
	for i, c := range b {
		switch {
		case f.quoted:
			err = f.inString(c)
		case c == '"' && len(f.open) > 0:
			f.quoted, f.member = true, false
		case c == '{' || c == '[':
			err = f.push(c)
		case c == '}' || c == ']':
			err = f.pop(c)
			done = err == nil && len(f.open) == 0
		case len(f.open) == 0:
			err = fmt.Errorf("%w: it begins with %q", errNotJSON, c)
		case c == ',':
			f.comma()
		}
		if done || err != nil {
			return i + 1, done, err
		}
	}
	return len(b), false, nil
}

// comma counts the commas between the requests of a batch.
func (f *frame) comma() {
	if len(f.open) == 1 && f.open[0] == '[' {
		f.commas++
	}
}

func (f *frame) inString(c byte) error {
	switch {
	case f.escaped:
		f.escaped = false
	case c == '\\':
		f.escaped = true
	case c == '"':
		f.quoted = false
	case c < ' ':
		return fmt.Errorf("%w: %q inside a string", errNotJSON, c)
	}
	return nil
}

func (f *frame) push(c byte) error {
	if f.member {
		return fmt.Errorf("%w: %q where the name of a member begins", errNotJSON, c)
	}
	if len(f.open) == codec.MaxDepth {
		return fmt.Errorf("nested deeper than %d", codec.MaxDepth)
	}
	f.open = append(f.open, c)
	f.member = c == '{'
	return nil
}

func (f *frame) pop(c byte) error {
	last := len(f.open) - 1
	if last < 0 || f.open[last] != c-2 { // in ASCII, '{' and '[' are two before their counterparts
		return fmt.Errorf("%w: %q closes nothing", errNotJSON, c)
	}
	f.open, f.member = f.open[:last], false
	return nil
}

// tooMany reports whether it is a batch with more requests than allowed.
func (f *frame) tooMany() bool { return f.commas >= maxBatch }

// begun reports whether the message has begun.
func (f *frame) begun() bool { return len(f.open) > 0 }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// parseError is the error of a message whose end can't be found.
type parseError struct{ why error }

func (e *parseError) Error() string { return e.why.Error() }

// errTooLarge is the error for a message that was discarded.
var errTooLarge = errors.New("message too large")

// reader reads messages.
type reader struct {
	r      *bufio.Reader
	midway func(bool)          // called with whether a message has begun and not ended
	skip   bool                // the rest of the line is to be discarded
	hold   func(n int64) error // reserves n more bytes for the message; nil for no limit
}

// next returns the next message, of at most limit bytes. A *parseError is returned at once,
// and the next message is then searched in the next line; after errTooLarge and errTooMany
// it is searched after the message that was discarded.
func (r *reader) next(limit int) ([]byte, error) {
	r.midway(false)
	if err := r.skipLine(); err != nil {
		return nil, err
	}
	var f frame
	var message []byte
	var refused error // why the message is discarded once it has arrived
	for size := 0; ; {
		b, err := r.peek()
		if err != nil {
			return nil, f.cutOff(err)
		}
		b, done, err := r.scan(&f, b)
		if err != nil {
			return nil, &parseError{err}
		}
		size += len(b)
		if refused = f.refusal(refused, size > limit); refused == nil {
			message, refused = r.keep(message, b)
		}
		if refused != nil {
			message = nil
		}
		if done {
			return message, refused
		}
	}
}

// refusal returns why a message is discarded: because of this part, or before; nil if it is
// not.
func (f *frame) refusal(before error, tooLarge bool) error {
	switch {
	case tooLarge:
		return errTooLarge
	case f.tooMany():
		return errTooMany
	}
	return before
}

// copies is how many times the bytes of a message are in memory: while it grows, and as
// parameters.
const copies = 3

// keep appends a part to the message. Before the message is copied, memory for the copy is
// reserved, which may wait.
func (r *reader) keep(message, part []byte) ([]byte, error) {
	if need := len(message) + len(part); need > cap(message) {
		grown := make([]byte, len(message), max(2*cap(message), need, 512))
		if r.hold != nil {
			if err := r.hold(copies * int64(cap(grown)-cap(message))); err != nil {
				return nil, err
			}
		}
		copy(grown, message)
		message = grown
	}
	return append(message, part...), nil
}

// scan consumes the peeked bytes that belong to the message, and returns them without
// leading white space.
func (r *reader) scan(f *frame, b []byte) (part []byte, done bool, err error) {
	if !f.begun() {
		space := len(b) - len(bytes.TrimLeft(b, " \t\r\n"))
		_, _ = r.r.Discard(space) // these bytes are buffered, as are those after them
		b = b[space:]
	}
	n, done, err := f.scan(b)
	part = b[:n]
	_, _ = r.r.Discard(n)
	r.midway(f.begun())
	r.skip = err != nil && b[n-1] != '\n'
	return part, done, err
}

// peek returns the buffered bytes, after waiting for at least one.
func (r *reader) peek() ([]byte, error) {
	if _, err := r.r.Peek(1); err != nil {
		return nil, err
	}
	return r.r.Peek(r.r.Buffered())
}

// skipLine discards the rest of the line with a parse error.
func (r *reader) skipLine() error {
	for r.skip {
		b, err := r.peek()
		if err != nil {
			return err
		}
		n := len(b)
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			n, r.skip = i+1, false
		}
		_, _ = r.r.Discard(n) // these bytes are buffered
	}
	return nil
}

// cutOff converts an EOF in the middle of a message.
func (f *frame) cutOff(err error) error {
	if f.begun() && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
