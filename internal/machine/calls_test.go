package machine

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// open opens a call, which must be possible.
func (r *receiver) open(c *Call) *Call {
	r.t.Helper()
	c.Method, c.Codec = "m", "raw"
	if err := r.Open(c, r.now); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// answer has the machine receive a response.
func (r *receiver) answer(c *Call, f wire.Flags, response wire.Response, message string) Event {
	r.t.Helper()
	ev, _ := r.frame(wire.TypeResponse, f|wire.FlagAnswer, c.id, append(wire.AppendResponse(nil, &response), message...))
	return ev
}

// A call gets its response, which is valid until Forget.
func TestCall(t *testing.T) {
	r := newReceiver(t, nil)
	c := r.open(&Call{Message: []byte("hello")})
	if c.State != CallOpen || !c.Copied() || c.Ordinal != 1 || r.Sent() != 1 || r.OpenCalls() != 1 || !r.IsBusy() {
		t.Fatalf("%+v", c)
	}
	if w := r.written(); len(w) != 1 || w[0].Type != wire.TypeRequest {
		t.Fatalf("written: %+v", w)
	}
	if ev := r.answer(c, wire.FlagEnd|wire.FlagLast, wire.Response{}, "bye"); ev.Kind != Done || ev.Call != c {
		t.Fatalf("%+v", ev)
	}
	var response wire.Response
	message, err := c.Parse(&response)
	if err != nil || string(message) != "bye" || c.State != CallOver || c.Err != nil || r.OpenCalls() != 0 {
		t.Errorf("%q, %v, %+v", message, err, c)
	}
	c.Forget()
}

// A response in several blocks is one message.
func TestResponseInBlocks(t *testing.T) {
	r := newReceiver(t, nil)
	c := r.open(new(Call))
	if ev := r.answer(c, 0, wire.Response{Size: 70_000}, strings.Repeat("a", 10_000)); ev != (Event{}) || r.Arriving() != 1 {
		t.Fatalf("%+v", ev)
	}
	ev, _ := r.frame(wire.TypeData, wire.FlagAnswer|wire.FlagEnd, c.id, make([]byte, 60_000))
	if ev.Kind != Done || ev.Call != c || r.Arriving() != 0 {
		t.Fatalf("%+v", ev)
	}
	var response wire.Response
	if message, err := c.Parse(&response); err != nil || len(message) != 70_000 || message[0] != 'a' || message[69_999] != 0 {
		t.Errorf("%d bytes, %v", len(message), err)
	}
	c.Forget()
}

// GiveUp ends the calls that its function names, and says which requests were certainly not sent.
func TestGiveUp(t *testing.T) {
	r := newReceiver(t, nil)
	r.calls.limit = 2
	written := r.open(new(Call))
	offered := uint64(r.QueuedBytes())
	unwritten, queued := r.open(new(Call)), r.open(new(Call))
	stays := r.open(new(Call))
	unsent := map[*Call]bool{}
	over, waits := r.GiveUp(offered, func(c *Call, notSent bool) *tandem.Error {
		if c == stays {
			return nil
		}
		unsent[c] = notSent
		return &tandem.Error{Code: tandem.Unavailable, NotExecuted: notSent}
	})
	if len(over) != 3 || over[0] != written || over[1] != unwritten || over[2] != queued || !waits {
		t.Fatalf("%d calls are over, waits is %v", len(over), waits)
	}
	if unsent[written] || !unsent[unwritten] || !unsent[queued] {
		t.Errorf("not sent: %v", unsent)
	}
	for _, c := range over {
		if c.State != CallOver || c.Err == nil {
			t.Errorf("%+v", c)
		}
	}
	if r.OpenCalls() != 2 || stays.State != CallQueued {
		t.Errorf("%d slots are taken, not 2: the peer has not answered", r.OpenCalls())
	}
	for _, c := range []*Call{written, unwritten} {
		r.answer(c, wire.FlagEnd|wire.FlagLast, wire.Response{}, "")
	}
	if r.Promote(r.now); stays.State != CallOpen || r.OpenCalls() != 1 {
		t.Errorf("the call that waits has not been sent: %+v", stays)
	}
}

// How calls end when the connection does depends on what may have reached the peer.
func TestEnd(t *testing.T) {
	for name, c := range map[string]struct {
		cause            error
		offered          bool
		executed, isFree bool // the call may have executed; its retry is free
	}{
		"sent":             {io.ErrUnexpectedEOF, true, true, false},
		"not sent":         {io.ErrUnexpectedEOF, false, false, true},
		"not sent, silent": {ErrSilent, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, table{"talk": streaming()})
			call := r.open(new(Call))
			_, in := r.frame(wire.TypeRequest, wire.FlagEnd|wire.FlagStream, first, requestHead("talk"))
			st := new(Stream)
			r.InitStream(st, nil, in.Request, 0)
			offered := uint64(0)
			if c.offered {
				offered = uint64(r.QueuedBytes())
			}
			if over := r.End(c.cause, offered, "it was cut"); len(over) != 1 || over[0] != call {
				t.Fatalf("%d calls are over", len(over))
			}
			if tandem.MayHaveExecuted(call.Err) != c.executed || errors.Is(call.Err, ErrDraining) != c.isFree {
				t.Errorf("%v", call.Err)
			}
			if !st.IsOver() || tandem.CodeOf(st.RecvErr()) != tandem.Unavailable || r.HasGone() {
				t.Errorf("the peer's stream: %v", st.RecvErr())
			}
			if !r.Closed() || r.TakesCalls() || r.Counts().Slots != 0 {
				t.Error("it is not closed")
			}
			if err := r.Open(&Call{Method: "m", Codec: "raw"}, r.now); err == nil || !err.NotExecuted {
				t.Errorf("a later call: %v", err)
			}
		})
	}
}

