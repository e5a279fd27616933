//go:build linux

package scale

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/server"
)

// role is the environment variable with which a test binary becomes the process of the servers; it
// has the number of listeners.
const role = "TANDEM_SCALE_LISTENERS"

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv(role)); err == nil {
		if err := serve(n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// report is what the process of the servers tells: one line of JSON.
type report struct {
	Addresses   []string `json:"addresses,omitempty"`
	Connections int      `json:"connections"`
	RSS         float64  `json:"rss"` // KiB
}

// serve listens, tells the addresses, and reports at each line of the input until that ends.
func serve(n int) error {
	srv := server.New()
	if err := srv.RegisterFunc("Echo.Say", func(_ context.Context, text string) (string, error) { return text, nil }); err != nil {
		return err
	}
	var told report
	ended := make(chan error, n)
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		told.Addresses = append(told.Addresses, ln.Addr().String())
		go func() { ended <- srv.ServeListener(ln) }()
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(told); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		rss, err := rss()
		if err != nil {
			return err
		}
		if err := out.Encode(report{Connections: len(srv.Connections()), RSS: rss}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = srv.Shutdown(ctx) // its clients are going too
	for range n {
		<-ended
	}
	return nil
}

// rss returns the memory that the process has in KiB.
func rss() (float64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.ParseFloat(strings.Fields(value)[0], 64)
		}
	}
	return 0, io.ErrUnexpectedEOF
}

// usage is what a process uses.
type usage struct {
	rss         float64 // KiB
	cpu         time.Duration
	connections int
}

// kib returns how much more memory u is.
func (u usage) kib(before usage) float64 { return u.rss - before.rss }

func ownUsage(t *testing.T) usage {
	t.Helper()
	kib, err := rss()
	if err != nil {
		t.Fatal(err)
	}
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return usage{rss: kib, cpu: time.Duration(r.Utime.Nano() + r.Stime.Nano())}
}

// servers is the process with the listeners.
type servers struct {
	t         *testing.T
	addresses []string
	in        io.Writer
	out       *json.Decoder
}

func startServers(t *testing.T, n int) *servers {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), role+"="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // t.Context has ended, and with it the process
	})
	s := &servers{t: t, in: in, out: json.NewDecoder(out)}
	s.addresses = s.read().Addresses
	return s
}

func (s *servers) read() (r report) {
	s.t.Helper()
	if err := s.out.Decode(&r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// ask asks the process what it uses.
func (s *servers) ask() usage {
	s.t.Helper()
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		s.t.Fatal(err)
	}
	r := s.read()
	return usage{rss: r.RSS, connections: r.Connections}
}
