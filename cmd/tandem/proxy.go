package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/traffic"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/transport"
)

// proxyFlags are the flags of tandem proxy.
type proxyFlags struct {
	format      listing.Format
	traffic     traffic.Options
	connections int // at a time
	count       int // connections after which it ends; 0 for never
}

func newProxy(sh *shell) *cobra.Command {
	f := &proxyFlags{format: listing.Table}
	cmd := &cobra.Command{
		Use:   "proxy [flags] LISTEN ADDRESS",
		Short: "pass connections on, and print what is said on them",
		Long: "Both are tcp://host:port or unix://path. It decodes tandem's protocol, HTTP/1 and HTTP/2 (gRPC,\n" +
			"Connect), each on connections without TLS; of others it counts the bytes. What it can't follow it\n" +
			"passes on as it is, and says so. Metadata is shown by its keys, messages only with --payload.",
		Example: "tandem proxy tcp://127.0.0.1:9000 tcp://10.0.0.7:8972",
		Args:    wantArgs(2, 2),
	}
	set := cmd.Flags()
	set.VarP(&f.format, "output", "o", "how to print it; json is a line for each event")
	set.IntVar(&f.traffic.Payload, "payload", 0, "`bytes` of each message to show, escaped; 200 if no number is given")
	set.Lookup("payload").NoOptDefVal = "200"
	set.BoolVarP(&f.traffic.All, "all", "a", false, "also windows, pings and settings")
	set.IntVar(&f.connections, "connections", 1000, "connections at a time; further ones wait")
	set.IntVar(&f.count, "count", 0, "end after this many connections; 0 for never")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return interrupted(cmd.Context(), f.run(cmd.Context(), sh, args[0], args[1]))
	}
	return cmd
}

// streamAddress returns the network and the address of a target.
func streamAddress(target string) (network, address string, err error) {
	t, err := registry.ParseTarget(target)
	if err != nil {
		return "", "", usagef("%v", err)
	}
	if t.Scheme != "tcp" && t.Scheme != "unix" {
		return "", "", usagef("%q: want tcp://host:port or unix://path", target)
	}
	return t.Scheme, t.Address(), nil
}

// proxy passes connections on.
type proxy struct {
	flags    *proxyFlags
	network  string
	address  string
	events   chan traffic.Event
	dropped  atomic.Int64 // events that the output was too slow for
	accepted int
	open     sync.WaitGroup
}

// maxEvents is how many events wait for the output. Further ones are dropped, so that a slow
// terminal does not slow the connections down.
const maxEvents = 8192

func (f *proxyFlags) run(ctx context.Context, sh *shell, listen, to string) error {
	if f.connections < 1 || f.traffic.Payload < 0 || f.traffic.Payload > maxPayload {
		return usagef("--connections must be above 0, and --payload 0 to %d", maxPayload)
	}
	network, address, err := streamAddress(listen)
	if err != nil {
		return err
	}
	p := &proxy{flags: f, events: make(chan traffic.Event, maxEvents)}
	if p.network, p.address, err = streamAddress(to); err != nil {
		return err
	}
	l, err := transport.Stream(network).Listen(ctx, address)
	if err != nil {
		return err
	}
	if f.format != listing.JSON && f.format != listing.YAML {
		if _, err := fmt.Fprintf(sh.out, "passing %s://%s on to %s://%s\n", network, l.Addr(), p.network, p.address); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		if err := p.print(sh); err != nil {
			stop(err) // the reader of our output is gone
		}
	}()
	err = p.accept(ctx, l)
	p.open.Wait()
	close(p.events)
	<-printed
	return errors.Join(err, context.Cause(ctx))
}

// maxPayload is the largest number of bytes of a message that are shown.
const maxPayload = 64 << 10

