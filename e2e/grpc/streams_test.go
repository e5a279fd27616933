package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

type (
	text   = wrapperspb.StringValue
	number = wrapperspb.Int64Value
)

// patience is the time limit for events that a test waits for.
const patience = time.Minute

// talker is a grpc-go server with streams.
type talker struct {
	*grpc.Server

	address string
	sent    atomic.Int64 // messages of Flood
	taken   atomic.Int64 // messages that Slow has received
	slow    chan struct{}
	ended   chan error // the error of Wait's context
}

func newTalker(t *testing.T, opts ...grpc.ServerOption) *talker {
	t.Helper()
	s := &talker{Server: grpc.NewServer(opts...), slow: make(chan struct{}), ended: make(chan error, 200)}
	desc := grpc.ServiceDesc{ServiceName: "test.v1.Talks", HandlerType: (*any)(nil)}
	for name, f := range map[string]func(grpc.ServerStream) error{
		"Count": s.count, "Add": s.add, "Echo": s.echo, "Wait": s.wait, "Flood": s.flood, "Slow": s.take, "Upload": s.upload,
	} {
		desc.Streams = append(desc.Streams, grpc.StreamDesc{
			StreamName: name, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error { return f(stream) },
		})
	}
	s.RegisterService(&desc, struct{}{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		<-served
	})
	return s
}

// count sends as many numbers as the request asks for.
func (*talker) count(s grpc.ServerStream) error {
	in := new(number)
	if err := s.RecvMsg(in); err != nil {
		return err
	}
	md, _ := metadata.FromIncomingContext(s.Context())
	if err := s.SetHeader(metadata.Pairs("first", strings.Join(md["authorization"], "+"))); err != nil {
		return err
	}
	for i := range in.GetValue() {
		if err := s.SendMsg(&number{Value: i}); err != nil {
			return err
		}
	}
	s.SetTrailer(metadata.Pairs("last", "trailer", "bytes-bin", "\x00\x01"))
	return nil
}

// add answers with the sum when it has received all numbers.
func (*talker) add(s grpc.ServerStream) error {
	total := int64(0)
	for {
		in := new(number)
		err := s.RecvMsg(in)
		if errors.Is(err, io.EOF) {
			return s.SendMsg(&number{Value: total})
		}
		if err != nil {
			return err
		}
		total += in.GetValue()
	}
}

// echo sends back what it receives, and fails at the end.
func (*talker) echo(s grpc.ServerStream) error {
	for {
		in := new(text)
		err := s.RecvMsg(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = s.SendMsg(in)
		}
		if err != nil {
			return err
		}
	}
	st, err := status.New(codes.OutOfRange, "no more").WithDetails(&number{Value: 7})
	if err != nil {
		return err
	}
	s.SetTrailer(metadata.Pairs("last", "trailer"))
	return st.Err()
}

func (s *talker) wait(stream grpc.ServerStream) error {
	<-stream.Context().Done()
	s.ended <- stream.Context().Err()
	return stream.Context().Err()
}

// upload answers the first message and reports how receiving the others ended.
func (s *talker) upload(stream grpc.ServerStream) error {
	err := stream.RecvMsg(new(text))
	if err == nil {
		err = stream.SendMsg(&text{})
	}
	for err == nil {
		err = stream.RecvMsg(new(text))
	}
	s.ended <- err
	return err
}

// flood sends as fast as it can.
func (s *talker) flood(stream grpc.ServerStream) error {
	piece := &text{Value: strings.Repeat("x", 64<<10)}
	for {
		if err := stream.SendMsg(piece); err != nil {
			s.ended <- stream.Context().Err()
			return err
		}
		s.sent.Add(1)
	}
}

// take receives while slow allows it.
func (s *talker) take(stream grpc.ServerStream) error {
	<-s.slow
	for {
		if err := stream.RecvMsg(new(text)); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		s.taken.Add(1)
	}
}

