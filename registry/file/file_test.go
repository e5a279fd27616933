package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

const quick = 10 * time.Millisecond // poll of tests that don't test the default

func TestRegisterMakesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "some", "where")
	r := New(dir, WithPoll(quick))
	e := watchDir(t, r)
	e.until("the directory's absence", func(s registry.Snapshot) bool { return errors.Is(s.Err, fs.ErrNotExist) })
	entry := register(t, r, instance("a"))
	e.sees("a")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	entry.Close()
	if err := entry.Update(context.Background(), instance("a")); !errors.Is(err, errClosed) {
		t.Errorf("update after close: %v", err)
	}
	e.sees()
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Events report a change long before the next poll.
func TestEventsAreFasterThanPolling(t *testing.T) {
	r := New(t.TempDir(), WithPoll(time.Hour))
	e := watchDir(t, r)
	e.sees()
	entry := register(t, r, instance("a"))
	e.sees("a")
	in := instance("a")
	in.Weight = 7
	if err := entry.Update(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	e.until("the update", func(s registry.Snapshot) bool { return len(s.Instances) == 1 && s.Instances[0].Weight == 7 })
	entry.Close()
	e.sees()
}

// A registration restores files that were removed or changed.
func TestRegistrationRestoresItsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "reg")
	var log lines
	r := New(dir, WithPoll(quick), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	register(t, r, instance("a"))
	name := filepath.Join(dir, "a")
	want, err := os.ReadFile(name + jsonExt)
	if err != nil {
		t.Fatal(err)
	}
	for what, harm := range map[string]func() error{
		"the data is removed":      func() error { return os.Remove(name + jsonExt) },
		"the lock is removed":      func() error { return os.Remove(name + lockExt) },
		"the directory is removed": func() error { return removeAll(dir) },
		"the data is overwritten":  func() error { return os.WriteFile(name+jsonExt, []byte("{}"), 0o644) },
		"a file is in the directory's place": func() error {
			return errors.Join(replaceDirectory(dir),
				await(func() bool { return strings.Contains(log.String(), "registration lost") }),
				os.Remove(dir), os.RemoveAll(dir+".old"))
		},
	} {
		if err := harm(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := await(func() bool {
			alive, err := held(name + lockExt)
			data, _ := os.ReadFile(name + jsonExt)
			return alive && err == nil && string(data) == string(want)
		}); err != nil {
			t.Errorf("%s: not restored; there is %v", what, files(t, dir))
		}
	}
	if err := await(func() bool {
		return strings.Contains(log.String(), `level=INFO msg="file registry: registration restored" instance=a`)
	}); err != nil {
		t.Errorf("log:\n%s", &log)
	}
}

// removeAll removes a directory in which a registration may make files meanwhile.
func removeAll(dir string) error {
	return await(func() bool { return os.RemoveAll(dir) == nil })
}

// replaceDirectory renames a directory, and puts a file in its place before a registration
// makes it again.
func replaceDirectory(dir string) error {
	return await(func() bool {
		return os.RemoveAll(dir+".old") == nil && os.Rename(dir, dir+".old") == nil && os.WriteFile(dir, nil, 0o644) == nil
	})
}

// await polls until ok returns true, for at most 10 s.
func await(ok func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-timeout:
			return errors.New("waited in vain")
		}
	}
	return nil
}

// A file that is overwritten while heal writes it is restored by the next heal.
func TestHealNoticesAChangeOfWhatItWrites(t *testing.T) {
	o := &owner{name: filepath.Join(t.TempDir(), "a"), data: []byte("the instance")}
	if err := o.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer o.end()
	file := o.name + jsonExt
	for range 300 {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for !overwrite(file) { // until heal has renamed it
			}
		})
		err := o.heal()
		wg.Wait()
		if err = errors.Join(err, o.heal()); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(file); string(data) != "the instance" {
			t.Fatalf("the file has %q, %v", data, err)
		}
	}
}

// overwrite changes a file, and reports whether it exists.
func overwrite(name string) bool {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return false
	}
	_, err = f.WriteString("{}")
	return errors.Join(err, f.Close()) == nil
}

