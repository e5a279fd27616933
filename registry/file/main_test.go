package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// childEnv makes the test binary a server that registers and waits: its value
// is "dir id".
const childEnv = "TANDEM_FILE_TEST_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		os.Exit(child(job))
	}
	if job := os.Getenv(writerEnv); job != "" {
		if err := childWriter(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// writerEnv makes the test binary a writer of the document /d, which adds marks to it: its
// value is "dir name marks".
const writerEnv = "TANDEM_FILE_TEST_WRITER"

func childWriter(job string) error {
	var dir, writer string
	var marks int
	if _, err := fmt.Sscan(job, &dir, &writer, &marks); err != nil {
		return err
	}
	r, ctx := New(dir), context.Background()
	for n := 0; n < marks; {
		text, err := r.ReadDocument(ctx, "/d")
		if err == nil {
			err = r.SwapDocument(ctx, "/d", text, append(text, fmt.Sprintf("%s.%d ", writer, n)...))
		}
		switch {
		case err == nil:
			n++
		case !errors.Is(err, registry.ErrChanged):
			return err
		}
	}
	return nil
}

// child registers, prints the result, and runs until its standard input ends.
func child(job string) int {
	dir, id, _ := strings.Cut(job, " ")
	entry, err := New(dir).Register(context.Background(), instance(id))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("registered")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := entry.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func instance(id string) tandem.Instance {
	return tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}}}
}

// register lists an instance until the test ends.
func register(t *testing.T, r *Registry, in tandem.Instance) registry.Registration {
	t.Helper()
	entry, err := r.Register(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { entry.Close() })
	return entry
}

// eye watches a directory for a test.
type eye struct {
	t     *testing.T
	snaps chan registry.Snapshot
}

func watchDir(t *testing.T, r *Registry) *eye {
	e := &eye{t, make(chan registry.Snapshot, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Watch(ctx, registry.Target{}, func(s registry.Snapshot) { e.snaps <- s }); !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return e
}

// sees waits for a list of exactly these IDs, and returns how long it took.
func (e *eye) sees(ids ...string) time.Duration {
	e.t.Helper()
	return e.until(fmt.Sprint("the list ", ids), func(s registry.Snapshot) bool {
		return s.Err == nil && slices.Equal(names(s.Instances), ids)
	})
}

func (e *eye) until(what string, ok func(registry.Snapshot) bool) time.Duration {
	e.t.Helper()
	start := time.Now()
	timeout := time.After(10 * time.Second)
	var last registry.Snapshot
	for {
		select {
		case last = <-e.snaps:
			if ok(last) {
				return time.Since(start)
			}
		case <-timeout:
			e.t.Fatalf("waited in vain for %s; the last snapshot: %v, %v", what, names(last.Instances), last.Err)
		}
	}
}

// names returns the IDs in order, nil for none.
func names(list []tandem.Instance) []string {
	var ids []string
	for _, in := range list {
		ids = append(ids, in.ID)
	}
	slices.Sort(ids)
	return ids
}

// lines is a log that tests may read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// files returns what is in a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// put writes a file into a directory.
func put(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