func open[Out, In any](t *testing.T, c *client.Client, method string, opts ...tandem.CallOption) *tandem.Stream[In, Out] {
	t.Helper()
	s, err := client.Stream[Out, In](t.Context(), c, "test.v1.Talks."+method, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStreams covers streams of each kind, metadata both ways, and errors with details.
func TestStreams(t *testing.T) {
	c := dial(t, "grpc://"+newTalker(t).address)
	var back tandem.Metadata
	down, err := client.ServerStream[number, number](t.Context(), c, "test.v1.Talks.Count", &number{Value: 1000},
		client.Metadata("authorization", "bearer x"), client.Trailer(&back))
	if err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	for m, err := range down.All() {
		if err != nil || m.GetValue() != n {
			t.Fatalf("%v, %v after %d", m, err, n)
		}
		n++
	}
	if n != 1000 || back.Get("first") != "bearer x" || back.Get("last") != "trailer" || back.Get("bytes-bin") != "\x00\x01" {
		t.Errorf("%d messages, %v", n, back)
	}
	up := open[number, number](t, c, "Add")
	for i := range int64(1000) {
		if err := up.Send(&number{Value: i}); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := client.CloseAndRecv(up); err != nil || m.GetValue() != 499500 {
		t.Errorf("%v, %v", m, err)
	}
	talk(t, c, 100)
}

// talk sends and receives in turns, to the end of the stream.
func talk(t *testing.T, c *client.Client, turns int) {
	t.Helper()
	var back tandem.Metadata
	both := open[text, text](t, c, "Echo", client.Trailer(&back))
	for i := range turns {
		word := fmt.Sprint(i)
		if err := both.Send(&text{Value: word}); err != nil {
			t.Error(err)
			return
		}
		if m, err := both.Recv(); err != nil || m.GetValue() != word {
			t.Errorf("%v, %v after %d", m, err, i)
			return
		}
	}
	if err := both.CloseSend(); err != nil {
		t.Error(err)
	}
	_, err := both.Recv()
	e := tandem.AsError(err)
	if e == nil || e.Code != tandem.OutOfRange || e.Message != "no more" || !e.Remote || e.NotExecuted || len(e.Details) != 1 || back.Get("last") != "trailer" {
		t.Errorf("%+v, %v", e, back)
	}
}

// A hundred streams run at a time, on one connection that allows them all, and on several
// that allow ten each.
func TestStreamsAtATime(t *testing.T) {
	for name, opts := range map[string][]grpc.ServerOption{"all": nil, "ten": {grpc.MaxConcurrentStreams(10)}} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, "grpc://"+newTalker(t, opts...).address)
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() { talk(t, c, 20) })
			}
			wg.Wait()
		})
	}
}

// A deadline, a canceled context and Close end a stream on both sides.
func TestStreamsGivenUp(t *testing.T) {
	srv := newTalker(t)
	c := dial(t, "grpc://"+srv.address)
	for name, give := range map[string]struct {
		opts []tandem.CallOption
		up   func(s *tandem.Stream[text, text], cancel func())
		want tandem.Code
	}{
		"deadline": {[]tandem.CallOption{client.Timeout(200 * time.Millisecond)}, func(*tandem.Stream[text, text], func()) {}, tandem.DeadlineExceeded},
		"context":  {nil, func(_ *tandem.Stream[text, text], cancel func()) { cancel() }, tandem.Canceled},
		"close":    {nil, func(s *tandem.Stream[text, text], _ func()) { _ = s.Close() }, tandem.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := client.Stream[text, text](ctx, c, "test.v1.Talks.Wait", give.opts...)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(&text{}); err != nil {
				t.Fatal(err)
			}
			give.up(s, cancel)
			if _, err := s.Recv(); tandem.CodeOf(err) != give.want || !tandem.MayHaveExecuted(err) {
				t.Errorf("received %v", err)
			}
			if err := s.Send(&text{}); tandem.CodeOf(err) != give.want {
				t.Errorf("sent: %v", err)
			}
			select {
			case <-srv.ended:
			case <-time.After(patience):
				t.Error("the server was not told")
			}
			<-s.Context().Done()
		})
	}
}

