//go:build linux

package all_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/compress/snappy"
	"github.com/tandem-rpc/tandem/compress/zstd"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

// Bombs are messages that are small on the wire and as large as may be in memory: 1,024 of
// them at the same time on one connection, of each protocol, must not take a server more
// than 512 MiB, nor harm honest calls beside them.
const (
	bombs    = 1024
	bombSize = 4<<20 - 16
	mostRSS  = 512 << 20
	mostSent = 128 << 20 // of bombs that are large on the wire, too
)

// An attack sends the bombs to a server, and waits for the answers.
type attack struct {
	name string
	send func(t *testing.T, address string)
}

func attacks(t *testing.T) []attack {
	text := append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, bombSize)...), '"')
	gzipped, err := compress.Gzip().Compress(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	list := "[" + strings.Repeat("{},", 1<<20-1) + "{}]" // 3 MiB, and many times that when decoded
	rows := []attack{
		{"gRPC", overHTTP2("application/grpc+json", "", envelope(gzipped))},
		{"Connect", overHTTP2("application/json", "gzip", gzipped)},
		{"rpcx", overTCP(rpcxFrame("Len", gzipped))},
		{"JSON-RPC", overTCP([]byte(`{"jsonrpc":"2.0","id":1,"method":"Text.Items","params":[` + list + `]}` + "\n"))},
		{"JSON lists", overHTTP2Method("Items", "application/json", "", []byte(list))},
	}
	for _, c := range []tandem.Compressor{compress.Gzip(), compress.Deflate(), snappy.Compressor(), zstd.Compressor()} {
		packed, err := c.Compress(nil, make([]byte, bombSize))
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, attack{"native " + c.Name(), native(packedAs{c, packed})})
	}
	return rows
}

func TestBombsAreBounded(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("it takes long, and measures the memory of a process")
	}
	for _, a := range attacks(t) {
		for _, open := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, let in %v", a.name, open), func(t *testing.T) { bombard(t, a, open) })
		}
	}
}

// bombard attacks a process of its own that serves everybody, or nobody but honest callers.
func bombard(t *testing.T, a attack, open bool) {
	p := startServer(t, open)
	stop := honest(t, p.address)
	before := p.heap()
	began := time.Now()
	a.send(t, p.address)
	took := time.Since(began)
	stop()
	deadline := time.Now().Add(10 * time.Second)
	after := p.heap()
	for after > before+4<<20 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond) // until the connections have ended
		after = p.heap()
	}
	peak := p.peak()
	t.Logf("%d MiB at peak, heap %d KiB before and %d KiB after, %v", peak>>20, before>>10, after>>10, took.Round(time.Millisecond))
	if peak > mostRSS {
		t.Errorf("%d MiB at peak", peak>>20)
	}
	if after > before+4<<20 {
		t.Errorf("heap %d KiB before, %d KiB after", before>>10, after>>10)
	}
}

// packedAs is a compressor that has always compressed the same.
type packedAs struct {
	tandem.Compressor

	packed []byte
}

func (p packedAs) Compress(dst, _ []byte) ([]byte, error) { return append(dst, p.packed...), nil }

func native(c packedAs) func(*testing.T, string) {
	return func(t *testing.T, address string) {
		cl, err := client.Dial("tcp://"+address, client.WithCodec(codec.Raw()), client.WithCompressor(c), client.WithCompressAbove(1),
			client.WithRetryBudget(0, 0), client.WithTimeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		message := make([]byte, 1<<20) // of which only what it was compressed to is sent
		concurrently(bombs, func() { _, _ = client.Invoke[[]byte](context.Background(), cl, "Bytes.Len", &message) })
	}
}

// concurrently runs f n times.
func concurrently(n int, f func()) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(f)
	}
	wg.Wait()
}

func envelope(packed []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(packed))), packed...)
}

func overHTTP2(kind, encoding string, body []byte) func(*testing.T, string) {
	return overHTTP2Method("Len", kind, encoding, body)
}