// A registration whose lock file was removed does not take the ID back from its new owner.
func TestHealDoesNotTakeAnIDBack(t *testing.T) {
	dir := t.TempDir()
	first := &owner{name: filepath.Join(dir, "a"), data: []byte("first")}
	second := &owner{name: filepath.Join(dir, "a"), data: []byte("second")}
	if err := first.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a.lock")); err != nil {
		t.Fatal(err)
	}
	if err := second.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.heal(); !errors.Is(err, errTaken) {
		t.Errorf("heal: %v", err)
	}
	if err := first.update([]byte("third")); err == nil || !strings.Contains(err.Error(), "not yet restored") {
		t.Errorf("update: %v", err)
	}
	first.end()
	if data, err := os.ReadFile(filepath.Join(dir, "a.json")); string(data) != "second" {
		t.Errorf("the other's file: %q, %v", data, err)
	}
	if err := second.heal(); err != nil {
		t.Errorf("the other's heal: %v", err)
	}
	second.end()
}

// heal closes the lost lock file after it has taken a new lock.
func TestHealClosesTheLostLock(t *testing.T) {
	o := &owner{name: filepath.Join(t.TempDir(), "a"), data: []byte("data")}
	if err := o.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer o.end()
	old := o.claim.lock
	if err := errors.Join(os.Remove(old.Name()), o.heal()); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the old lock: %v", err)
	}
	if alive, err := held(o.name + lockExt); !alive || err != nil {
		t.Errorf("held %v, %v", alive, err)
	}
}

// A file that was written just before it was read is read again, because a later
// version may have the same modification time.
func TestRecentlyWrittenFileIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.json", "")
	path, at := filepath.Join(dir, "a.json"), time.Now()
	for age, want := range map[time.Duration]bool{0: false, settled - 1: false, settled: true, time.Hour: true} {
		if err := os.Chtimes(path, at, at.Add(-age)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := (reading{info: info, at: at}).covers(info); got != want {
			t.Errorf("read at an age of %v: covers %v", age, got)
		}
	}
	if (reading{}).covers(nil) {
		t.Error("a reading without file info covers a file")
	}
}

// Bad files are logged once each, and the other instances are listed.
func TestBadFilesAreSkipped(t *testing.T) {
	dir := t.TempDir()
	var log lines
	r := New(dir, WithPoll(quick), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	bad := map[string]string{
		"corrupt":   `{"id": "corrupt", `,
		"empty":     "",
		"invalid":   `{"id": "invalid"}`,
		"misplaced": `{"id": "other", "endpoints": [{"transport": "tcp", "address": "a:1"}]}`,
		"huge":      strings.Repeat(" ", maxFile+2),
		"array":     "[]",
	}
	for name, text := range bad {
		c, err := acquire(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer c.remove()
		put(t, dir, name+jsonExt, text)
	}
	if err := os.MkdirAll(filepath.Join(dir, "dir.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "dir.lock", "")
	register(t, r, instance("good"))
	e := watchDir(t, r)
	e.sees("good")
	register(t, r, instance("later"))
	e.sees("good", "later")
	for name := range bad {
		if n := strings.Count(log.String(), name+jsonExt); n != 1 {
			t.Errorf("%d lines about %s:\n%s", n, name, &log)
		}
	}
	if strings.Contains(log.String(), "dir.json") {
		t.Errorf("log:\n%s", &log)
	}
}

// A directory with more files than the limit is read up to the limit, with one line in the log.
func TestTooManyFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		put(t, dir, fmt.Sprint(i), "")
	}
	var log lines
	l := newLooker(dir, slog.New(slog.NewTextHandler(&log, nil)))
	l.limit = 10
	for range 2 {
		if list, err := l.look(); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}
	}
	if n := strings.Count(log.String(), "too many files"); n != 1 {
		t.Errorf("%d log lines", n)
	}
}

// A shortage of resources of this process is an error, not an empty list.
func TestTransient(t *testing.T) {
	for err, want := range map[error]bool{
		&fs.PathError{Op: "open", Path: "a.json", Err: errors.New("too many open files")}: true,
		&fs.PathError{Op: "open", Path: "a.json", Err: fs.ErrPermission}:                  false,
		errTooLarge: false,
	} {
		if got := transient(err); got != want {
			t.Errorf("transient(%v) = %v", err, got)
		}
	}
}

// Registrations, removals of stale files and closes race for the same few names: a
// name never has two owners, and an owner's files are never removed by another.
func TestClaimsExclude(t *testing.T) {
	dir := t.TempDir()
	var owners [3]atomic.Int32
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 200 {
				n := (worker + i) % len(owners)
				name := filepath.Join(dir, fmt.Sprint("n", n))
				if worker%4 == 0 {
					if c, err := take(name); err == nil {
						c.remove()
					}
					continue
				}
				c, err := acquire(name)
				if err != nil {
					continue
				}
				if owners[n].Add(1) != 1 {
					t.Errorf("two own %s", name)
				}
				if !c.current() {
					t.Errorf("%s was removed under its owner", name)
				}
				owners[n].Add(-1)
				if i%2 == 0 {
					c.remove()
				} else {
					c.lock.Close() // as if killed
				}
			}
		})
	}
	wg.Wait()
}

