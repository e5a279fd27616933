package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// A session ends after its time, and the next one reads a change that it missed.
func TestDocumentIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := 0
		f := adapter.DocumentFollower{Name: "test registry", Session: func(ctx context.Context, deliver func([]byte)) error {
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
		f := adapter.DocumentFollower{Name: "test registry", Session: func(context.Context, func([]byte)) error {
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
		f := adapter.DocumentFollower{Name: "test registry", Session: func(ctx context.Context, deliver func([]byte)) error {
			deliver(make([]byte, registry.MaxDocument+1))
			<-ctx.Done()
			return ctx.Err()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var got []error
		_ = f.Follow(ctx, func(_ []byte, err error) { got = append(got, err) })
		if len(got) != 1 || got[0] == nil || !strings.Contains(got[0].Error(), "limit") {
			t.Errorf("delivered %v", got)
		}
	})
}

func TestReportsAreBounded(t *testing.T) {
	for what, err := range map[string]error{
		"no name":      adapter.CheckReport("", nil, time.Hour),
		"a long name":  adapter.CheckReport(strings.Repeat("x", 257), nil, time.Hour),
		"a long text":  adapter.CheckReport("a", make([]byte, registry.MaxReport+1), time.Hour),
		"a short life": adapter.CheckReport("a", nil, time.Millisecond),
		"a long life":  adapter.CheckReport("a", nil, 25*time.Hour),
	} {
		if err == nil {
			t.Errorf("a report with %s was accepted", what)
		}
	}
	if err := adapter.CheckReport(strings.Repeat("x", 256), make([]byte, registry.MaxReport), 24*time.Hour); err != nil {
		t.Error(err)
	}
}
