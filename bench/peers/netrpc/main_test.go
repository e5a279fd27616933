package main

import (
	"encoding/binary"
	"errors"
	"net"
	"net/rpc"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/bench/message"
)

// Faulty is a service whose method fails.
type Faulty struct{}

// Say fails.
func (Faulty) Say(_, _ *message.BenchmarkMessage) error { return errors.New("not today") }

// connected returns a client of a server with both services.
func connected(t *testing.T) caller {
	t.Helper()
	srv := rpc.NewServer()
	if err := errors.Join(srv.Register(Hello{}), srv.Register(Faulty{})); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	go srv.ServeCodec(&serverCodec{newFraming(theirs)})
	c := caller{rpc.NewClientWithCodec(&clientCodec{newFraming(ours)})}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestCallsAfterEachOther(t *testing.T) {
	c := connected(t)
	for range 3 {
		reply := new(message.BenchmarkMessage)
		if err := c.Call(message.New(), reply); err != nil {
			t.Fatal(err)
		}
		if err := message.Check(reply); err != nil || reply.SizeVT() >= message.Size {
			t.Errorf("answer of %d bytes: %v", reply.SizeVT(), err)
		}
	}
}

func TestAnErrorCrossesAndHarmsNoOtherCall(t *testing.T) {
	c, reply := connected(t), new(message.BenchmarkMessage)
	err := c.Client.Call("Faulty.Say", message.New(), reply)
	if !errors.Is(err, rpc.ServerError("not today")) {
		t.Errorf("error %v, want the method's", err)
	}
	if err := c.Client.Call("No.Such", message.New(), reply); err == nil {
		t.Error("an unknown method answered")
	}
	if err := c.Call(message.New(), reply); err != nil {
		t.Errorf("the next call failed: %v", err)
	}
}

func TestALongLengthIsRefusedBeforeMemoryIsTaken(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		defer theirs.Close()
		_, _ = theirs.Write(binary.AppendUvarint([]byte{1}, 1<<40))
	}()
	_, _, err := newFraming(ours).readHead()
	if err == nil || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("error %v, want the limit in it", err)
	}
}
