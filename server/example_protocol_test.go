package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// talk is a protocol of lines: a client sends "CALL Method argument", and reads the result, or
// "failed" and the error. Responses come in the order in which the calls end. "BYE" is answered
// by "bye", and the connection ends.
type talk struct{}

var (
	_ server.Protocol = talk{}
	_ server.ALPN     = talk{}
)

func (talk) Name() string { return "talk" }

// NextProtos is for clients that select the protocol in the TLS handshake.
func (talk) NextProtos() []string { return []string{"talk"} }

// Match compares the first word.
func (talk) Match(first []byte) server.Verdict {
	const word = "CALL "
	switch n := min(len(first), len(word)); {
	case string(first[:n]) != word[:n]:
		return server.No
	case n < len(word):
		return server.NeedMore
	}
	return server.Yes
}

func (talk) Serve(ctx context.Context, c *server.Conn) error {
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, c.MaxMessage())
	for lines.Scan() {
		if lines.Text() == "BYE" {
			return c.SendLast(func(dst []byte) ([]byte, error) { return append(dst, "bye\n"...), nil })
		}
		words := strings.SplitN(lines.Text(), " ", 3)
		if len(words) != 3 || words[0] != "CALL" {
			return fmt.Errorf("not a call: %q", lines.Text())
		}
		b := &talkBody{argument: words[2]}
		c.Go(ctx, &tandem.Call{Method: words[1], Codec: "text", Body: b}, func(err error) {
			if err != nil {
				b.result = "failed: " + err.Error()
			}
			_ = c.Send(func(dst []byte) ([]byte, error) { return append(dst, b.result+"\n"...), nil })
		})
	}
	return lines.Err()
}

// talkBody is the text of one call.
type talkBody struct{ argument, result string }

func (b *talkBody) Decode(v any) error {
	if s, ok := v.(*string); ok {
		*s = b.argument
		return nil
	}
	_, err := fmt.Sscan(b.argument, v)
	return err
}

func (b *talkBody) Encode(v any) error {
	b.result = fmt.Sprint(v)
	return nil
}

func (*talkBody) Stream() tandem.MessageStream { return nil }

// A protocol of your own shares the port with tandem's: interceptors, limits and methods are
// the same for both.
func ExampleWithProtocols() {
	tell := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			fmt.Println(call.Peer.Protocol, "calls", call.Method)
			return next(ctx, call)
		}
	}
	srv := server.New(server.WithProtocols(talk{}), server.WithInterceptors(tell))
	check(srv.RegisterFunc("Math.Double", func(n int) int { return 2 * n }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("tcp://" + ln.Addr().String())
	check(err)
	fmt.Println(*must(client.Invoke[int](context.Background(), c, "Math.Double", 21)))
	check(c.Close())

	conn, err := net.Dial("tcp", ln.Addr().String())
	check(err)
	answers := bufio.NewScanner(conn)
	for _, line := range []string{"CALL Math.Double 21", "CALL Math.Half 21", "BYE"} {
		fmt.Fprintln(conn, line)
		answers.Scan()
		fmt.Println(answers.Text())
	}
	check(conn.Close())
	check(srv.Shutdown(context.Background()))
	<-served
	fmt.Println(srv.Unrecognized(), "strangers")
	// Output:
	// tandem calls Math.Double
	// 42
	// talk calls Math.Double
	// 42
	// talk calls Math.Half
	// failed: unimplemented: no method "Math.Half" here
	// bye
	// 0 strangers
}
