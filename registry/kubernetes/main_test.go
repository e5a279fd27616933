package kubernetes

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// asPod is the environment variable that makes the test program a pod; see pods_test.go.
const asPod = "TANDEM_TEST_POD"

func TestMain(m *testing.M) {
	if os.Getenv(asPod) != "" {
		podMain()
		return
	}
	goleak.VerifyTestMain(m)
}

// mustParse parses a valid target.
func mustParse(t testing.TB, s string) registry.Target {
	t.Helper()
	target, err := registry.ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// watcher collects the snapshots of one watch.
type watcher struct {
	t         testing.TB
	snapshots chan registry.Snapshot
	failures  int // snapshots with an error that await has seen
}

// watchList runs a watch until the test ends.
func watchList(t testing.TB, r registry.Resolver, target string) *watcher {
	t.Helper()
	w := &watcher{t: t, snapshots: make(chan registry.Snapshot, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := r.Watch(ctx, mustParse(t, target), func(s registry.Snapshot) { w.snapshots <- s }); !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

// await returns the next snapshot for which ok is true.
func (w *watcher) await(what string, ok func(registry.Snapshot) bool) registry.Snapshot {
	w.t.Helper()
	limit := time.After(20 * time.Second)
	var last registry.Snapshot
	for {
		select {
		case last = <-w.snapshots:
			if last.Err != nil {
				w.failures++
			}
			if ok(last) {
				return last
			}
		case <-limit:
			w.t.Fatalf("no snapshot with %s; the last one has %q, error %v", what, ids(last.Instances), last.Err)
		}
	}
}

// sees waits for a list of these IDs.
func (w *watcher) sees(want ...string) registry.Snapshot {
	w.t.Helper()
	text := strings.Join(want, " ")
	return w.await("the list "+text, func(s registry.Snapshot) bool { return s.Err == nil && ids(s.Instances) == text })
}

// fails waits for an error that contains a text.
func (w *watcher) fails(text string) {
	w.t.Helper()
	w.await("the error "+text, func(s registry.Snapshot) bool { return s.Err != nil && strings.Contains(s.Err.Error(), text) })
}

// ids returns the IDs in order, separated by spaces.
func ids(list []tandem.Instance) string {
	var s []string
	for _, in := range list {
		s = append(s, in.ID)
	}
	slices.Sort(s)
	return strings.Join(s, " ")
}