// settled waits until a count stops changing and returns it.
func settled(n *atomic.Int64) int64 {
	for last := int64(-1); ; {
		now := n.Load()
		if now == last && now > 0 {
			return now
		}
		last = now
		time.Sleep(300 * time.Millisecond) // no event says that no more will come
	}
}

// A receiver that does not receive stops the server's sender within the window, and no
// other call.
func TestStreamsSlowReceiver(t *testing.T) {
	srv := newTalker(t)
	c := dial(t, "grpc://"+srv.address, client.WithConnections(client.Connections{StreamWindow: 1 << 20}))
	var floods []*tandem.Stream[text, text]
	for range 12 {
		floods = append(floods, open[text, text](t, c, "Flood"))
	}
	// A window each, a message in the receiver, and grpc-go's own send queue: 64 KiB or one
	// more message.
	const most = 12 * (16 + 1 + 2)
	if sent := settled(&srv.sent); sent > most || sent < 12 {
		t.Errorf("%d messages were sent, at most %d should be", sent, most)
	}
	talk(t, c, 10)
	for i := range 50 { // this opens the windows
		if m, err := floods[0].Recv(); err != nil || len(m.GetValue()) != 64<<10 {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	for _, s := range floods {
		_ = s.Close()
	}
	for range floods {
		<-srv.ended
	}
	talk(t, c, 10) // the window of messages that were not received has been returned
}

// A server that does not receive stops the client's sender, which still learns the end of
// the stream.
func TestStreamsSlowServer(t *testing.T) {
	srv := newTalker(t)
	c := dial(t, "grpc://"+srv.address)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sent atomic.Int64
	begin := func(ctx context.Context) (*tandem.Stream[text, text], chan error) {
		s, err := client.Stream[text, text](ctx, c, "test.v1.Talks.Slow")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			for range 1000 {
				if err := s.Send(&text{Value: strings.Repeat("x", 1<<10)}); err != nil {
					ended <- err
					return
				}
				sent.Add(1)
			}
			ended <- s.CloseSend()
		}()
		return s, ended
	}
	_, ended := begin(ctx)
	if n := settled(&sent); n > 128 { // grpc-go's window is 64 KiB, and net/http holds a frame or two
		t.Errorf("%d messages were sent that nobody received", n)
	}
	cancel()
	if err := <-ended; tandem.CodeOf(err) != tandem.Canceled {
		t.Errorf("the sender got %v", err)
	}
	s, ended := begin(t.Context())
	close(srv.slow)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) || srv.taken.Load() < 1000 {
		t.Errorf("%v after %d messages", err, srv.taken.Load())
	}
}