// A call ends at its deadline, whether it is sent or waits.
func TestExpire(t *testing.T) {
	r := newReceiver(t, nil)
	r.calls.limit = 1
	sent := r.open(&Call{Expires: r.now + 2})
	waits := r.open(&Call{Expires: r.now + 1})
	if r.NextDeadline() != r.now+1 || r.Expire(r.now) != nil {
		t.Errorf("the next deadline is %d, not %d", r.NextDeadline(), r.now+1)
	}
	if over := r.Expire(r.now + 1); len(over) != 1 || over[0] != waits || !over[0].Err.NotExecuted {
		t.Errorf("at the first deadline: %d are over", len(over))
	}
	if over := r.Expire(r.now + 2); len(over) != 1 || over[0] != sent || over[0].Err.NotExecuted || r.OpenCalls() != 1 {
		t.Errorf("at the second deadline: %d are over", len(over))
	}
	if err := r.Open(&Call{Method: "m", Codec: "raw", Expires: r.now}, r.now); err == nil || err.Code != tandem.DeadlineExceeded {
		t.Errorf("a call whose deadline has passed: %v", err)
	}
}

// openStream opens a stream, which the peer accepts.
func (r *receiver) openStream() (*Call, *Stream) {
	r.t.Helper()
	c, st := new(Call), new(Stream)
	r.InitStream(st, c, nil, 0)
	r.open(c)
	if ev := r.answer(c, wire.FlagStream, wire.Response{}, ""); ev.Kind != Done || ev.Call != c || c.State != CallOver {
		r.t.Fatalf("%+v", ev)
	}
	r.written()
	return c, st
}

