package machine

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// table is a table of methods.
type table map[string]*Method

func (t table) Lookup(name string, _ int) *Method { return t[name] }

func streaming() *Method { return &Method{Kind: tandem.Streaming} }

// rawSettings returns the settings of a side that knows the raw codec.
func rawSettings() wire.Settings {
	s := wire.DefaultSettings()
	s.Codecs = []string{"raw"}
	return s
}

// machineOf returns a machine with these settings, which serves the methods of a table.
func machineOf(own, peer wire.Settings, stall time.Duration, t table) *Machine {
	m := &Machine{Config: Config{Own: &own, Remote: &net.UnixAddr{Name: "server"}, Names: t, Stall: stall}}
	m.Init(&peer)
	return m
}

func newMachine(t table) *Machine {
	return machineOf(rawSettings(), rawSettings(), 10*time.Second, t)
}

// incoming returns an empty Incoming.
func incoming() *Incoming { return &Incoming{Request: new(Request)} }

// requestHead is the payload of a request without a message.
func requestHead(method string) []byte {
	return wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte(method)}})
}

// headers returns the headers of whole frames.
func headers(t *testing.T, b []byte) (list []wire.Header) {
	t.Helper()
	for len(b) > 0 {
		h, err := wire.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		list, b = append(list, h), b[wire.HeaderLen+h.Length:]
	}
	return list
}

// sealed returns a message that names its caller and call.
func sealed(caller, call uint32, size int) []byte {
	b := make([]byte, 12, 12+size)
	binary.LittleEndian.PutUint32(b[4:], caller)
	binary.LittleEndian.PutUint32(b[8:], call)
	for i := range size {
		b = append(b, byte(caller)+byte(i))
	}
	binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return b
}

func opened(b []byte) (caller, call uint32, ok bool) {
	if len(b) < 12 || binary.LittleEndian.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:]), true
}
