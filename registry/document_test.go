package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// A session ends after its time, and the next one reads a change that it missed.
func TestDocumentIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := 0
		f := registry.DocumentFollower{Name: "test registry", Session: func(ctx context.Context, deliver func([]byte)) error {
			sessions++
			deliver(fmt.Appendf(nil, "the same, %d", min(sessions, 3))) // and is not notified of changes
			<-ctx.Done()
			return ctx.Err()
		}}
		var got []string
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		err := f.Follow(ctx, func(text []byte, err error) { got = append(got, fmt.Sprint(string(text), err)) })
		if want := "the same, 1<nil>|the same, 2<nil>|the same, 3<nil>"; strings.Join(got, "|") != want || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("delivered %q, %v", got, err)
		}
		if sessions < 7 || sessions > 14 {
			t.Errorf("%d sessions in five minutes", sessions)
		}
	})
}

// A failure that repeats is delivered once, and the pauses between sessions grow.
func TestDocumentFailureIsDeliveredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := 0
		f := registry.DocumentFollower{Name: "test registry", Session: func(context.Context, func([]byte)) error {
			sessions++
			return errors.New("down")
		}}
		var got []error
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = f.Follow(ctx, func(_ []byte, err error) { got = append(got, err) })
		if len(got) != 1 || got[0].Error() != "test registry: down" || sessions < 10 || sessions > 100 {
			t.Errorf("%d sessions delivered %v", sessions, got)
		}
	})
}

func TestDocumentIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := registry.NewMemory()
		m.PutDocument("k", make([]byte, registry.MaxDocument+1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var got []error
		_ = m.WatchDocument(ctx, "k", func(_ []byte, err error) { got = append(got, err) })
		if len(got) != 1 || got[0] == nil || !strings.Contains(got[0].Error(), "limit") {
			t.Errorf("delivered %v", got)
		}
	})
}

func TestReportsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := registry.NewMemory()
		put := func(name string, life time.Duration) error {
			return m.PutReport(t.Context(), "k", name, []byte("r"), life)
		}
		for i := range registry.MaxReports {
			if err := put(fmt.Sprint(i), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if err := put("one more", time.Hour); !errors.Is(err, registry.ErrReports) {
			t.Errorf("one more: %v", err)
		}
		if err := put("0", time.Hour); err != nil {
			t.Errorf("one again: %v", err)
		}
		if put("short", time.Millisecond) == nil || put("long", 25*time.Hour) == nil {
			t.Error("a life that is too short, or too long, was taken")
		}
		time.Sleep(time.Hour)
		if err := put("one more", time.Hour); err != nil {
			t.Errorf("when others are gone: %v", err)
		}
	})
}

func ExampleMemory_PutDocument() {
	m := registry.NewMemory()
	m.PutDocument("/policies/shop", []byte(`{"default": {"timeout": "2s"}}`))
	ctx, cancel := context.WithCancel(context.Background())
	_ = m.WatchDocument(ctx, "/policies/shop", func(text []byte, err error) {
		fmt.Println(string(text), err)
		cancel() // once is enough
	})
	_ = m.PutReport(context.Background(), "/policies/shop", "client 1", []byte("read it"), time.Minute)
	reports, err := m.Reports(context.Background(), "/policies/shop")
	fmt.Println(string(reports["client 1"]), err)
	// Output:
	// {"default": {"timeout": "2s"}} <nil>
	// read it <nil>
}

func TestOverridesKey(t *testing.T) {
	seen := map[string]string{}
	for path, want := range map[string]string{
		"/shop/Cart":               "/tandem-overrides/shop/Cart",
		"Arith":                    "/tandem-overrides/Arith",
		"/shop/applied/till":       "/tandem-overrides/shop/_applied/till",
		"/shop/_applied/till":      "/tandem-overrides/shop/__applied/till",
		"/shop/appliedly/till":     "/tandem-overrides/shop/appliedly/till",
		"/applied":                 "/tandem-overrides/_applied",
		"/shop/applied/till/":      "/tandem-overrides/shop/_applied/till/",
		"/tandem-overrides/a":      "/tandem-overrides/tandem-overrides/a",
		"/shop//till":              "/tandem-overrides/shop//till",
		"/dubbo/a.Greeter/applied": "/tandem-overrides/dubbo/a.Greeter/_applied",
	} {
		got := registry.OverridesKey(path)
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s have the same key", path, other)
		}
		seen[got] = path
	}
}

// Two programs that change a document at once lose nothing: the later one begins again.
func ExampleMemory_SwapDocument() {
	m, ctx := registry.NewMemory(), context.Background()
	change := func(add string) {
		for {
			old, err := m.ReadDocument(ctx, "/lists/cart")
			if err == nil {
				err = m.SwapDocument(ctx, "/lists/cart", old, append(bytes.Clone(old), add...))
			}
			if !errors.Is(err, registry.ErrChanged) {
				fmt.Println(add, err)
				return
			}
		}
	}
	change("drain 10.0.0.1; ")
	change("drain 10.0.0.2; ")
	fmt.Println(m.SwapDocument(ctx, "/lists/cart", nil, []byte("mine")))
	text, err := m.ReadDocument(ctx, "/lists/cart")
	fmt.Println(string(text), err)
	// Output:
	// drain 10.0.0.1;  <nil>
	// drain 10.0.0.2;  <nil>
	// memory registry: document "/lists/cart": the document has been changed meanwhile
	// drain 10.0.0.1; drain 10.0.0.2;  <nil>
}
