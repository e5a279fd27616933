package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
)

// lines is a custom protocol: a request is a line with the method and its argument in JSON, the
// response another line.
type lines struct{}

var (
	_ client.Protocol      = lines{}
	_ client.Compressing   = lines{}
	_ client.Bare          = lines{}
	_ client.StreamCarrier = (*lineCarrier)(nil)
	_ client.Messages      = (*lineStream)(nil)
)

func (lines) Name() string { return "lines" }

func (lines) Codecs() []tandem.Codec { return []tandem.Codec{codec.JSON()} }

// Compresses reports that lines are never compressed, which is the default without the method.
func (lines) Compresses(string) bool { return false }

// NoMetadata marks the protocol as one without metadata: calls with the option Metadata fail.
func (lines) NoMetadata() {}

// words are lines without streams.
type words struct{ lines }

var _ client.Streamless = words{}

func (words) Name() string { return "words" }

// NoStreams marks the protocol as one without streams: options for streams are errors.
func (words) NoStreams() {}

func (lines) Connect(ctx context.Context, r *client.Remote) (client.Carrier, error) {
	c, err := r.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &lineCarrier{remote: r, conn: c, in: bufio.NewReader(c), done: make(chan struct{})}, nil
}

// lineCarrier makes one call after the other. internal/multiplex is for protocols that
// number their requests.
type lineCarrier struct {
	remote *client.Remote

	mu   sync.Mutex
	conn net.Conn
	in   *bufio.Reader
	err  error
	done chan struct{}
}

func (l *lineCarrier) Carry(ctx context.Context, r *client.Request) error {
	arguments, err := r.Arguments()
	if err != nil {
		return err
	}
	argument, err := r.Argument() // the only one
	if err != nil {
		return fmt.Errorf("%w (%d)", err, len(arguments))
	}
	r.Reply, err = l.ask(ctx, fmt.Sprintf("%s %s\n", r.Call.Method, argument))
	return err
}

func (l *lineCarrier) ask(ctx context.Context, line string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, &tandem.Error{Code: tandem.Unavailable, NotExecuted: true, Message: l.err.Error()}
	}
	deadline, _ := ctx.Deadline()
	err := l.conn.SetDeadline(deadline)
	if err == nil {
		_, err = l.conn.Write([]byte(line)) // it may have been sent in part: NotExecuted stays false
	}
	var answer []byte
	if err == nil {
		answer, err = l.in.ReadBytes('\n')
	}
	if err != nil {
		l.err = err // the next line would be the response to another call
		close(l.done)
	}
	return answer, err
}

func (l *lineCarrier) Ping(ctx context.Context) error {
	_, err := l.ask(ctx, "Nobody.Here null\n")
	return err
}

func (l *lineCarrier) Done() <-chan struct{} { return l.done }

func (l *lineCarrier) Err() error { return l.err }

func (l *lineCarrier) Close() error { return l.conn.Close() }

// CarryStream opens a stream: here that is a new connection.
func (l *lineCarrier) CarryStream(ctx context.Context, r *client.Request) (client.Messages, error) {
	c, err := l.remote.Dial(ctx)
	if err != nil {
		return nil, &tandem.Error{Code: tandem.Unavailable, NotExecuted: true, Message: err.Error()}
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	return &lineStream{Conn: c, method: r.Call.Method, in: bufio.NewReader(c)}, nil
}

// lineStream is a stream of lines. Lines that are not read yet stay in the socket.
type lineStream struct {
	net.Conn

	method string
	in     *bufio.Reader
}

func (s *lineStream) Send(message []byte) error {
	_, err := fmt.Fprintf(s.Conn, "%s %s\n", s.method, message)
	return err
}

func (s *lineStream) CloseSend() error {
	half, ok := s.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

func (s *lineStream) Receive() ([]byte, error) { return s.in.ReadBytes('\n') }

func (*lineStream) Trailer() tandem.Metadata { return nil }

// A custom protocol has a name, codecs, and a way to connect, and streams if its carrier is a
// StreamCarrier. Everything else of a client works as usual.
func ExampleWithProtocols() {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go answerLines(server)
	defer server.Close()

	c, err := client.Dial("lines://"+server.Addr().String(), client.WithProtocols(lines{}))
	check(err)
	defer c.Close()
	ctx := context.Background()
	text, err := client.Invoke[string](ctx, c, "Text.Upper", "tandem")
	fmt.Println(*text, err)
	err = c.Call(ctx, "Text.Upper", tandem.Args{"a", "b"}, nil)
	fmt.Println(tandem.CodeOf(err), tandem.MayHaveExecuted(err))
	err = c.Call(ctx, "Text.Upper", "a", nil, client.Codec("gob"))
	fmt.Println(err)

	s, err := client.Stream[string, string](ctx, c, "Text.Upper")
	check(err)
	for _, word := range []string{"one", "two"} {
		check(s.Send(&word))
	}
	check(s.CloseSend())
	for loud, err := range s.All() {
		fmt.Println(*loud, err)
	}

	_, err = client.Dial("words://"+server.Addr().String(), client.WithProtocols(words{}), client.WithConnections(client.Connections{StreamWindow: 64 << 10}))
	fmt.Println(err)
	// Output:
	// TANDEM <nil>
	// unimplemented false
	// unimplemented: lines does not carry codec "gob"; it carries json: give one of them to WithCodec, or name it in the call
	// ONE <nil>
	// TWO <nil>
	// invalid argument: WithConnections: StreamWindow: words carries no streams: leave it out
}

// answerLines serves connections until the listener is closed.
func answerLines(server net.Listener) {
	for {
		c, err := server.Accept()
		if err != nil {
			return
		}
		go answerLinesOf(c)
	}
}

func answerLinesOf(c net.Conn) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		_, argument, _ := strings.Cut(in.Text(), " ")
		if _, err := fmt.Fprintln(c, strings.ToUpper(argument)); errors.Is(err, net.ErrClosed) {
			return
		}
	}
}
