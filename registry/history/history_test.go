package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

// documents keep texts in memory. between, if set, runs once before the next swap, as another
// writer would.
type documents struct {
	mu      sync.Mutex
	texts   map[string]string
	between func()
	failing map[string]error // errors of swaps, by key
}

func (d *documents) ReadDocument(_ context.Context, key string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return []byte(d.texts[key]), nil
}

func (d *documents) SwapDocument(_ context.Context, key string, old, text []byte) error {
	if f := d.between; f != nil {
		d.between = nil
		f()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.failing[key]; err != nil {
		return err
	}
	if d.texts[key] != string(old) {
		return registry.ErrChanged
	}
	d.texts[key] = string(text)
	return nil
}

func store() (*documents, Store) {
	d := &documents{texts: make(map[string]string), failing: make(map[string]error)}
	return d, Store{Documents: d, Key: "/policies/shop"}
}

func set(text string) func(Version, policy.Change) ([]byte, error) {
	return func(Version, policy.Change) ([]byte, error) { return []byte(text), nil }
}

func edit(t *testing.T, s Store, text string) Version {
	t.Helper()
	v, err := s.Edit(t.Context(), policy.Change{By: "ann", Why: "a test"}, set(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func texts(t *testing.T, s Store) string {
	t.Helper()
	kept, err := s.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, v := range kept {
		fmt.Fprintf(&b, "%d:%s ", v.Revision, v.Text)
	}
	return b.String()
}

func TestVersionsAreKept(t *testing.T) {
	_, s := store()
	edit(t, s, "a")
	edit(t, s, "b")
	if v := edit(t, s, ""); v.Revision != 3 || v.By != "ann" || v.At.IsZero() {
		t.Errorf("a deletion is %+v", v)
	}
	if now, err := s.Read(t.Context()); err != nil || now.Revision != 3 || now.Text != "" {
		t.Errorf("now is %+v, %v", now, err)
	}
	if got := texts(t, s); got != "1:a 2:b 3: " {
		t.Errorf("kept is %s", got)
	}
	v, err := s.Restore(t.Context(), 1, policy.Change{By: "bob"}, nil)
	if err != nil || v.Revision != 4 || v.Text != "a" {
		t.Errorf("restored is %+v, %v", v, err)
	}
	if now, err := s.Read(t.Context()); err != nil || now.Revision != 4 || now.By != "bob" {
		t.Errorf("now is %+v, %v: the latest of two versions with the same text counts", now, err)
	}
	if _, err := s.Restore(t.Context(), 9, policy.Change{By: "bob"}, nil); !errors.Is(err, ErrNoVersion) {
		t.Errorf("revision 9: %v", err)
	}
}

func TestEditNeedsAName(t *testing.T) {
	_, s := store()
	if _, err := s.Edit(t.Context(), policy.Change{Why: "no reason"}, set("a")); err == nil {
		t.Error("a change without an author is accepted")
	}
}

// An edit that another writer overtakes sees that writer's text.
func TestEditIsRepeated(t *testing.T) {
	d, s := store()
	edit(t, s, "a")
	d.between = func() { edit(t, s, "a, theirs") }
	v, err := s.Edit(t.Context(), policy.Change{By: "bob"}, func(now Version, _ policy.Change) ([]byte, error) { return []byte(now.Text + ", ours"), nil })
	if err != nil || v.Revision != 3 || v.Text != "a, theirs, ours" {
		t.Errorf("the edit made %+v, %v", v, err)
	}
	if got := texts(t, s); got != "1:a 2:a, theirs 3:a, theirs, ours " {
		t.Errorf("kept is %s", got)
	}
}

// A version whose writer ended before it was recorded keeps its number and its author.
func TestUnrecordedVersion(t *testing.T) {
	d, s := store()
	edit(t, s, `{"n": 1}`)
	d.failing[s.historyKey()] = errors.New("the connection is lost")
	v, err := s.Edit(t.Context(), policy.Change{By: "bob"}, func(_ Version, c policy.Change) ([]byte, error) {
		return json.Marshal(map[string]any{"n": 2, "change": c})
	})
	if err == nil || v.Revision != 2 {
		t.Errorf("a change that is not recorded: %+v, %v", v, err)
	}
	delete(d.failing, s.historyKey())
	if now, err := s.Read(t.Context()); err != nil || now.Revision != 2 || now.By != "bob" {
		t.Errorf("now is %+v, %v", now, err)
	}
	edit(t, s, `{"n": 3}`)
	kept, err := s.Versions(t.Context())
	if err != nil || len(kept) != 3 || kept[1].By != "bob" || kept[2].Revision != 3 {
		t.Errorf("kept is %+v, %v", kept, err)
	}
}

// A text that was written by other means gets a number of its own.
func TestWrittenByOtherMeans(t *testing.T) {
	d, s := store()
	edit(t, s, `{"n": 1}`)
	for _, text := range []string{"by hand", `{"n": 7, "change": {"revision": 1, "by": "a copy"}}`} {
		d.texts[s.Key] = text
		now, err := s.Read(t.Context())
		if err != nil || now.Text != text {
			t.Fatalf("now is %+v, %v", now, err)
		}
		if after := edit(t, s, text+"!"); after.Revision != now.Revision+1 {
			t.Errorf("%q: %d follows %d", text, after.Revision, now.Revision)
		}
	}
	if got := texts(t, s); !strings.Contains(got, "2:by hand 3:by hand! 4:") {
		t.Errorf("kept is %s", got)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	d, s := store()
	for i := range MaxVersions + 5 {
		edit(t, s, fmt.Sprint("v", i))
	}
	kept, err := s.Versions(t.Context())
	if err != nil || len(kept) != MaxVersions || kept[0].Revision != 6 {
		t.Errorf("%d kept, the first is %+v, %v", len(kept), kept[0], err)
	}
	edit(t, s, strings.Repeat("x", MaxKept/2))
	edit(t, s, strings.Repeat("y", MaxKept/2))
	edit(t, s, strings.Repeat("z", MaxKept))
	if n := len(d.texts[s.historyKey()]); n > MaxKept {
		t.Errorf("the history has %d bytes", n)
	}
	if now, err := s.Read(t.Context()); err != nil || now.Text[0] != 'z' {
		t.Errorf("a text that is not kept is %.20v, %v", now, err)
	}
	large := mustVersions(t, s)[0]
	if large.Revision != MaxVersions+8 || large.Text[0] != 'z' {
		t.Errorf("the large version in force is %.40v", large)
	}
	if small := edit(t, s, "small again"); small.Revision != large.Revision+1 {
		t.Errorf("after revision %d comes %d", large.Revision, small.Revision)
	}
	if v, err := s.Version(t.Context(), large.Revision); !errors.Is(err, ErrNoVersion) {
		t.Errorf("the large text is %.20v, %v", v, err)
	}
}

func mustVersions(t *testing.T, s Store) []Version {
	t.Helper()
	kept, err := s.Versions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func TestConcurrentEdits(t *testing.T) {
	_, s := store()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for {
				_, err := s.Edit(t.Context(), policy.Change{By: fmt.Sprint("writer ", i)}, func(now Version, _ policy.Change) ([]byte, error) { return []byte(now.Text + "x"), nil })
				if err == nil {
					return
				}
				if !errors.Is(err, registry.ErrChanged) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	now, err := s.Read(t.Context())
	if err != nil || now.Text != "xxxxxxxx" || now.Revision != 8 {
		t.Errorf("after eight edits: %+v, %v", now, err)
	}
	if kept := mustVersions(t, s); len(kept) != 8 {
		t.Errorf("kept are %+v", kept)
	}
}
