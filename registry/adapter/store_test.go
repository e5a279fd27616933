package adapter

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// scripted is a Resolver that delivers its snapshots and then waits for ctx.
type scripted []registry.Snapshot

func (s scripted) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	for _, snapshot := range s {
		update(snapshot)
	}
	<-ctx.Done()
	return ctx.Err()
}

// watchOnce has a Keeper with a directory watch r for two seconds and returns its
// views and its log.
func watchOnce(t *testing.T, dir string, r registry.Resolver) (views []View, log string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		k := Keeper{Dir: dir, Log: slog.New(slog.NewTextHandler(&text, nil))}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		target := registry.Target{Scheme: "test", Authority: "registry", Path: "/arith"}
		if err := k.Watch(ctx, r, target, func(v View) { views = append(views, v) }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Watch returned %v", err)
		}
		log = text.String()
	})
	return views, log
}

func TestKeeperStartsWithTheSavedList(t *testing.T) {
	dir := t.TempDir() + "/lists"
	down := errors.New("down")
	if views, _ := watchOnce(t, dir, scripted{{Err: down}}); len(views) != 1 || len(views[0].Instances) != 0 {
		t.Errorf("without a file: %+v", views)
	}
	watchOnce(t, dir, scripted{{Instances: members("a", "b"), Revision: 1}, {Instances: members("b", "c"), Revision: 2}, {Err: down}})
	want := members("b", "c")
	views, log := watchOnce(t, dir, scripted{{Err: down}})
	if len(views) != 1 || !reflect.DeepEqual(views[0].Instances, want) || !errors.Is(views[0].Stale, down) {
		t.Errorf("with the registry down: %+v\n%s", views, log)
	}
	views, log = watchOnce(t, dir, scripted{})
	if len(views) != 1 || !reflect.DeepEqual(views[0].Instances, want) || views[0].Stale == nil {
		t.Errorf("with a registry that does not answer: %+v\n%s", views, log)
	}
	views, _ = watchOnce(t, dir, scripted{{Instances: members("d"), Revision: 1}})
	if len(views) != 1 || !reflect.DeepEqual(views[0].Instances, members("d")) {
		t.Errorf("with a registry that answers: %+v", views)
	}
	views, _ = watchOnce(t, dir, scripted{{Err: down}, {Revision: 1}})
	if len(views) != 2 || !views[1].Suspect["d"] {
		t.Errorf("with a registry that comes back wiped: %+v, want d kept as a suspect", views)
	}
}

func TestKeeperIgnoresABrokenFile(t *testing.T) {
	dir := t.TempDir()
	list := scripted{{Instances: members("a", "b"), Revision: 1}}
	watchOnce(t, dir, list)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	path := dir + "/" + files[0].Name()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := savedLists{dir}
	for what, data := range map[string][]byte{
		"cut off":    good[:len(good)-1],
		"empty":      nil,
		"changed":    []byte(strings.Replace(string(good), "tcp", "udp", 1)),
		"lengthened": append(slices.Clip(good), ' '),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		views, log := watchOnce(t, dir, scripted{{Err: errors.New("down")}})
		if len(views) != 1 || len(views[0].Instances) != 0 || !strings.Contains(log, "can't be used") {
			t.Errorf("%s: %+v\n%s", what, views, log)
		}
	}
	if err := other.save(registry.Target{Scheme: "other", Authority: "x"}, members("a"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other.path(registry.Target{Scheme: "other", Authority: "x"}), path); err != nil {
		t.Fatal(err)
	}
	if _, log := watchOnce(t, dir, scripted{{Err: errors.New("down")}}); !strings.Contains(log, "is for target") {
		t.Errorf("another target's file: %s", log)
	}
}
