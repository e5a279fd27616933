package all_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

var spellings = flag.Int("spellings", 5_000, "how many spellings of a method's name TestSpellings tries on each protocol")

// A rule that denies a method holds for every spelling of its name: in HTTP paths, and in
// JSON-RPC names, where JSON allows escapes.
func TestSpellings(t *testing.T) {
	denied := func(any) error { return errors.New("not for you") }
	anyone := auth.Func(func(context.Context, *tandem.Call) (any, error) { return "guest", nil })
	srv := server.New(server.WithProtocols(withTriple()...), server.WithPlugins(auth.New(anyone, auth.Require("Admin.*", denied))))
	var dropped, read atomic.Int64
	check(srv.RegisterFunc("Admin.Drop", func(string) string { dropped.Add(1); return "dropped" }))
	check(srv.RegisterFunc("Book.Read", func(string) string { read.Add(1); return "read" }))
	check(srv.Alias("Root", "Admin"))
	mem := transport.NewMemory()
	ln, err := mem.Listen(t.Context(), "a")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	defer func() {
		check(srv.Close())
		<-served
	}()
	random := rand.New(rand.NewPCG(1, 2))
	paths := &speller{dial: func() net.Conn { c, err := mem.Dial(t.Context(), "a"); check(err); return c }}
	lines := &speller{dial: paths.dial}
	statuses := map[int]int{}
	for range *spellings {
		statuses[paths.post(spell(random, []string{"/Admin/Drop", "/Root/Drop", "/admin/drop", "/Book/Read"}[random.IntN(4)]))]++
		lines.call(spell(random, []string{"Admin.Drop", "Root.Drop", "Book.Read"}[random.IntN(3)]))
	}
	paths.close()
	lines.close()
	t.Logf("statuses of HTTP: %v; %d calls of the other method", statuses, read.Load())
	if dropped.Load() > 0 || statuses[http.StatusForbidden] == 0 || read.Load() == 0 {
		t.Errorf("%d calls passed the rule; statuses %v; %d calls of the other method", dropped.Load(), statuses, read.Load())
	}
}

// spell changes the spelling of a name: its bytes, their encoding, slashes and dots.
func spell(random *rand.Rand, name string) string {
	pieces := []string{"/", "//", "/./", "/../", "%2f", "%2F", "%5c", "\\", ".", "%2e", ";", "?", "#", "%00", "%20", "%c0%af", "%ef%bc%8f", "\u212a", "/Book/..", "Book.", ":", "%25", "+", "*"}
	for range random.IntN(4) {
		at := random.IntN(len(name) + 1)
		switch random.IntN(5) {
		case 0:
			name = name[:at] + pieces[random.IntN(len(pieces))] + name[at:]
		case 1:
			if at < len(name) {
				name = name[:at] + fmt.Sprintf("%%%02x", name[at]) + name[at+1:]
			}
		case 2:
			if at < len(name) {
				name = name[:at] + string(name[at]^0x20) + name[at+1:]
			}
		case 3:
			name = name[:at] + name[min(at+1, len(name)):]
		case 4:
			name = "http://localhost" + name
		}
	}
	return name
}

// speller sends requests on one connection, and opens another when the server has closed
// it.
type speller struct {
	dial func() net.Conn
	c    net.Conn
	r    *bufio.Reader
}

func (s *speller) ask(request string) {
	if s.c == nil {
		s.c = s.dial()
		s.r = bufio.NewReader(s.c)
	}
	_, _ = io.WriteString(s.c, request) // reading reports a closed connection
}

func (s *speller) close() {
	if s.c != nil {
		_ = s.c.Close()
		s.c = nil
	}
}

// post returns the status of the response, 0 for none.
func (s *speller) post(path string) int {
	s.ask("POST " + strings.NewReplacer(" ", "%20", "\n", "%0a").Replace(path) + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n\"x\"")
	res, err := http.ReadResponse(s.r, nil)
	if err != nil {
		s.close()
		return 0
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err = errors.Join(err, res.Body.Close()); res.Close || err != nil {
		s.close()
	}
	return res.StatusCode
}

// call makes a JSON-RPC request, sometimes with an escaped letter.
func (s *speller) call(method string) {
	name, err := json.Marshal(method)
	check(err)
	text := strings.Replace(string(name), "A", `\u0041`, len(method)%2)
	s.ask(`{"jsonrpc":"2.0","id":1,"method":` + text + `,"params":["x"]}`)
	if _, err := s.r.ReadString('\n'); err != nil {
		s.close()
	}
}
