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

// A request is the call's ID, how long its handler takes in microseconds, and padding.
// The answer is the ID.
const (
	requestHead = 12
	answerSize  = 8

	stallSize = 16 << 10 // bytes of each message of a stream that is not read
)

func appendRequest(id uint64, work time.Duration, size int) []byte {
	b := make([]byte, max(size, requestHead))
	binary.BigEndian.PutUint64(b, id)
	binary.BigEndian.PutUint32(b[8:], uint32(work.Microseconds())) //nolint:gosec // less than an hour
	return b
}

// handler does what every system's method does.
type handler struct {
	journal  journal
	slowness int     // how many times as long as asked for it takes
	burden   *burden // what it does instead of sleeping, if it is not nil
	spoil    string  // what it does wrong with every 50th call; nothing if empty
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

// serve answers a unary call.
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

// quick answers a call of the method that is no burden.
func (h handler) quick(request []byte) ([]byte, error) {
	h.burden = nil
	return h.serve(context.Background(), request)
}

func errShort(request []byte) error {
	return fmt.Errorf("a request of %d bytes: at least %d are expected", len(request), requestHead)
}

// misbehave does what a bar must notice.
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

// What -spoil can be.
const (
	spoilDrop  = "drop"
	spoilTwice = "twice"
	spoilLose  = "lose"
)

// backend is a running server. stop ends it in good order.
type backend struct {
	serve   func(net.Listener) error
	stop    func(context.Context) error
	refused func() uint64 // requests because of overload; nil if it never does
}

// caller makes calls with one client of a system. variant is how, where the system
// knows more than one way. It must be safe for concurrent use.
type caller interface {
	call(ctx context.Context, variant string, request []byte) (answer []byte, err error)
	// verdict is the error's code, and whether it claims that no handler ran.
	verdict(err error) (code string, notExecuted bool)
	close()
}

// serverPlan is what a server process does. The lab gives it as JSON.
type serverPlan struct {
	System   string
	Addr     string
	Journal  string
	Registry string        // target of the list in which it registers; none if empty
	Slowness int           // how many times as long as asked for its handler takes
	Spoil    string        // what the handler does wrong, see -spoil
	MaxAge   time.Duration // of a connection; none if 0
	Burden   string        // what the handler does, see burden; nothing if empty
	Next     string        // address of the server that its handler asks; none if empty
}

// serveRole is a server process. It writes "ready" when it listens, a line of its usage
// after SIGUSR1, and ends in good order after SIGTERM.
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
	h := handler{journal: j, slowness: p.Slowness, burden: newBurden(p.Burden), spoil: p.Spoil}
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

// callFresh makes a call with a client of its own.
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
