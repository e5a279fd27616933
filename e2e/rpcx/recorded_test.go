package rpcx

import (
	"bytes"
	"encoding/hex"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/smallnest/rpcx/client"
	"github.com/smallnest/rpcx/protocol"
	"github.com/smallnest/rpcx/share"
)

// recorder is a relay that records what the client sends.
type recorder struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.Write(p)
}

func (r *recorder) take() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := bytes.Clone(r.all.Bytes())
	r.all.Reset()
	return b
}

// relay connects one client with the server.
func (r *recorder) relay(t *testing.T, to string) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		in, err := ln.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		defer out.Close()
		wg.Go(func() {
			io.Copy(in, out)
			in.Close()
		})
		io.Copy(io.MultiWriter(r, out), in)
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// The golden vectors of package rpcx are the bytes that the real client sends.
func TestRecordedVectors(t *testing.T) {
	_, to := serve(t)
	r := new(recorder)
	c := client.NewClient(client.DefaultOption)
	if err := c.Connect("tcp", r.relay(t, to)); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := patience(t)
	text, err := os.ReadFile("../../protocol/rpcx/testdata/wire.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(text)) {
		if request, ok := strings.CutPrefix(strings.TrimSpace(line), "-> "); ok {
			want = append(want, strings.ReplaceAll(request, " ", ""))
		}
	}
	send := func(seq uint64, format protocol.SerializeType, method string, payload []byte, change func(*protocol.Message)) {
		m := protocol.NewMessage()
		m.SetSerializeType(format)
		m.SetSeq(seq)
		m.ServicePath, m.ServiceMethod, m.Payload = "Arith", method, payload
		if change != nil {
			change(m)
		}
		c.SendRaw(ctx, m)
	}
	encode := func(v any) []byte {
		b, err := share.Codecs[protocol.MsgPack].Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	json, err := share.Codecs[protocol.JSON].Encode(&Args{10, 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(ctx, "Arith", "Mul", &Args{10, 20}, &Reply{}); err != nil {
		t.Fatal(err)
	}
	got := [][]byte{r.take()}
	send(1, protocol.MsgPack, "Fail", encode(&Args{1, 2}), func(m *protocol.Message) { m.Metadata = map[string]string{"k": "v"} })
	got = append(got, r.take())
	send(2, protocol.MsgPack, "Mul", encode(&Args{10, 20}), func(m *protocol.Message) { m.SetOneway(true) })
	send(9, protocol.MsgPack, "Mul", encode(&Args{10, 20}), nil) // its response shows that both have arrived
	b := r.take()
	got = append(got, b[:len(want[2])/2])
	send(3, protocol.JSON, "Mul", json, nil)
	got = append(got, r.take())
	send(4, protocol.MsgPack, "", encode(int64(1)), func(m *protocol.Message) {
		m.ServicePath = ""
		m.SetHeartbeat(true)
	})
	got = append(got, r.take())
	for i, g := range got {
		if hex.EncodeToString(g) != want[i] {
			t.Errorf("vector %d: the client sends\n%x, want\n%s", i, g, want[i])
		}
	}
}
