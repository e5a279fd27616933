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
// looks at little else, so what it finds may still be no JSON.
type frame struct {
	open    []byte // the brackets that are open
	commas  int    // between the requests of a batch
	quoted  bool   // inside a string
	escaped bool   // after a backslash
	member  bool   // behind a brace that opens: a name follows, or its partner
}

var errNotJSON = errors.New("not a JSON object or array")

// scan goes on with the next bytes and returns how many belong to the message.
// done says that the last of them ends it.
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

// comma counts those between the requests of a batch.
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
	if last < 0 || f.open[last] != c-2 { // in ASCII, '{' and '[' are two before their partners
		return fmt.Errorf("%w: %q closes nothing", errNotJSON, c)
	}
	f.open, f.member = f.open[:last], false
	return nil
}

// tooMany reports whether it is a batch of more requests than are served.
func (f *frame) tooMany() bool { return f.commas >= maxBatch }

// begun reports whether the message has.
func (f *frame) begun() bool { return len(f.open) > 0 }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// parseError is why the next message can't be told from what follows it.
type parseError struct{ why error }

func (e *parseError) Error() string { return e.why.Error() }

// errTooLarge is the error for a message that was thrown away.
var errTooLarge = errors.New("message too large")

// reader reads messages.
type reader struct {
	r      *bufio.Reader
	midway func(bool)          // is told whether a message has arrived in part
	skip   bool                // the rest of the line
	hold   func(n int64) error // holds n bytes more for the message; nil for no limit
}

// next returns the next message, of at most that many bytes. After a *parseError,
// which is returned as soon as it is known, the next message is looked for in the
// next line; after errTooLarge and errTooMany behind the one that was thrown away.
func (r *reader) next(limit int) ([]byte, error) {
	r.midway(false)
	if err := r.skipLine(); err != nil {
		return nil, err
	}
	var f frame
	var message []byte
	var refused error // why the message is thrown away once it has come
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

// refusal is why a message is thrown away, which may have been so before; nil if it is not.
func (f *frame) refusal(before error, tooLarge bool) error {
	switch {
	case tooLarge:
		return errTooLarge
	case f.tooMany():
		return errTooMany
	}
	return before
}

// copies is how often the bytes of a message are there: while it grows, and as parameters.
const copies = 3

// keep appends a part to the message. Before the message is moved, the room for that is
// held, which may take its time.
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

// scan takes what belongs to the message out of what was peeked at, and returns
// it without the space before it.
func (r *reader) scan(f *frame, b []byte) (part []byte, done bool, err error) {
	if !f.begun() {
		space := len(b) - len(bytes.TrimLeft(b, " \t\r\n"))
		_, _ = r.r.Discard(space) // it is there, and so is what follows
		b = b[space:]
	}
	n, done, err := f.scan(b)
	part = b[:n]
	_, _ = r.r.Discard(n)
	r.midway(f.begun())
	r.skip = err != nil && b[n-1] != '\n'
	return part, done, err
}

// peek returns what has come, at least one byte.
func (r *reader) peek() ([]byte, error) {
	if _, err := r.r.Peek(1); err != nil {
		return nil, err
	}
	return r.r.Peek(r.r.Buffered())
}

// skipLine reads on to the end of the line that an error was in.
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
		_, _ = r.r.Discard(n) // it is there
	}
	return nil
}

// cutOff is an error of reading, which may be in the middle of a message.
func (f *frame) cutOff(err error) error {
	if f.begun() && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