func overHTTP2Method(method, kind, encoding string, body []byte) func(*testing.T, string) {
	return func(t *testing.T, address string) {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		tr := &http.Transport{Protocols: protocols, MaxConnsPerHost: 1}
		defer tr.CloseIdleConnections()
		concurrently(min(bombs, 1+mostSent/len(body)), func() {
			req, err := http.NewRequest(http.MethodPost, "http://"+address+"/Text/"+method, bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", kind)
			req.Header.Set("TE", "trailers")
			req.Header.Set("Grpc-Encoding", "gzip")
			if encoding != "" {
				req.Header.Set("Content-Encoding", encoding)
			}
			res, err := tr.RoundTrip(req)
			if err != nil {
				return // an attacker may be cut off
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		})
	}
}

// rpcxFrame is a request with a payload in JSON that gzip has compressed.
func rpcxFrame(method string, payload []byte) []byte {
	const gzipped, json = 1 << 2, 1 << 4
	b := append([]byte{8, 0, gzipped, json}, make([]byte, 12)...)
	for _, part := range [][]byte{[]byte("Text"), []byte(method), nil, payload} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	binary.BigEndian.PutUint32(b[12:], uint32(len(b)-16))
	return b
}

// overTCP sends the same bytes again and again on one connection, and reads until there is
// nothing more for a second.
func overTCP(frame []byte) func(*testing.T, string) {
	return func(t *testing.T, address string) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		read := make(chan struct{})
		var got atomic.Int64
		go func() {
			defer close(read)
			b := make([]byte, 64<<10)
			for {
				n, err := c.Read(b)
				got.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
		for range min(bombs, 1+mostSent/len(frame)) {
			if _, err := c.Write(frame); err != nil {
				break // cut off
			}
		}
		for last := int64(-1); last != got.Load(); {
			last = got.Load()
			time.Sleep(time.Second) // that nothing more comes can't be seen otherwise
		}
		_ = c.Close()
		<-read
	}
}

// honest makes native and HTTP calls until it is stopped, none of which may fail.
func honest(t *testing.T, address string) (stop func()) {
	own := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			call.SetMetadata("honest", "yes")
			return next(ctx, call)
		}
	}
	c, err := client.Dial("tcp://"+address, client.WithTimeout(30*time.Second), client.WithInterceptors(own))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var made [2]int
	wg.Go(func() {
		for ctx.Err() == nil {
			if n, err := client.Invoke[int](context.Background(), c, "Text.Len", "tandem"); err != nil || *n != 6 {
				t.Errorf("an honest native call: %v", err)
				return
			}
			made[0]++
			time.Sleep(5 * time.Millisecond) // that many calls are enough
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := postLen(address); err != nil {
				t.Errorf("an honest HTTP call: %v", err)
				return
			}
			made[1]++
			time.Sleep(5 * time.Millisecond) // as above
		}
	})
	return func() {
		cancel()
		wg.Wait()
		_ = c.Close()
		http.DefaultClient.CloseIdleConnections()
		if made[0] == 0 || made[1] == 0 {
			t.Errorf("honest calls: %d", made)
		}
	}
}

func postLen(address string) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+address+"/Text/Len", strings.NewReader(`"tandem"`))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Honest", "yes")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || string(bytes.TrimSpace(b)) != "6" {
		return fmt.Errorf("%s: %q %w", res.Status, b, err)
	}
	return nil
}

// process is a server in a process of its own.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.Writer
	out     *bufio.Scanner
	address string
}

const serveEnv = "TANDEM_TEST_SERVE"

func startServer(t *testing.T, open bool) *process {
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeForBombs$")
	cmd.Env = append(os.Environ(), serveEnv+"="+map[bool]string{true: "open", false: "shut"}[open])
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	p := &process{t, cmd, in, bufio.NewScanner(out), ""}
	p.address = p.next()
	return p
}

func (p *process) next() string {
	if !p.out.Scan() {
		p.t.Fatal("the server's process has ended")
	}
	return p.out.Text()
}

// heap returns the live heap after two collections.
func (p *process) heap() (bytes uint64) {
	if _, err := fmt.Fprintln(p.in); err != nil {
		p.t.Fatal(err)
	}
	if _, err := fmt.Sscan(p.next(), &bytes); err != nil {
		p.t.Fatal(err)
	}
	return bytes
}

// peak returns the most memory that was resident.
func (p *process) peak() (bytes uint64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(after, &bytes); err != nil {
		p.t.Fatal(err)
	}
	return bytes << 10
}

// item is 64 bytes for two of JSON.
type item struct{ A, B, C, D, E, F, G, H int }

// TestServeForBombs is no test, but what startServer runs.
func TestServeForBombs(t *testing.T) {
	if os.Getenv(serveEnv) == "" {
		return // only startServer's process serves
	}
	admit := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if os.Getenv(serveEnv) != "open" && call.Metadata.Get("honest") == "" {
				return tandem.Errorf(tandem.Unauthenticated, "who are you?")
			}
			return next(ctx, call)
		}
	}
	srv := server.New(server.WithProtocols(all.New()...), server.WithInterceptors(admit),
		server.WithCodecs(codec.Raw()), server.WithCompressors(snappy.Compressor(), zstd.Compressor()))
	hold := func() { time.Sleep(20 * time.Millisecond) } // as a handler that works with it
	check(server.Handle(srv, "Text.Len", func(_ context.Context, s *string) (*int, error) {
		if len(*s) > 100 {
			hold()
		}
		return new(len(*s)), nil
	}))
	check(server.Handle(srv, "Text.Items", func(_ context.Context, list *[]item) (*int, error) {
		hold()
		return new(len(*list)), nil
	}))
	check(server.Handle(srv, "Bytes.Len", func(_ context.Context, b *[]byte) (*[]byte, error) {
		hold()
		return &[]byte{byte(len(*b))}, nil
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	fmt.Println(ln.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println(m.HeapAlloc)
	}
	_ = srv.Close()
	<-served
}
