package override

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/registry/adapter"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

// following is a Follower that runs, and what it did last.
type following struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error

	mu      sync.Mutex
	list    string
	applied string
}

// follow runs a Follower until the test, in a bubble, ends.
func follow(t *testing.T, m *registry.Memory, target registry.Target, file string) *following {
	t.Helper()
	documents, key, err := m.DocumentsOf(target)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &following{t: t, cancel: cancel, ended: make(chan error, 1)}
	follower := Follower{Documents: documents, Key: key, File: file, Applied: func(version string, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.applied = version; err != nil {
			f.applied = "refused"
		}
	}}
	keeper := new(adapter.Keeper)
	go func() {
		f.ended <- follower.Run(ctx, func(ctx context.Context, update func(adapter.View)) error {
			return keeper.Watch(ctx, m, target, update)
		}, f.update)
	}()
	return f
}

func (f *following) update(v adapter.View) {
	var words []string
	for _, in := range v.Instances {
		words = append(words, fmt.Sprint(in.ID, "=", in.Weight))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = strings.Join(words, " ") + fmt.Sprintf(" -%d", len(v.Withheld))
}

func (f *following) want(list string) {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.list != list {
		f.t.Errorf("the list is %q, want %q", f.list, list)
	}
}

func (f *following) end() {
	f.t.Helper()
	f.cancel()
	if err := <-f.ended; !errors.Is(err, context.Canceled) {
		f.t.Errorf("Run returned %v", err)
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, target, e := service(t, 2)
		ann := Request{By: "ann"}
		f := follow(t, m, target, "")
		f.want("i1=0 i2=0 -0")
		o, err := e.Set(t.Context(), ann, Override{Instance: "i1", State: Disabled, Until: time.Now().Add(time.Minute)})
		do(t, o, err)
		f.want("i2=0 -1")
		if f.applied == "" || f.applied == "refused" {
			t.Errorf("applied is %q", f.applied)
		}
		o, err = e.Set(t.Context(), ann, Override{Instance: "i2", Weight: 50, Ramp: policy.Duration(10 * time.Second)})
		do(t, o, err)
		f.want("i2=100 -1")
		time.Sleep(4500 * time.Millisecond)
		f.want("i2=80 -1")
		time.Sleep(10 * time.Second)
		f.want("i2=50 -1")
		time.Sleep(time.Minute)
		f.want("i1=0 i2=50 -0")
		m.PutDocument(e.Store.Key, []byte(`{"set": [{"instance": "i2"}]}`))
		f.want("i1=0 i2=50 -0")
		if f.applied != "refused" {
			t.Errorf("applied is %q", f.applied)
		}
		m.PutDocument(e.Store.Key, nil)
		f.want("i1=0 i2=0 -0")
		f.end()
	})
}

// A list that comes before the document waits for it, but not for long. With a file, a start
// without the registry's documents uses what was set last.
func TestFollowFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, target, e := service(t, 2)
		file := filepath.Join(t.TempDir(), "lists", "shop.overrides")
		o, err := e.Set(t.Context(), Request{By: "ann"}, Override{Instance: "i1", State: Disabled})
		do(t, o, err)
		f := follow(t, m, target, file)
		f.want("i2=0 -1")
		f.end()

		for _, test := range []struct{ file, want string }{{file, "i2=0 -1"}, {"", "i1=0 i2=0 -0"}} {
			silent := make(chan struct{})
			f := &following{t: t, ended: make(chan error, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			f.cancel = cancel
			follower := Follower{Documents: silentDocuments{m, silent}, Key: e.Store.Key, File: test.file}
			keeper := new(adapter.Keeper)
			go func() {
				f.ended <- follower.Run(ctx, func(ctx context.Context, update func(adapter.View)) error {
					return keeper.Watch(ctx, m, target, update)
				}, f.update)
			}()
			time.Sleep(firstWait - time.Millisecond)
			f.want("")
			time.Sleep(2 * time.Millisecond)
			f.want(test.want)
			close(silent)
			f.want("i2=0 -1")
			f.end()
		}
	})
}

// silentDocuments don't answer until a channel is closed.
type silentDocuments struct {
	*registry.Memory

	silent <-chan struct{}
}

func (d silentDocuments) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	select {
	case <-d.silent:
	case <-ctx.Done():
		return ctx.Err()
	}
	return d.Memory.WatchDocument(ctx, key, update)
}

// A list that is old, as its registry does not answer, does not wait for the document.
func TestFollowStaleList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, target, _ := service(t, 2)
		lists := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		keeper := &adapter.Keeper{Dir: lists}
		saved := make(chan error, 1)
		go func() { saved <- keeper.Watch(ctx, m, target, func(adapter.View) {}) }()
		synctest.Wait()
		cancel()
		<-saved
		m.Fail(errors.New("the registry is down"))
		f := &following{t: t, ended: make(chan error, 1)}
		ctx, f.cancel = context.WithCancel(t.Context())
		follower := Follower{Documents: silentDocuments{m, make(chan struct{})}, Key: "k"}
		late := &adapter.Keeper{Dir: lists}
		go func() {
			f.ended <- follower.Run(ctx, func(ctx context.Context, update func(adapter.View)) error { return late.Watch(ctx, m, target, update) }, f.update)
		}()
		f.want("i1=0 i2=0 -0")
		m.Fail(nil)
		f.end()
	})
}

// While documents can't be read, what was set last stays; the list goes on.
func TestFollowOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, target, e := service(t, 2)
		o, err := e.Set(t.Context(), Request{By: "ann"}, Override{Instance: "i1", State: Disabled})
		do(t, o, err)
		f := follow(t, m, target, "")
		f.want("i2=0 -1")
		m.Fail(errors.New("the registry is down"))
		time.Sleep(time.Minute)
		f.want("i2=0 -1")
		m.Fail(nil)
		r, err := m.Register(t.Context(), tandem.Instance{ID: "i3", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "i3:1"}}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		f.want("i2=0 i3=0 -1")
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		f.end()
	})
}
