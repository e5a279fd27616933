package seeds

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a program may take to start, also on a busy machine.
const patience = time.Minute

// binary returns the name of a program's file.
func binary(folder string) string { return strings.ReplaceAll(filepath.ToSlash(folder), "/", "-") }

// lockedBuffer collects the output of a process. It is safe for concurrent use.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start starts a server program, waits until it listens, and kills it when the test ends.
func start(t *testing.T, program string, addresses ...string) *lockedBuffer {
	t.Helper()
	said := new(lockedBuffer)
	cmd := exec.Command(filepath.Join(os.Getenv(apart), binary(program)))
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for _, address := range addresses {
		awaitListener(t, address, func() {
			select {
			case err := <-ended:
				ended <- err
				t.Fatalf("%s ended: %v\n%s", program, err, said)
			default:
			}
		})
	}
	return said
}

func awaitListener(t *testing.T, address string, check func()) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) { // another process is starting
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			return
		}
		if check(); time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// run runs a program to its end and returns what it prints.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv(apart), binary(program)), args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s%s", program, err, out, errs.String())
	}
	return string(out)
}

func TestDirect(t *testing.T) {
	start(t, "direct/server", "127.0.0.1:8972")
	for _, program := range []string{"direct/client", "direct/async"} {
		if got := run(t, program); got != "Arith: 7*8=56 \n" {
			t.Errorf("%s: %q", program, got)
		}
	}
}

func TestTwoServers(t *testing.T) {
	start(t, "servers/server", "127.0.0.1:8972", "127.0.0.1:8973")
	const one, two = "Arith: 7*8=56 ", "Arith: 7*8=560 "
	for program, check := range map[string]func(ones, twos int) bool{
		"servers/random":     func(ones, twos int) bool { return ones+twos == 10 },
		"servers/roundrobin": func(ones, twos int) bool { return ones == 5 && twos == 5 },
		"servers/failover":   func(ones, twos int) bool { return ones+twos == 10 },
	} {
		got := run(t, program)
		lines := slices.Collect(strings.Lines(got))
		ones, twos := 0, 0
		for _, line := range lines {
			switch line {
			case one + "\n":
				ones++
			case two + "\n":
				twos++
			}
		}
		if len(lines) != 10 || !check(ones, twos) {
			t.Errorf("%s: %q", program, got)
		}
	}
}

func TestAuth(t *testing.T) {
	said := start(t, "auth/server", "127.0.0.1:8972")
	if got := run(t, "auth/client"); got != "error for Arith: 7*8, Authorization failed  \n" {
		t.Errorf("the wrong token: %q", got)
	}
	if got := run(t, "auth/rightclient"); got != "Arith: 7*8=56 \n" {
		t.Errorf("the right token: %q", got)
	}
	const want = "error: wrong Authorization: 0b79bab50daca910b000d4f1a2b675d604257e42_ABC, Bearer\nAuthorization success\n"
	if said.String() != want {
		t.Errorf("the server: %q", said)
	}
}

func TestPosts(t *testing.T) {
	start(t, "posts/server", "127.0.0.1:8972")
	const want = `Posts: [
	{
		"id": "57da0c5e2d3f1c0a1b2c3d4e",
		"ptype": "golang",
		"title": "Go 1.7",
		"url": "https://blog.golang.org/go1.7",
		"domain": "blog.golang.org",
		"surl": "",
		"desc": "",
		"like": 17,
		"imgurl": "",
		"tags": "",
		"ts": "2016-09-15T08:00:00Z"
	}
] 
`
	if got := run(t, "posts/client"); got != want {
		t.Errorf("%s", got)
	}
}

func TestNetRPC(t *testing.T) {
	said := start(t, "netrpc/server", "127.0.0.1:4200")
	if got := run(t, "netrpc/client", "-connections=3", "-concurrency=5", "-requests=50"); got != "750 of 750 right\n" {
		t.Errorf("%q", got)
	}
	for _, want := range []string{"Listen tcp on port 4200", "Ready to accept connection...", "Receive Client Connection 4"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the server has not said %q: %s", want, said)
		}
	}
}