func TestRegisterRefuses(t *testing.T) {
	big := instance("big")
	for i := range 100 {
		if big.Tags == nil {
			big.Tags = map[string]string{}
		}
		big.Tags[fmt.Sprint(i)] = strings.Repeat("x", 1000)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	put(t, filepath.Dir(blocked), "file", "")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		ctx    context.Context
		dir    string
		in     tandem.Instance
		reason string
	}{
		{t.Context(), t.TempDir(), tandem.Instance{}, "no id"},
		{t.Context(), t.TempDir(), instance("\xff"), "not UTF-8"},
		{t.Context(), t.TempDir(), big, "limit 65536"},
		{t.Context(), "", instance("a"), "no directory to register in"},
		{t.Context(), blocked, instance("a"), "making the directory"},
		{ended, t.TempDir(), instance("a"), "canceled"},
	} {
		if _, err := New(tc.dir).Register(tc.ctx, tc.in); err == nil || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%v, want %q", err, tc.reason)
		}
	}
}

func TestTargets(t *testing.T) {
	for target, want := range map[string]string{
		"file:///run/arith": "/run/arith",
		"file://run/arith":  "run/arith",
	} {
		parsed, err := registry.ParseTarget(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := Resolver().(registry.Checker).Check(parsed); err != nil {
			t.Error(err)
		}
		if got, err := New("/other").dirOf(parsed); err != nil || filepath.ToSlash(got) != want {
			t.Errorf("%s: %q, %v", target, got, err)
		}
		parsed.Query = map[string][]string{"x": {"y"}}
		if err := Resolver().Watch(t.Context(), parsed, nil); err == nil || !strings.Contains(err.Error(), `unknown option "x"`) {
			t.Errorf("%v", err)
		}
	}
	if got, err := New("/own").dirOf(registry.Target{}); err != nil || got != filepath.FromSlash("/own") {
		t.Errorf("own: %q, %v", got, err)
	}
	if err := Resolver().(registry.Checker).Check(registry.Target{}); err == nil {
		t.Error("a target without a directory was accepted")
	}
	if err := Resolver().Watch(t.Context(), registry.Target{}, nil); err == nil || !strings.Contains(err.Error(), "names no directory") {
		t.Errorf("none: %v", err)
	}
}

// BenchmarkLook reads a directory in which nothing changes, as a watch does four
// times a second.
func BenchmarkLook(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := b.TempDir()
			for i := range n {
				id := fmt.Sprintf("tcp://10.0.%d.%d:8972", i/100, i%100)
				data, err := encode(instance(id))
				o := &owner{name: filepath.Join(dir, fileName(id)), data: data}
				if err := errors.Join(err, o.begin(b.Context())); err != nil {
					b.Fatal(err)
				}
				defer o.end()
			}
			l := newLooker(dir, slog.New(slog.DiscardHandler))
			for b.Loop() {
				if list, err := l.look(); err != nil || len(list) != n {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
