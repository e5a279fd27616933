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

func TestMemoryDocumentIsBounded(t *testing.T) {
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

func TestMemoryReportsAreBounded(t *testing.T) {
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

// Failures and documents are delivered once each, whatever else changes in the registry.
func TestMemoryDeliversDocumentsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := registry.NewMemory()
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		ended := make(chan error, 1)
		go func() {
			ended <- m.WatchDocument(ctx, "k", func(text []byte, err error) { got = append(got, fmt.Sprint(string(text), err)) })
		}()
		for _, change := range []func(){
			func() { m.PutDocument("other", []byte("o")) },
			func() { m.PutDocument("k", []byte("one")) },
			func() { m.PutDocument("k", []byte("one")) },
			func() { m.Fail(errors.New("down")) },
			func() { m.PutDocument("other", nil) },
			func() { m.Fail(nil) },
		} {
			synctest.Wait()
			change()
		}
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("WatchDocument returned %v", err)
		}
		want := "there is no such document|one<nil>|memory registry: down|one<nil>"
		if strings.Join(got, "|") != want {
			t.Errorf("delivered %q, want %q", got, want)
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
