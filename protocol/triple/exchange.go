package triple

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// exchange is one call, and its Body. The request is read when the method's arguments are
// decoded, and so after the interceptors.
type exchange struct {
	conn    *server.Conn
	name    string         // name of the method
	method  *server.Method // nil if there is none
	w       http.ResponseWriter
	r       *http.Request
	body    io.Reader // of the request
	wait    waiting   // here, so that a message that need not wait costs no allocation
	control *http.ResponseController
	held    *server.Reservation

	args    [][]byte // encoded arguments; nil until the request has been read
	read    bool
	failed  error // why the request could not be read
	reply   []byte
	trailer tandem.Metadata
}

// call makes the call, and returns its error.
func (x *exchange) call() error {
	peer := *x.conn.Peer()
	peer.Protocol = "triple"
	call := &tandem.Call{Method: x.name, Metadata: web.Metadata(x.r.Header), Codec: "hessian2", Peer: &peer, Body: x}
	if d, ok := timeout(x.r.Header.Get("Grpc-Timeout")); ok {
		call.Deadline = time.Now().Add(d)
	}
	done := make(chan error, 1)
	finish := func(err error) {
		x.trailer = call.Trailer
		done <- err
	}
	ctx := x.r.Context()
	waits, cancel := ctx, func() {}
	if !call.Deadline.IsZero() {
		waits, cancel = context.WithDeadline(ctx, call.Deadline)
	}
	defer cancel()
	x.held = x.conn.Reserve(waits).For(call)
	defer x.held.Release()
	switch {
	case x.method == nil:
		x.conn.NoMethod(ctx, call, tandem.Errorf(tandem.Unimplemented, "no method at %.200q", x.r.URL.Path), finish)
	case x.method.Kind == tandem.Streaming:
		x.conn.Refuse(ctx, call, tandem.Errorf(tandem.Unimplemented, "%s is a stream, which consumers call with messages of Protocol Buffers", x.method.Name), finish)
	default:
		x.conn.Go(ctx, call, finish)
	}
	return <-done
}

// Decode decodes the arguments.
func (x *exchange) Decode(v any) error {
	if !x.read {
		x.read = true
		x.args, x.failed = x.receive()
	}
	if x.failed != nil {
		return x.failed
	}
	targets, several := v.(tandem.Results)
	if !several {
		targets = tandem.Results{v}
	}
	if len(targets) != len(x.args) {
		return tandem.Errorf(tandem.InvalidArgument, "there are %d arguments, %d are wanted", len(x.args), len(targets))
	}
	for i, target := range targets {
		if err := decode(x.args[i], target, x.held.Expect); err != nil {
			return server.Unfit(fmt.Errorf("argument %d: %w", i+1, err))
		}
	}
	return nil
}

// Encode encodes the result.
func (x *exchange) Encode(v any) error {
	b, err := x.encode(v)
	if err != nil {
		return err
	}
	x.reply = wrapResponse(b)
	return nil
}

func (x *exchange) encode(v any) ([]byte, error) {
	if e, ok := v.(*tandem.Encoded); ok {
		return e.Append(nil, func(_ []byte, v any) ([]byte, error) { return x.encode(v) })
	}
	if results, several := v.(tandem.Args); several {
		if len(results) > 1 {
			return nil, tandem.Errorf(tandem.Unimplemented, "it has %d results, and a method of Java has one", len(results))
		}
		v = nil
		if len(results) == 1 {
			v = results[0]
		}
	}
	most := x.mostOfResult()
	b, err := encode(v, most)
	switch {
	case errors.Is(err, errTooLong):
		return nil, tandem.Errorf(tandem.ResourceExhausted, "the result has more than %d bytes", most)
	case err != nil:
		return nil, tandem.Errorf(tandem.Internal, "result: %w", err)
	}
	return b, nil
}

// mostOfResult is the limit of a result in bytes: the larger of the server's and the
// method's limits of messages, and such that its wrapped length fits into 32 bits.
func (x *exchange) mostOfResult() int64 {
	return min(int64(max(x.conn.MaxMessage(), x.method.MaxMessage)), math.MaxUint32-int64(wrapperRoom))
}

// Stream returns nil: calls are unary.
func (*exchange) Stream() tandem.MessageStream { return nil }

// receive reads the request.
func (x *exchange) receive() ([][]byte, error) {
	b, err := x.message()
	if err != nil {
		if _, known := errors.AsType[*tandem.Error](err); known {
			return nil, err
		}
		return nil, tandem.Errorf(tandem.InvalidArgument, "the request could not be read: %w", err)
	}
	return unwrapRequest(b)
}

