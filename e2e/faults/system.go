package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// The systems that the lab can run.
const (
	sysTandem = "tandem"
	sysOpen   = "tandem-open" // without overload control
	sysGRPC   = "grpc"
	sysRPCX   = "rpcx"
)

// A request consists of the call's ID (8 bytes), the duration of its handler in microseconds
// (4 bytes), and padding. The response is the ID.
const (
	requestHead = 12
	answerSize  = 8

	stallSize = 16 << 10 // bytes of each message of a stream that the client does not read
)

func appendRequest(id uint64, work time.Duration, size int) []byte {
	b := make([]byte, max(size, requestHead))
	binary.BigEndian.PutUint64(b, id)
	binary.BigEndian.PutUint32(b[8:], uint32(work.Microseconds())) //nolint:gosec // less than an hour
	return b
}

// handler implements the methods, in the same way for every system.
type handler struct {
	journal  journal
	number   int     // of the server
	slowness int     // factor on the duration that the request asks for
	burden   *burden // work that it does instead of sleeping; nil to sleep
	spoil    string  // error to make with every 50th call, see -spoil; none if empty
	next     caller  // client of the next server in a chain; nil if this server does the work
}

func (h handler) echo(request []byte) ([]byte, error) {
	if len(request) < requestHead {
		return nil, errShort(request)
	}
	if id := binary.BigEndian.Uint64(request); h.spoil == "" || id == 0 || id%50 != 0 {
		h.journal.executed(id)
	} else {
		h.misbehave(id)
	}
	time.Sleep(time.Duration(h.slowness) * time.Duration(binary.BigEndian.Uint32(request[8:])) * time.Microsecond)
	return append([]byte(nil), request[:answerSize]...), nil
}

// serve handles a unary call.
func (h handler) serve(ctx context.Context, request []byte) ([]byte, error) {
	if h.next != nil {
		return h.next.call(ctx, variantDefault, request)
	}
	if h.burden == nil {
		return h.echo(request)
	}
	if len(request) < requestHead {
		return nil, errShort(request)
	}
	h.journal.executed(binary.BigEndian.Uint64(request))
	return append([]byte(nil), request[:answerSize]...), h.burden.bear(ctx)
}

// quick handles a call of the quick method, which has no burden.
func (h handler) quick(request []byte) ([]byte, error) {
	h.burden = nil
	return h.serve(context.Background(), request)
}

func errShort(request []byte) error {
	return fmt.Errorf("a request of %d bytes: at least %d are expected", len(request), requestHead)
}

// misbehave makes the error that h.spoil names, so that a bar must fail.
func (h handler) misbehave(id uint64) {
	switch h.spoil {
	case spoilLose: // the call seems to succeed, and did not run
	case spoilTwice:
		h.journal.executed(id)
		h.journal.executed(id)
	case spoilDrop:
		h.journal.executed(id)
		time.Sleep(time.Minute)
	}
}

// The values of -spoil.
const (
	spoilDrop  = "drop"
	spoilTwice = "twice"
	spoilLose  = "lose"
)

// backend is a system's server.
type backend struct {
	serve   func(net.Listener) error
	stop    func(context.Context) error // shuts the server down gracefully
	refused func() uint64               // counts requests refused because of overload; nil if the system refuses none
}

// caller makes calls with one client of a system. variant selects how a call is made, if the
// system knows more than one way. A caller must be safe for concurrent use.
type caller interface {
	call(ctx context.Context, variant string, request []byte) (answer []byte, err error)
	// verdict returns the error's code, and whether the error claims that no handler ran.
	verdict(err error) (code string, notExecuted bool)
	close()
}

// serverPlan says what a server process does. The lab passes it as JSON in an argument.
type serverPlan struct {
	System   string
	Number   int // of the server
	Addr     string
	Journal  string
	Store    string        // target of the store of keyed calls; none if empty
	Registry string        // target of the registry in which it registers; none if empty
	Slowness int           // factor on the duration of its handlers
	Spoil    string        // error that the handler makes, see -spoil; none if empty
	MaxAge   time.Duration // maximum age of a connection; 0 for no limit
	Burden   string        // work of the handler, see burden; it sleeps if empty
	Next     string        // address of the server that its handler calls; none if empty
}

// serveRole runs a server process. It writes "ready" when it listens, and a line with its
// usage after each SIGUSR1. After SIGTERM it shuts down gracefully and returns.
func serveRole(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s: arguments %q: want a plan", roleServe, args)
	}
	var p serverPlan
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return fmt.Errorf("%s: %w", roleServe, err)
	}
	j, err := openJournal(p.Journal)
	if err != nil {
		return err
	}
	h := handler{journal: j, number: p.Number, slowness: p.Slowness, burden: newBurden(p.Burden), spoil: p.Spoil}
	if p.Next != "" {
		if h.next, err = dialSystem(plan{System: p.System, Addrs: []string{p.Next}}); err != nil {
			return err
		}
		defer h.next.close()
	}
	b, err := newBackend(p, h)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", p.Addr)
	if err != nil {
		return err
	}
	terminated, served := make(chan os.Signal, 1), make(chan error, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	reportUsage(os.Stdout, b.refused)
	followClock(p.Journal)
	go func() { served <- b.serve(ln) }()
	fmt.Println("ready")
	select {
	case err := <-served:
		return err
	case <-terminated:
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return b.stop(ctx)
}

func newBackend(p serverPlan, h handler) (backend, error) {
	switch p.System {
	case sysTandem, sysOpen:
		return serveTandem(p, h)
	case sysGRPC:
		return serveGRPC(p, h), nil
	case sysRPCX:
		return serveRPCX(h), nil
	}
	return backend{}, unknownSystem(p.System)
}

func unknownSystem(name string) error {
	return fmt.Errorf("system %q: want %s, %s or %s", name, sysTandem, sysGRPC, sysRPCX)
}

// callFresh makes a call with a new client, which it then closes.
func callFresh(ctx context.Context, p plan, request []byte) ([]byte, error) {
	c, err := dialSystem(p)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return c.call(ctx, variantDefault, request)
}

func dialSystem(p plan) (caller, error) {
	switch p.System {
	case sysTandem, sysOpen:
		return dialTandem(p)
	case sysGRPC:
		return dialGRPC(p)
	case sysRPCX:
		return dialRPCX(p)
	}
	return nil, unknownSystem(p.System)
}
