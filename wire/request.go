package wire

import (
	"encoding/binary"
	"time"
)

// Method names on the wire: a number for a name that was sent before on this
// connection in this direction, or the name itself.
const (
	nameDefine  = 0 // the name follows and gets the next number, from firstName
	nameLiteral = 1 // the name follows and gets none
	firstName   = 2
)

// Name is a method name as a request carries it.
type Name struct {
	// Number is the 0-based index among the names defined so far, when Text
	// is nil.
	Number int
	Text   []byte
	Define bool // Text gets the next number
}

// Request is the head of a request; the message's first block follows it.
type Request struct {
	Name       Name
	Codec      uint8         // index in the receiver's list, from 0
	Compressor uint8         // place in the receiver's list, from 1, for messages both ways; 0 for none
	Timeout    time.Duration // time left, in µs on the wire; 0 for no deadline
	Attempt    uint32        // 0 for the first
	Metadata   []byte        // encoded pairs, see [ParseMetadata]
	Size       uint64        // bytes of the whole message on the wire, if it does not end in this frame
}

const (
	reqTimeout    = 0x01
	reqAttempt    = 0x02
	reqCompressor = 0x04
	reqMetadata   = 0x08
	reqSize       = 0x10
	reqReserved   = 0x60
	maskExtension = 0x80
)

const maxTimeout = 1 << 53 / int64(time.Microsecond) // about 104 days, in µs

// AppendRequest appends the head of a request.
func AppendRequest(dst []byte, r *Request) []byte {
	dst = appendName(dst, r.Name)
	at := len(dst)
	dst = append(dst, 0, r.Codec)
	var mask byte
	if r.Timeout > 0 {
		mask |= reqTimeout
		us := min(max(int64(r.Timeout/time.Microsecond), 1), maxTimeout)
		dst = binary.AppendUvarint(dst, uint64(us))
	}
	if r.Attempt > 0 {
		mask |= reqAttempt
		dst = binary.AppendUvarint(dst, uint64(r.Attempt))
	}
	if r.Compressor > 0 {
		mask |= reqCompressor
		dst = append(dst, r.Compressor)
	}
	if len(r.Metadata) > 0 {
		mask |= reqMetadata
		dst = appendPrefixed(dst, r.Metadata)
	}
	if r.Size > 0 {
		mask |= reqSize
		dst = binary.AppendUvarint(dst, r.Size)
	}
	dst[at] = mask
	return dst
}

func appendName(dst []byte, n Name) []byte {
	switch {
	case n.Text == nil:
		return binary.AppendUvarint(dst, uint64(n.Number)+firstName) //nolint:gosec // never negative
	case n.Define:
		return appendPrefixed(append(dst, nameDefine), n.Text)
	}
	return appendPrefixed(append(dst, nameLiteral), n.Text)
}

func parseName(b []byte) (n Name, rest []byte, err error) {
	v, b, err := uvarint(b, "method name")
	if err != nil {
		return n, nil, err
	}
	if v >= firstName {
		if v-firstName >= MaxNames {
			return n, nil, violation("method name number %d, limit %d", v-firstName, MaxNames)
		}
		n.Number = int(v - firstName)
		return n, b, nil
	}
	n.Define = v == nameDefine
	n.Text, b, err = lengthPrefixed(b, MaxName, "method name")
	if err == nil && len(n.Text) == 0 {
		err = violation("empty method name")
	}
	return n, b, err
}

// ParseRequest reads the head of a request into r, overwriting it, and returns
// the rest: the message's first block. r refers to b.
func ParseRequest(b []byte, r *Request) (block []byte, err error) {
	*r = Request{}
	if r.Name, b, err = parseName(b); err != nil {
		return nil, err
	}
	if len(b) < 2 {
		return nil, violation("request head is cut off")
	}
	mask := b[0]
	r.Codec = b[1]
	b = b[2:]
	if mask&reqReserved != 0 {
		return nil, violation("request with reserved bits %#x", mask)
	}
	if mask&^reqTimeout == 0 { // the common case
		if mask != 0 {
			b, err = parseTimeout(b, &r.Timeout)
		}
		return b, err
	}
	return parseRequestFields(b, mask, r)
}

func parseTimeout(b []byte, d *time.Duration) ([]byte, error) {
	us, b, err := uvarint(b, "timeout")
	if err != nil {
		return nil, err
	}
	*d = time.Duration(max(1, min(us, uint64(maxTimeout)))) * time.Microsecond
	return b, nil
}

func parseRequestFields(b []byte, mask byte, r *Request) (_ []byte, err error) {
	if mask&reqTimeout != 0 {
		if b, err = parseTimeout(b, &r.Timeout); err != nil {
			return nil, err
		}
	}
	if mask&reqAttempt != 0 {
		var v uint64
		if v, b, err = uvarint(b, "attempt"); err != nil {
			return nil, err
		}
		r.Attempt = uint32(min(v, 1<<20))
	}
	if mask&reqCompressor != 0 {
		if len(b) == 0 {
			return nil, violation("compressor is cut off")
		}
		r.Compressor, b = b[0], b[1:]
	}
	if mask&reqMetadata != 0 {
		if r.Metadata, b, err = lengthPrefixed(b, MaxMetadata, "metadata"); err != nil {
			return nil, err
		}
	}
	if mask&reqSize != 0 {
		if r.Size, b, err = uvarint(b, "message size"); err != nil {
			return nil, err
		}
	}
	return skipExtension(b, mask)
}

// skipExtension skips an extension, which a later version may put between head and message.
func skipExtension(b []byte, mask byte) ([]byte, error) {
	if mask&maskExtension == 0 {
		return b, nil
	}
	_, b, err := lengthPrefixed(b, MaxMetadata, "extension")
	return b, err
}