// message reads a message with gRPC's framing
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
func (x *exchange) message() ([]byte, error) {
	var head [5]byte
	if err := x.full(bytes.NewBuffer(head[:0]), head[:]); err != nil {
		return nil, err
	}
	most := x.method.MaxMessage
	length := int64(binary.BigEndian.Uint32(head[1:]))
	if length > int64(most) {
		x.skip(min(length, 2*int64(most)))
		return nil, tooLarge(most)
	}
	if length > smallMessage {
		if err := x.reserve(length); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	for b.Len() < int(length) {
		if err := x.full(&b, make([]byte, min(int(length)-b.Len(), piece))); err != nil {
			return nil, err
		}
	}
	if head[0]&1 == 0 {
		return b.Bytes(), nil
	}
	if encoding := x.r.Header.Get("Grpc-Encoding"); encoding != "gzip" {
		return nil, tandem.Errorf(tandem.Unimplemented, "compressed by %.20q, want gzip", encoding)
	}
	plain, err := x.held.Decompress(unzip, b.Bytes(), most)
	if errors.Is(err, compress.ErrTooLarge) {
		return nil, tooLarge(most)
	}
	return plain, err
}

var unzip = compress.Gzip() //nolint:gochecknoglobals // it pools its state

// smallMessage is how many bytes need no reservation, and copies is how many times the
// bytes of a message are in memory: in a buffer that doubles, and in the message.
const (
	smallMessage = 4 << 10
	copies       = 3
)

// skip discards up to most bytes of a request that is refused: a consumer that is still
// sending when the stream ends may ignore the response.
func (x *exchange) skip(most int64) {
	for n := int64(1); n > 0 && most > 0; most -= n {
		if x.control.SetReadDeadline(time.Now().Add(x.conn.StallTimeout())) != nil {
			return
		}
		n, _ = io.CopyN(io.Discard, x.r.Body, piece) // the end of the body, or an error, ends the loop
	}
	_ = x.control.SetReadDeadline(time.Time{})
}

// piece is how much of a message must arrive within the stall timeout, and how much memory
// is taken before it has arrived.
const piece = 64 << 10

// reserve reserves memory for a message of length bytes.
func (x *exchange) reserve(length int64) error {
	if x.r.ProtoMajor < 2 {
		return x.held.Reserve(copies * length)
	}
	x.wait = waiting{x: x, left: length}
	early, err := x.held.ReserveReading(copies*length, &x.wait)
	if early != nil {
		x.body = io.MultiReader(early, x.body)
	}
	return err
}

// waiting reads on in a message that waits for memory, over HTTP/2: net/http lets all requests of
// a connection send 1 MiB together until their handlers read, so those that waited unread would
// keep the data of those that have memory from arriving.
type waiting struct {
	x       *exchange
	left    int64 // bytes until the message ends
	unpaced int   // bytes until the read deadline is set again
}

// Read reads from the body.
func (w *waiting) Read(b []byte) (int, error) {
	if w.left <= 0 {
		return 0, io.EOF
	}
	if w.unpaced <= 0 {
		w.unpaced = piece
		if err := w.x.control.SetReadDeadline(time.Now().Add(w.x.conn.StallTimeout())); err != nil {
			return 0, err
		}
	}
	n, err := w.x.body.Read(b[:min(int64(len(b)), w.left)])
	w.left -= int64(n)
	w.unpaced -= n
	if w.left > 0 || err != nil {
		return n, err
	}
	if err := w.x.control.SetReadDeadline(time.Time{}); err != nil { // the server keeps the consumer waiting from now on
		return n, err
	}
	return n, io.EOF
}

// full fills p from the request, and appends it to b.
func (x *exchange) full(b *bytes.Buffer, p []byte) error {
	if err := x.control.SetReadDeadline(time.Now().Add(x.conn.StallTimeout())); err != nil {
		return err
	}
	if _, err := io.ReadFull(x.body, p); err != nil {
		return err
	}
	b.Write(p)
	return x.control.SetReadDeadline(time.Time{})
}

func tooLarge(most int) error {
	return tandem.Errorf(tandem.ResourceExhausted, "message has more than %d bytes", most)
}

// answer sends the response, or the error.
func (x *exchange) answer(err error) {
	h := x.w.Header()
	h.Set("Content-Type", "application/grpc+proto")
	prefix := http.TrailerPrefix
	if err != nil {
		prefix = "" // there is no body, so that the trailer is sent as the header
	}
	for name, values := range x.trailer {
		if !own(name) {
			for _, v := range values {
				if strings.HasSuffix(name, "-bin") {
					v = base64.RawStdEncoding.EncodeToString([]byte(v))
				}
				h.Add(prefix+name, v) // net/http drops invalid names and values
			}
		}
	}
	if err != nil {
		e := tandem.AsError(err)
		code := e.Code
		if code == tandem.OK || !code.Valid() {
			code = tandem.Unknown
		}
		h.Set("Grpc-Status", strconv.Itoa(int(code)))
		h.Set("Grpc-Message", escape(e.Message))
		return
	}
	h.Set(prefix+"Grpc-Status", "0")
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(x.reply))) //nolint:gosec // mostOfResult
	if x.r.ProtoMajor >= 2 {
		// Over HTTP/1 each write has a deadline already.
		pieces := 1 + len(x.reply)/answerPiece
		_ = x.control.SetWriteDeadline(time.Now().Add(time.Duration(pieces) * x.conn.StallTimeout()))
	}
	_, _ = x.w.Write(append(frame, x.reply...)) // an error means that the consumer is gone
}

// answerPiece is how much of a response the consumer has to receive within the stall
// timeout.
const answerPiece = 256 << 10

// own reports whether a name is reserved by HTTP, gRPC or tandem.
func own(name string) bool {
	name = strings.ToLower(name)
	return name == "content-type" || name == "content-length" || name == "trailer" ||
		strings.HasPrefix(name, "grpc-") || strings.HasPrefix(name, "tandem-") || strings.HasPrefix(name, ":")
}

// escape encodes a message for gRPC's header.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// timeout parses the value of gRPC's timeout header: at most eight digits, and a unit.
func timeout(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	unit, ok := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if !ok || err != nil {
		return 0, false
	}
	return time.Duration(min(int64(n), int64(time.Duration(1<<62)/unit))) * unit, true
}