// accept passes connections on until ctx ends, or there were enough of them.
func (p *proxy) accept(ctx context.Context, l net.Listener) error {
	release := context.AfterFunc(ctx, func() { _ = l.Close() }) // ends Accept
	defer func() {
		release()
		_ = l.Close() // a second Close does no harm
	}()
	slots := make(chan struct{}, p.flags.connections)
	for p.flags.count == 0 || p.accepted < p.flags.count {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		p.accepted++
		n := p.accepted
		p.open.Go(func() {
			defer func() { <-slots }()
			p.pass(ctx, c, n)
		})
	}
	return nil
}

// emit keeps an event for the output, or drops it.
func (p *proxy) emit(e traffic.Event) {
	select {
	case p.events <- e:
	default:
		p.dropped.Add(1)
	}
}

// print prints events until there are no more.
func (p *proxy) print(sh *shell) error {
	printer := &listing.Printer{Out: sh.out, Format: p.flags.format, Stream: true}
	for e := range p.events {
		if n := p.dropped.Swap(0); n > 0 {
			fmt.Fprintf(sh.err, "tandem: %d events were dropped, as the output is too slow\n", n)
		}
		var err error
		switch p.flags.format {
		case listing.JSON, listing.YAML:
			err = printer.Print(&listing.List{Value: &e})
		default:
			_, err = fmt.Fprintln(sh.out, e.Line())
		}
		if err != nil {
			return err // emit drops what follows
		}
	}
	return nil
}

// dialTimeout bounds a connection to the address.
const dialTimeout = 10 * time.Second

// passed is a connection that is passed on.
type passed struct {
	sides [2]net.Conn

	mu           sync.Mutex // guards what follows
	conversation *traffic.Conversation
	err          error // the first of both directions
}

// pass passes a connection on until both sides have ended it, or ctx ends.
func (p *proxy) pass(ctx context.Context, c net.Conn, n int) {
	began := time.Now()
	t := &passed{conversation: traffic.New(n, p.flags.traffic, p.emit, began)}
	t.conversation.Opened("from " + remote(c))
	dialing, cancel := context.WithTimeout(ctx, dialTimeout)
	server, err := transport.Stream(p.network).Dial(dialing, p.address)
	cancel()
	if err != nil {
		t.conversation.Closed(err, time.Now())
		_ = c.Close() // there is nobody to talk to
		return
	}
	t.sides = [2]net.Conn{traffic.Client: c, traffic.Server: server}
	release := context.AfterFunc(ctx, func() { t.end(context.Cause(ctx)) })
	defer release()
	var directions sync.WaitGroup
	for _, from := range []traffic.Side{traffic.Client, traffic.Server} {
		directions.Go(func() { t.copy(from) })
	}
	directions.Wait()
	t.end(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conversation.Closed(t.err, time.Now())
}

// remote returns where a connection is from; unix sockets have no names.
func remote(c net.Conn) string {
	if a := c.RemoteAddr(); a != nil && a.String() != "" && a.String() != "@" {
		return a.String()
	}
	return "a unix socket"
}

// end closes both sides; err is why, unless there was an earlier reason.
func (t *passed) end(err error) {
	t.mu.Lock()
	if t.err == nil {
		t.err = err
	}
	t.mu.Unlock()
	for _, c := range t.sides {
		_ = c.Close() // a second Close does no harm
	}
}

// copy passes bytes of a side on to the other. At the end of the bytes only that direction ends.
func (t *passed) copy(from traffic.Side) {
	const size = 32 << 10
	buf := make([]byte, size)
	in, out := t.sides[from], t.sides[1-from]
	for {
		n, err := in.Read(buf)
		if n > 0 {
			t.mu.Lock()
			t.conversation.Feed(from, buf[:n], time.Now()) // before the answer to it can come
			t.mu.Unlock()
			if _, err := out.Write(buf[:n]); err != nil {
				t.end(err)
				return
			}
		}
		if errors.Is(err, io.EOF) {
			if err := transport.Wrap(out).CloseWrite(); err != nil {
				t.end(nil) // the other side has ended already
			}
			return
		}
		if err != nil {
			t.end(err)
			return
		}
	}
}
