package wire_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// Each side begins with a preface: what it accepts and which codecs it has.
func ExampleAppendPreface() {
	settings := wire.DefaultSettings()
	settings.Codecs = []string{"json"}
	b := wire.AppendPreface(nil, settings)

	version, length, err := wire.ParsePrefaceHead(b)
	if err != nil {
		fmt.Println(err)
		return
	}
	peer, err := wire.ParseSettings(b[wire.PrefaceLen : wire.PrefaceLen+length])
	fmt.Println(version, peer.Codecs, peer.MaxMessage, err)
	// Output: 1 [json] 4194304 <nil>
}

// A setting that a peer leaves out has its default.
func ExampleDefaultSettings() {
	s, err := wire.ParseSettings(nil)
	fmt.Println(s.MaxOpen == wire.DefaultSettings().MaxOpen, err)
	// Output: true <nil>
}

// A call that fits one frame: a header, the request's head, the message.
func ExampleAppendRequest() {
	head := wire.AppendRequest(nil, &wire.Request{
		Name:    wire.Name{Text: []byte("Arith.Mul"), Define: true},
		Timeout: 5 * time.Second,
	})
	message := []byte(`{"A":7,"B":8}`)
	frame := wire.AppendHeader(nil, wire.Header{
		Length: len(head) + len(message), Type: wire.TypeRequest, Flags: wire.FlagEnd, Stream: wire.MakeStream(0, 1),
	})
	frame = append(append(frame, head...), message...)

	h, err := wire.ParseHeader(frame)
	if err != nil {
		fmt.Println(err)
		return
	}
	var r wire.Request
	block, err := wire.ParseRequest(frame[wire.HeaderLen:wire.HeaderLen+h.Length], &r)
	fmt.Printf("%s in %v: %s, %v\n", r.Name.Text, r.Timeout, block, err)
	// Output: Arith.Mul in 5s: {"A":7,"B":8}, <nil>
}

// PutHeader fills in the header when the length of the payload is known.
func ExamplePutHeader() {
	frame := make([]byte, wire.HeaderLen, 64)
	frame = wire.AppendResponse(frame, &wire.Response{})
	frame = append(frame, "56"...)
	wire.PutHeader(frame, wire.Header{
		Length: len(frame) - wire.HeaderLen, Type: wire.TypeResponse,
		Flags: wire.FlagEnd | wire.FlagLast | wire.FlagAnswer, Stream: wire.MakeStream(0, 1),
	})
	fmt.Printf("% x\n", frame)
	// Output: 03 00 00 02 83 00 00 01 00 00 00 00 00 35 36
}

// The response of a call that failed carries a status; that of a call that succeeded
// has none. Both may have a load report.
func ExampleAppendResponse() {
	head := wire.AppendResponse(nil, &wire.Response{
		Status:  wire.AppendStatus(nil, &wire.Status{Code: tandem.NotFound, Message: "no order 17"}),
		HasLoad: true, Load: wire.Load{InFlight: 3, Utilization: 12},
	})
	var r wire.Response
	if _, err := wire.ParseResponse(head, &r); err != nil {
		fmt.Println(err)
		return
	}
	status, err := wire.ParseStatus(r.Status)
	fmt.Printf("%v: %s, %+v, %v\n", status.Code, status.Message, r.Load, err)
	// Output: not found: no order 17, {InFlight:3 Queued:0 Utilization:12}, <nil>
}

// The highest bit of a status says that no handler ran, so that a retry is safe.
func ExampleAppendStatus() {
	b := wire.AppendStatus(nil, &wire.Status{
		Code: tandem.ResourceExhausted, NotExecuted: true, Message: "busy", RetryAfter: 50 * time.Millisecond,
		Details: []tandem.Detail{{Type: "limit", Value: []byte("64")}},
	})
	s, err := wire.ParseStatus(b)
	fmt.Printf("%v, not executed %v, retry after %v, %s %s, %v\n", s.Code, s.NotExecuted, s.RetryAfter, s.Details[0].Type, s.Details[0].Value, err)
	// Output: resource exhausted, not executed true, retry after 50ms, limit 64, <nil>
}

func ExampleAppendMetadata() {
	b, err := wire.AppendMetadata(nil, tandem.Metadata{"tenant": {"blue"}, "trace": {"4bf9", "00f0"}})
	fmt.Printf("%d bytes, %v\n", len(b), err)
	m, err := wire.ParseMetadata(b)
	fmt.Println(m.Get("Tenant"), m.Values("trace"), err)
	// Output:
	// 34 bytes, <nil>
	// blue [4bf9 00f0] <nil>
}

// The index of a stream number may be reused as soon as the earlier call is over;
// the generation distinguishes the two.
func ExampleMakeStream() {
	before, after := wire.MakeStream(7, 1), wire.MakeStream(7, 2)
	fmt.Println(before.Index() == after.Index(), before == after)
	// Output: true false
}

func ExampleAppendWindow() {
	frame := wire.AppendWindow(nil, wire.MakeStream(0, 1), wire.FlagAnswer, wire.DefaultStreamWindow)
	credit, err := wire.ParseWindow(frame[wire.HeaderLen:])
	fmt.Println(credit, err)
	// Output: 262144 <nil>
}

func ExampleAppendPing() {
	ping := wire.AppendPing(nil, wire.TypePing, [8]byte{1, 2, 3})
	payload, err := wire.ParsePing(ping[wire.HeaderLen:])
	pong := wire.AppendPing(nil, wire.TypePong, payload)
	fmt.Printf("% x, %v\n", pong, err)
	// Output: 08 00 00 08 00 00 00 00 00 00 00 00 01 02 03 00 00 00 00 00, <nil>
}

// A server that drains says how many requests it has accepted: later ones did not run,
// and can be retried at another server.
func ExampleAppendGoAway() {
	frame := wire.AppendGoAway(nil, wire.GoAway{Accepted: 2, Reason: wire.ReasonDrain, Message: "shutting down"})
	g, err := wire.ParseGoAway(frame[wire.HeaderLen:])
	for ordinal := uint64(1); ordinal <= 3; ordinal++ {
		fmt.Printf("request %d: taken %v\n", ordinal, ordinal <= g.Accepted)
	}
	fmt.Println(g.Message, err)
	// Output:
	// request 1: taken true
	// request 2: taken true
	// request 3: taken false
	// shutting down <nil>
}

// Every error of a Parse function is a violation of the protocol.
func ExampleErrViolation() {
	_, err := wire.ParseHeader([]byte("GET / HTTP/1.1\r\n"))
	fmt.Println(errors.Is(err, wire.ErrViolation), err)
	// Output: true protocol violation: frame of 5522759 bytes, limit 65536
}
