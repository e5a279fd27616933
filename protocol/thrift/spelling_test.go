package thrift_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/plugin/authz"
	"github.com/tandem-rpc/tandem/server"
)

var spellings = flag.Int("spellings", 500, "how many spellings of a method's name TestSpellings tries; a million by make spellings")

// clerk counts its calls.
type clerk struct {
	office

	who, pings atomic.Int64
}

func (c *clerk) Who(context.Context) (string, error) {
	c.who.Add(1)
	return "", nil
}

func (c *clerk) Ping(context.Context) error {
	c.pings.Add(1)
	return nil
}

// A rule that denies a method holds for every spelling of its name: its handler never runs.
func TestSpellings(t *testing.T) {
	anyone := auth.Func(func(context.Context, *tandem.Call) (any, error) { return "guest", nil })
	rules, err := authz.Fixed(&authz.Rules{
		Allow: []authz.Rule{{Name: "all", Callers: []string{"*"}, Methods: []string{"*"}}},
		Deny:  []authz.Rule{{Name: "no names", Anyone: true, Methods: []string{"Desk.Who"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	service := &clerk{}
	address := serve(t, service, server.WithPlugins(auth.New(anyone), rules))
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"who", "Who", "who", "Desk:who", "Desk.who", "Desk.Who", "Desk:Desk:who", ":who", "Desk/Who", "ping", "Desk:ping"}
	var c net.Conn
	var r *bufio.Reader
	for range *spellings {
		if c == nil {
			if c, err = net.Dial("tcp", address); err != nil {
				t.Fatal(err)
			}
			r = bufio.NewReader(c)
		}
		if !exchange(c, r, spell(random, names[random.IntN(len(names))])) {
			_ = c.Close()
			c = nil
		}
	}
	if c != nil {
		_ = c.Close()
	}
	s := rules.Status()
	t.Logf("%d spellings: %d calls were denied, %d allowed, %d of the other method", *spellings, s.Denied, s.Allowed, service.pings.Load())
	if service.who.Load() > 0 || s.Denied == 0 || service.pings.Load() == 0 {
		t.Errorf("%d calls passed the rule; %d were denied; %d calls of the other method", service.who.Load(), s.Denied, service.pings.Load())
	}
}

// exchange makes a call without arguments in a frame of the strict binary protocol. It returns false if
// the server has closed the connection.
func exchange(c net.Conn, r *bufio.Reader, name string) bool {
	message := binary.BigEndian.AppendUint32(nil, 0x80010001)
	message = binary.BigEndian.AppendUint32(message, uint32(len(name)))
	message = append(append(message, name...), 0, 0, 0, 1, 0)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
		return false
	}
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return false
	}
	_, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(head[:])))
	return err == nil
}

// spell changes the spelling of a name.
func spell(random *rand.Rand, name string) string {
	pieces := strings.Split("/ : . _ __ \x00 \t %77 Desk. Desk: desk: ping \u00a0 \u0412 \uff57 \u200b \u0301 \xff new Args Result", " ")
	for range random.IntN(4) {
		at := random.IntN(len(name) + 1)
		switch random.IntN(4) {
		case 0:
			name = name[:at] + pieces[random.IntN(len(pieces))] + name[at:]
		case 1:
			if at < len(name) {
				name = name[:at] + string(name[at]^0x20) + name[at+1:]
			}
		case 2:
			name = name[:at] + name[min(at+1, len(name)):]
		case 3:
			name += " "
		}
	}
	return name
}
