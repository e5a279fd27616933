package wire

import (
	"encoding/binary"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Load is a server's report of how busy it is. Responses carry it.
type Load struct {
	InFlight    uint32 // calls whose handlers are running
	Queued      uint32 // calls that wait for a handler
	Utilization uint8  // percent of its capacity that is used; 0 when it has no limit
}

// Status is the outcome of a call.
type Status struct {
	Code        tandem.Code
	NotExecuted bool // it is certain that no handler ran
	Message     string
	Details     []tandem.Detail
	RetryAfter  time.Duration // in µs on the wire; negative: do not retry; 0: no advice
}

// Response is the head of a response; the message's first block follows it.
type Response struct {
	Status  []byte // encoded, see [ParseStatus]; empty means OK
	Trailer []byte // encoded metadata
	Load    Load
	HasLoad bool
	Size    uint64 // bytes of the whole message on the wire, if it does not end in this frame
}

const (
	respStatus   = 0x01
	respTrailer  = 0x02
	respLoad     = 0x04
	respSize     = 0x08
	respReserved = 0x70
)

// AppendResponse appends the head of a response.
func AppendResponse(dst []byte, r *Response) []byte {
	at := len(dst)
	dst = append(dst, 0)
	var mask byte
	if len(r.Status) > 0 {
		mask |= respStatus
		dst = appendPrefixed(dst, r.Status)
	}
	if len(r.Trailer) > 0 {
		mask |= respTrailer
		dst = appendPrefixed(dst, r.Trailer)
	}
	if r.HasLoad {
		mask |= respLoad
		dst = binary.AppendUvarint(dst, uint64(r.Load.InFlight))
		dst = binary.AppendUvarint(dst, uint64(r.Load.Queued))
		dst = append(dst, r.Load.Utilization)
	}
	if r.Size > 0 {
		mask |= respSize
		dst = binary.AppendUvarint(dst, r.Size)
	}
	dst[at] = mask
	return dst
}

// ParseResponse reads the head of a response into r, overwriting it, and
// returns the rest: the message's first block. r refers to b.
func ParseResponse(b []byte, r *Response) (block []byte, err error) {
	*r = Response{}
	if len(b) == 0 {
		return nil, violation("empty response")
	}
	mask := b[0]
	b = b[1:]
	if mask&respReserved != 0 {
		return nil, violation("response with reserved bits %#x", mask)
	}
	if mask&respStatus != 0 {
		if r.Status, b, err = lengthPrefixed(b, MaxStatus, "status"); err != nil {
			return nil, err
		}
	}
	if mask&respTrailer != 0 {
		if r.Trailer, b, err = lengthPrefixed(b, MaxMetadata, "trailer"); err != nil {
			return nil, err
		}
	}
	if mask&respLoad != 0 {
		if b, err = parseLoad(b, r); err != nil {
			return nil, err
		}
	}
	if mask&respSize != 0 {
		if r.Size, b, err = uvarint(b, "message size"); err != nil {
			return nil, err
		}
	}
	return skipExtension(b, mask)
}

func parseLoad(b []byte, r *Response) ([]byte, error) {
	inFlight, b, err := uvarint(b, "load")
	if err != nil {
		return nil, err
	}
	queued, b, err := uvarint(b, "load")
	if err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, violation("load report is cut off")
	}
	const most = 1<<32 - 1
	r.HasLoad = true
	r.Load = Load{uint32(min(inFlight, most)), uint32(min(queued, most)), min(b[0], 100)}
	return b[1:], nil
}

const statusNotExecuted = 0x80

// retryDetail is the type of the detail that carries RetryAfter. It is a detail because
// receivers that do not know it keep details and pass them on.
const retryDetail = "tandem-retry"

// AppendStatus appends a status. If it exceeds [MaxStatus], details are left out
// first, and then the message is cut.
func AppendStatus(dst []byte, s *Status) []byte {
	code := byte(s.Code)
	if s.NotExecuted {
		code |= statusNotExecuted
	}
	const room = MaxStatus - 64 // for the code and the length prefixes
	msg := s.Message[:min(len(s.Message), room)]
	dst = appendPrefixed(append(dst, code), msg)
	left, most := room-len(msg), MaxDetails
	if s.RetryAfter != 0 {
		dst = appendRetry(dst, s.RetryAfter)
		most--
	}
	for i, d := range s.Details {
		left -= len(d.Type) + len(d.Value) + 8
		if left < 0 || i == most {
			break
		}
		dst = appendPrefixed(appendPrefixed(dst, d.Type), d.Value)
	}
	return dst
}

// appendRetry appends the detail of RetryAfter; its value is 0 for [tandem.DoNotRetry].
func appendRetry(dst []byte, after time.Duration) []byte {
	var us uint64
	if after > 0 {
		us = uint64(min(max(int64(after/time.Microsecond), 1), maxTimeout))
	}
	var b [binary.MaxVarintLen64]byte
	return appendPrefixed(appendPrefixed(dst, retryDetail), b[:binary.PutUvarint(b[:], us)])
}

// parseRetry returns the value of RetryAfter's detail, or 0 if it can't be read.
func parseRetry(value []byte) time.Duration {
	us, rest, err := uvarint(value, retryDetail)
	switch {
	case err != nil || len(rest) > 0:
		return 0
	case us == 0:
		return tandem.DoNotRetry
	}
	return time.Duration(min(us, uint64(maxTimeout))) * time.Microsecond
}

// ParseStatus reads a status. The result does not refer to b.
func ParseStatus(b []byte) (s Status, err error) {
	if len(b) == 0 {
		return s, nil
	}
	s.NotExecuted = b[0]&statusNotExecuted != 0
	s.Code = tandem.Code(b[0] &^ statusNotExecuted)
	if !s.Code.Valid() {
		s.Code = tandem.Unknown
	}
	msg, b, err := lengthPrefixed(b[1:], MaxStatus, "status message")
	if err != nil {
		return s, err
	}
	s.Message = string(msg)
	for n := 0; len(b) > 0; n++ {
		if n == MaxDetails {
			return s, violation("more than %d status details", MaxDetails)
		}
		var kind, value []byte
		if kind, b, err = lengthPrefixed(b, MaxStatus, "detail type"); err != nil {
			return s, err
		}
		if value, b, err = lengthPrefixed(b, MaxStatus, "detail"); err != nil {
			return s, err
		}
		if string(kind) == retryDetail {
			s.RetryAfter = parseRetry(value)
			continue
		}
		s.Details = append(s.Details, tandem.Detail{Type: string(kind), Value: append([]byte(nil), value...)})
	}
	return s, nil
}
