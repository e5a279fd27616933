package rpcx_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/compat/rpcx"
)

// choosesLate is a selector whose Select waits until leave is closed.
type choosesLate struct {
	leave  chan struct{}
	client *rpc.Client
}

func (s choosesLate) Select(rpcx.ClientCodecFunc) (*rpc.Client, error) {
	<-s.leave
	return s.client, nil
}

// connectsLate is a slow CoreSelector.
type connectsLate struct{ choosesLate }

func (s connectsLate) Core(...client.Option) (*client.Client, error) {
	<-s.leave
	return nil, errors.New("too late")
}

// fails makes a call that must fail soon.
func fails(t *testing.T, c *rpcx.Client, method string, args any, want error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Call(method, args, new(Reply)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}()
	soon(t, method+" goes on", done)
}

// closeSoon closes clients, which must not wait.
func closeSoon(t *testing.T, clients ...io.Closer) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		closeAll(t, clients...)
	}()
	soon(t, "Close waits", done)
}

// TestSlowSelector: neither a call's timeout nor Close waits for a slow selector, and
// a connection that Select returns after Close is closed.
func TestSlowSelector(t *testing.T) {
	near, far := net.Pipe()
	chooses := choosesLate{make(chan struct{}), rpc.NewClient(near)}
	for _, s := range []rpcx.ClientSelector{connectsLate{chooses}, chooses} {
		bound, unbound := rpcx.NewClient(s), rpcx.NewClient(s)
		bound.Timeout = 50 * time.Millisecond
		fails(t, bound, "Arith.Mul", &Args{7, 8}, context.DeadlineExceeded)
		call := unbound.Go("Arith.Mul", &Args{7, 8}, new(Reply), nil)
		closeSoon(t, bound, unbound)
		if err := (<-call.Done).Error; !errors.Is(err, rpcx.ErrShutdown) {
			t.Errorf("%T: %v", s, err)
		}
	}
	close(chooses.leave)
	checkClosed(t, far)
}

// checkClosed checks that the other end of a connection is closed.
func checkClosed(t *testing.T, far net.Conn) {
	t.Helper()
	_ = far.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is not closed: %v", err)
	}
	_ = far.Close()
}

// TestSelectorReturnsBeforeClose: Close closes a connection that Select returned after its
// call had ended.
func TestSelectorReturnsBeforeClose(t *testing.T) {
	near, far := net.Pipe()
	s := choosesLate{make(chan struct{}), rpc.NewClient(near)}
	c := rpcx.NewClient(s)
	c.Timeout = 50 * time.Millisecond
	fails(t, c, "Arith.Mul", &Args{7, 8}, context.DeadlineExceeded)
	close(s.leave)
	closeSoon(t, c)
	checkClosed(t, far)
}

// TestSelectorPanics: a panic of a selector reaches the caller.
func TestSelectorPanics(t *testing.T) {
	c := rpcx.NewClient(panics{})
	defer closeAll(t, c)
	defer func() {
		if v := recover(); v != "no server" {
			t.Errorf("recovered %v", v)
		}
	}()
	_ = c.Call("Arith.Mul", &Args{7, 8}, new(Reply))
}

type panics struct{}

func (panics) Select(rpcx.ClientCodecFunc) (*rpc.Client, error) { panic("no server") }

// large is too large to be written to a connection that the peer does not read.
type large struct{ Data []byte }

// TestServerDoesNotRead: a server that does not read delays neither a call beyond its timeout
// nor Close, and the caller may change the arguments after the call.
func TestServerDoesNotRead(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
	}()
	for _, codec := range []rpcx.ClientCodecFunc{nil, jsonrpc.NewClientCodec} {
		var s rpcx.ClientSelector = own(ln.Addr().String())
		if codec != nil {
			s = direct(t, ln.Addr().String())
		}
		bound, unbound := rpcx.NewClient(s), rpcx.NewClient(s)
		bound.ClientCodecFunc, bound.Timeout = codec, 100*time.Millisecond
		unbound.ClientCodecFunc = codec
		args := &large{make([]byte, 6<<20)} // the kernel takes 4 MiB; more takes long to encode
		fails(t, bound, "Arith.Take", args, context.DeadlineExceeded)
		args.Data[0] = 1
		call := unbound.Go("Arith.Take", args, new(Reply), nil)
		time.Sleep(50 * time.Millisecond) // so that the request is being written; the test passes also if it is not
		closeSoon(t, bound, unbound)
		if err := (<-call.Done).Error; !errors.Is(err, rpcx.ErrShutdown) {
			t.Error(err)
		}
	}
	closeAll(t, ln)
	<-served
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// list is a reply with pointers to variables of its caller.
type list struct {
	C, D int
	N    *int
	Any  any
}

// TestReplyRefersToItsCallers: as with net/rpc, a response is decoded into the variables that
// the reply points to.
func TestReplyRefersToItsCallers(t *testing.T) {
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := json.NewDecoder(far).Decode(new(any)); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(far, `{"id":0,"result":{"C":56,"N":7,"Any":{"D":8}},"error":null}`)
	}()
	at := make(chan struct{})
	close(at)
	c := rpcx.NewClient(choosesLate{at, jsonrpc.NewClient(near)})
	c.Timeout = time.Minute
	n, inner := 1, new(list)
	reply := list{1, 2, &n, inner}
	if err := c.Call("T.M", 0, &reply); err != nil || reply.C != 56 || reply.D != 2 || n != 7 || reply.Any != any(inner) || inner.D != 8 {
		t.Errorf("%+v with %d and %+v, %v", reply, n, inner, err)
	}
	closeAll(t, c)
	<-served
	_ = far.Close()
}
