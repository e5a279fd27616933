package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// quickTalk is talk for many connections and many short calls: an idle connection holds no buffer, and
// short calls run in the goroutine that reads.
type quickTalk struct{ talk }

// quickReader is what the goroutine that reads uses. When a call takes long, another goroutine goes on
// with it.
type quickReader struct {
	ctx  context.Context
	conn *server.Conn
	buf  []byte     // read, and not handled
	over chan error // gets the error that ends the reading
}

func (quickTalk) Serve(ctx context.Context, c *server.Conn) (err error) {
	r := &quickReader{ctx: ctx, conn: c, over: make(chan error, 1)}
	defer func() { err = <-r.over }() // in a deferred function, as a method may end this goroutine
	r.loop()
	return nil
}

// Take and Give lend ReadLazy a buffer. A real protocol would use a pool.
func (*quickReader) Take() []byte { return make([]byte, 4<<10) }

func (*quickReader) Give([]byte) {}

func (r *quickReader) loop() {
	for {
		line, rest, found := bytes.Cut(r.buf, []byte("\n"))
		if !found {
			buf, n, err := r.conn.ReadLazy(r)
			if err != nil {
				r.over <- err
				return
			}
			r.buf = append(r.buf, buf[:n]...)
			continue
		}
		r.buf = rest
		words := strings.SplitN(string(line)+"  ", " ", 3)
		q := &quickCall{talkBody: talkBody{argument: strings.TrimSpace(words[2])}, conn: r.conn}
		q.memory.Init(r.conn, r.ctx)
		q.call = tandem.Call{Method: words[1], Codec: "text", Body: q}
		if !r.conn.GoHere(r.ctx, &q.call, q, r.loop) {
			return // r is another goroutine's
		}
	}
}

// quickCall is a call and its answer.
type quickCall struct {
	talkBody

	call   tandem.Call
	conn   *server.Conn
	memory server.Reservation
}

// Decode reserves what the argument takes.
func (q *quickCall) Decode(v any) error {
	if err := q.memory.Expect(int64(len(q.argument))); err != nil {
		return err
	}
	return q.talkBody.Decode(v)
}

// Answer sends the result. A protocol may send those of several calls together: with here, the reader
// goes on when this returns.
func (q *quickCall) Answer(here bool, err error) {
	defer q.memory.Release()
	if err != nil {
		q.result = "failed: " + err.Error()
	}
	_ = q.conn.Send(func(dst []byte) ([]byte, error) { return fmt.Appendf(dst, "%s (here: %v)\n", q.result, here), nil })
}

var _ server.Answerer = (*quickCall)(nil)

// A call runs in the goroutine that reads the connection if calls of its method are short.
func ExampleConn_GoHere() {
	srv := server.New(server.WithProtocols(quickTalk{}))
	check(srv.RegisterFunc("Math.Double", func(n int) int { return 2 * n }))
	check(srv.RegisterFunc("Math.Limited", func(n int) int { return n }, server.MethodConcurrency(1, 10)))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	conn, err := net.Dial("tcp", ln.Addr().String())
	check(err)
	answers := bufio.NewScanner(conn)
	for _, line := range []string{"CALL Math.Double 21", "CALL Math.Limited 1"} { // the second may have to wait for others
		fmt.Fprintln(conn, line)
		answers.Scan()
		fmt.Println(answers.Text())
	}
	check(conn.Close())
	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// 42 (here: true)
	// 1 (here: false)
}