// has reports whether a channel holds a token, and takes it.
func has(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Messages of a stream go both ways, until the peer ends it: then it is in Gone.
func TestStream(t *testing.T) {
	r := newReceiver(t, nil)
	c, st := r.openStream()
	if r.OnlyStream() != st || st.Receivable() || st.MaxMessage() != int(r.Own.MaxMessage) {
		t.Fatal("it is not the only stream, without a message")
	}
	r.frame(wire.TypeData, wire.FlagStream|wire.FlagAnswer|wire.FlagEnd, c.id, []byte("hi"))
	if !has(st.CanRecv) || !st.Receivable() || !st.HasMessage() {
		t.Fatal("no message can be received")
	}
	if msg := r.Pop(st); string(msg.Buf.B) != "hi" || msg.Compressed || st.HasMessage() {
		t.Errorf("received %q", msg.Buf.B)
	}
	ev := r.answer(c, wire.FlagEnd|wire.FlagLast|wire.FlagStream, wire.Response{Status: EncodeStatus(&tandem.Error{Code: tandem.Aborted, Message: "no"})}, "")
	if ev != (Event{}) || !r.HasGone() { // no goroutine waits for the call
		t.Fatalf("%+v", ev)
	}
	if gone := r.Gone(); len(gone) != 1 || gone[0] != st || r.HasGone() || r.Gone() != nil {
		t.Errorf("%d streams have ended", len(gone))
	}
	if !st.IsOver() || tandem.CodeOf(st.RecvErr()) != tandem.Aborted || tandem.CodeOf(st.SendErr()) != tandem.Aborted || !has(st.CanRecv) || !has(st.CanSend) {
		t.Errorf("%v, %v", st.RecvErr(), st.SendErr())
	}
	if r.OpenCalls() != 0 || r.OnlyStream() != nil {
		t.Error("its slot is taken")
	}
}

// messageOf returns a buffer for Send.
func messageOf(n int) *buffer.Buffer {
	buf := buffer.Get()
	buf.B = append(AppendHeadRoom(buf.B), make([]byte, n)...)
	return buf
}

// A message that is not small and alone is written from its own buffer; others are copied, and wait
// for credit.
func TestSend(t *testing.T) {
	r := newReceiver(t, nil)
	_, st := r.openStream()
	if r.Send(st, messageOf(100), false, true) || st.IsSending() || !st.HasSent() {
		t.Error("a small message is not copied")
	}
	if r.Send(st, messageOf(smallBlock), false, true) {
		t.Error("a message goes beside one that is queued")
	}
	r.written()
	own := messageOf(smallBlock)
	if !r.Send(st, own, true, true) || r.Take() != own {
		t.Error("a message that is alone is copied")
	}
	own.Put()
	if r.Send(st, messageOf(2*wire.DefaultStreamWindow), false, true) || !st.IsSending() || st.HasSent() || r.OnlyStream() != nil {
		t.Error("more is sent than credit allows")
	}
	for r.written() != nil { // all that credit allows
	}
	r.frame(wire.TypeWindow, wire.FlagAnswer, st.ID, wire.AppendWindow(nil, 0, 0, 2*wire.DefaultStreamWindow)[wire.HeaderLen:])
	r.frame(wire.TypeWindow, 0, 0, wire.AppendWindow(nil, 0, 0, 2*wire.DefaultStreamWindow)[wire.HeaderLen:])
	for r.written() != nil { // the rest
	}
	if st.IsSending() || !st.HasSent() || !has(st.CanSend) {
		t.Error("credit has come, and the rest is not sent")
	}
	r.CloseSend(st)
	r.CloseSend(st) // has no effect
	if w := r.written(); len(w) != 1 || w[0].Flags&wire.FlagLast == 0 || !errors.Is(st.SendErr(), io.EOF) {
		t.Errorf("written: %+v, then %v", w, st.SendErr())
	}
}

// A stream that this side aborts is over at once, and the peer is told once.
func TestAbort(t *testing.T) {
	r := newReceiver(t, nil)
	_, st := r.openStream()
	for range 2 {
		r.Abort(st, GivenUp(errDeadline, false))
	}
	if w := r.written(); len(w) != 1 || w[0].Type != wire.TypeCancel || r.OpenCalls() != 1 {
		t.Errorf("written: %+v, %d slots are taken", w, r.OpenCalls())
	}
	if gone := r.Gone(); len(gone) != 1 || !st.IsOver() || tandem.CodeOf(st.RecvErr()) != tandem.DeadlineExceeded {
		t.Errorf("%d streams have ended, with %v", len(gone), st.RecvErr())
	}
}

// A message that is too large ends a stream of the peer's: its method is to be canceled.
func TestStreamMessageTooLarge(t *testing.T) {
	r := newReceiver(t, table{"talk": streaming()})
	_, in := r.frame(wire.TypeRequest, wire.FlagEnd|wire.FlagStream, first, requestHead("talk"))
	st := new(Stream)
	r.InitStream(st, nil, in.Request, 5)
	ev, _ := r.frame(wire.TypeData, wire.FlagStream|wire.FlagEnd, first, []byte("longer"))
	if ev.Kind != Canceled || ev.Request != in.Request || tandem.CodeOf(st.RecvErr()) != tandem.ResourceExhausted || r.HasGone() {
		t.Errorf("%+v, %v", ev, st.RecvErr())
	}
	r.Accept(in.Request)
	r.Accept(in.Request) // has no effect
	if w := r.written(); len(w) == 0 || w[len(w)-1].Type != wire.TypeResponse {
		t.Errorf("written: %+v", w)
	}
}

// A slow link gets small blocks.
func TestMeasure(t *testing.T) {
	for name, c := range map[string]struct {
		bytes   int
		seconds float64
		most    int
	}{
		"quick":          {1 << 20, 0.1, wire.MaxBlock},
		"slow":           {64 << 10, 1, slowBlock},
		"small and late": {10, 2, slowBlock},
		"says nothing":   {10, 0.5, wire.MaxBlock},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, nil)
			r.Measure(c.bytes, c.seconds)
			_, st := r.openStream()
			r.Send(st, messageOf(200_000), false, false)
			most := 0
			for _, h := range r.written() {
				most = max(most, h.Length)
			}
			if most != c.most {
				t.Errorf("blocks of %d bytes, want %d", most, c.most)
			}
		})
	}
}

// While this side drains, requests are not accepted; while the peer does, or after Retire, calls are
// not made.
func TestNoMoreCalls(t *testing.T) {
	r := newReceiver(t, table{"m": {}})
	r.Drain("going")
	r.Drain("again")
	if w := r.written(); len(w) != 1 || w[0].Type != wire.TypeGoAway || !r.IsDraining() || !r.TakesCalls() {
		t.Errorf("written: %+v", w)
	}
	if ev, _ := r.request(first, wire.Request{Name: named("m"), Timeout: time.Second}, ""); ev != (Event{}) || r.Accepted() != 0 {
		t.Errorf("a request is accepted: %+v", ev)
	}
	if !r.Retire() || r.Retire() || r.TakesCalls() || r.Away() == nil {
		t.Error("calls may be made")
	}
	if err := r.Open(&Call{Method: "m", Codec: "raw"}, r.now); err == nil || !errors.Is(err, ErrDraining) || !err.NotExecuted {
		t.Errorf("a call: %v", err)
	}
}
