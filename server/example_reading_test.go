package server_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// letters is a protocol with one request, which arrives while another one holds all memory.
type letters struct{ read chan string }

func (letters) Name() string { return "letters" }

func (letters) Match([]byte) server.Verdict { return server.Yes }

func (l letters) Serve(ctx context.Context, c *server.Conn) error {
	other, held := c.Reserve(ctx), c.Reserve(ctx)
	defer held.Release()
	if err := other.Reserve(1 << 20); err != nil {
		return err
	}
	l.read <- fmt.Sprint("there is room at once: ", held.TryReserve(3*22))
	letter := io.LimitReader(&arriving{from: strings.NewReader("Dear Ann, all is well."), whenRead: other.Release}, 22)
	early, err := held.ReserveReading(3*22, letter)
	if err != nil {
		return err
	}
	if early != nil { // it had to wait
		b, err := io.ReadAll(early)
		l.read <- fmt.Sprintf("%q was read early, %v", b, err)
	}
	rest, err := io.ReadAll(letter)
	l.read <- fmt.Sprintf("%q after that, %v", rest, err)
	return nil
}

// arriving is a body that calls whenRead when all of it has been read.
type arriving struct {
	from     *strings.Reader
	whenRead func()
}

func (a *arriving) Read(b []byte) (int, error) {
	n, err := a.from.Read(b)
	if a.from.Len() == 0 {
		a.whenRead()
	}
	return n, err
}

// A protocol whose requests share a receive window, as those of HTTP/2 do, reads the messages that
// wait for memory, so that the others can arrive and give theirs back.
func ExampleReservation_ReserveReading() {
	l := letters{make(chan string)}
	srv := server.New(server.WithProtocols(l), server.WithMemory(1<<20))
	network := transport.NewMemory()
	ln, err := network.Listen(context.Background(), "letters")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := network.Dial(context.Background(), "letters")
	check(err)
	_, err = c.Write([]byte("D"))
	check(err)
	fmt.Println(<-l.read)
	fmt.Println(<-l.read)
	fmt.Println(<-l.read)
	check(c.Close())
	check(srv.Close())
	<-served
	// Output:
	// there is room at once: false
	// "Dear Ann, all is well." was read early, <nil>
	// "" after that, <nil>
}