// A request that is canceled never looks complete to the server, also after the server has
// begun to respond.
func TestStreamsGivenUpIsNotDone(t *testing.T) {
	srv := newTalker(t)
	c := dial(t, "grpc://"+srv.address)
	for range 50 {
		s := open[text, text](t, c, "Upload")
		if err := s.Send(&text{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		if err := <-srv.ended; status.Code(err) != codes.Canceled {
			t.Fatalf("the server received %v", err)
		}
	}
}

// Messages at and above the limits of both sides.
func TestStreamsLargeMessages(t *testing.T) {
	const limit = 4 << 20
	srv := newTalker(t) // it accepts 4 MiB
	for name, test := range map[string]struct {
		ours, size int
		want       tandem.Code
	}{
		"at the limit":   {limit, limit - 5, tandem.OK}, // less the field's tag and length
		"above theirs":   {8 << 20, limit + 1, tandem.ResourceExhausted},
		"above ours":     {limit / 2, limit/2 + 1, tandem.ResourceExhausted},
		"of a few bytes": {limit, 3, tandem.OK},
		"of none":        {limit, 0, tandem.OK},
	} {
		t.Run(name, func(t *testing.T) {
			s := open[text, text](t, dial(t, "grpc://"+srv.address, client.WithMaxMessage(test.ours)), "Echo")
			defer s.Close()
			large := strings.Repeat("x", test.size)
			if err := s.Send(&text{Value: large}); err != nil && tandem.CodeOf(err) != test.want {
				t.Errorf("sent: %v", err)
			}
			m, err := s.Recv()
			if tandem.CodeOf(err) != test.want || err == nil && m.GetValue() != large {
				t.Errorf("received %d bytes: %v", len(m.GetValue()), err)
			}
		})
	}
}

// A server that stops gracefully finishes its streams, and new ones go to another server;
// one that stops at once ends its streams with Unavailable.
func TestStreamsServerLeaves(t *testing.T) {
	first, second := newTalker(t), newTalker(t)
	c := dial(t, "grpc://"+first.address+","+second.address, client.WithFailMode(tandem.Failover))
	at := func(srv *talker) *tandem.Stream[text, text] {
		s := open[text, text](t, c, "Echo", client.Instance("tcp://"+srv.address))
		echoed(t, s)
		return s
	}
	old, cut := at(first), at(second)
	graceful := make(chan struct{})
	go func() {
		first.GracefulStop()
		close(graceful)
	}()
	for range 10 {
		echoed(t, old)
		s := open[text, text](t, c, "Echo")
		_ = s.Close()
	}
	if err := old.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := old.Recv(); tandem.CodeOf(err) != tandem.OutOfRange {
		t.Errorf("the end of a stream of a server that winds up: %v", err)
	}
	<-graceful
	second.Stop()
	_, err := cut.Recv()
	if e := tandem.AsError(err); e == nil || e.Code != tandem.Unavailable || e.NotExecuted {
		t.Errorf("the end of a stream of a server that stops: %+v", e)
	}
	if err := cut.Send(&text{}); tandem.CodeOf(err) != tandem.Unavailable {
		t.Errorf("sent to a server that has gone: %v", err)
	}
}

func echoed(t *testing.T, s *tandem.Stream[text, text]) {
	t.Helper()
	if err := s.Send(&text{Value: "ab"}); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Recv(); err != nil || m.GetValue() != "ab" {
		t.Fatalf("%v, %v", m, err)
	}
}

// Close ends streams, whether or not a goroutine receives from them.
func TestStreamsClientCloses(t *testing.T) {
	srv := newTalker(t)
	c := dial(t, "grpc://"+srv.address)
	waiting, flooded := open[text, text](t, c, "Wait"), open[text, text](t, c, "Flood")
	if _, err := flooded.Recv(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := waiting.Recv()
		ended <- err
	}()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; tandem.CodeOf(err) != tandem.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
	<-flooded.Context().Done()
	for range 2 {
		<-srv.ended
	}
	if _, err := c.OpenStream(t.Context(), "test.v1.Talks.Echo"); tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) {
		t.Errorf("opened by a client that is closed: %v", err)
	}
}

// A reset of a stream is reported with the code that fits the server's reason.
func TestStreamsReset(t *testing.T) {
	for name, test := range map[string]struct {
		code        http2.ErrCode
		want        tandem.Code
		notExecuted bool
	}{
		"refused":  {http2.ErrCodeRefusedStream, tandem.Unavailable, true},
		"internal": {http2.ErrCodeInternal, tandem.Internal, false},
		"canceled": {http2.ErrCodeCancel, tandem.Canceled, false},
		"calm":     {http2.ErrCodeEnhanceYourCalm, tandem.ResourceExhausted, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := open[text, text](t, dial(t, "grpc://"+resetting(t, test.code)), "Echo")
			_, err := s.Recv()
			e := tandem.AsError(err)
			if e == nil || e.Code != test.want || e.NotExecuted != test.notExecuted {
				t.Errorf("%+v", e)
			}
			<-s.Context().Done()
		})
	}
}

// resetting is a server that resets each stream.
func resetting(t *testing.T, code http2.ErrCode) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				resetAll(conn, code)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

func resetAll(conn net.Conn, code http2.ErrCode) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	if f.WriteSettings() != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if h, ok := frame.(*http2.HeadersFrame); ok {
			err = f.WriteRSTStream(h.StreamID, code)
		}
		if err != nil {
			return
		}
	}
}
