package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/override"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("odd"), 1},
		{usagef("wrong"), 2},
		{fmt.Errorf("call: %w", usagef("wrong")), 2},
		{tandem.Errorf(tandem.Canceled, "x"), 11},
		{fmt.Errorf("call: %w", tandem.Errorf(tandem.Unavailable, "x")), 24},
		{tandem.Errorf(tandem.Unauthenticated, "x"), 26},
		{fmt.Errorf("disable: %w", override.ErrEmpty), 8},
		{errors.Join(errors.New("odd"), thresholdError{"p99"}), 9},
		{errInterrupted, 130},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, got, c.want)
		}
	}
}

func TestHelpHasEveryExitCode(t *testing.T) {
	text := strings.Join(strings.Fields(exitCodesText), " ")
	for code := tandem.Canceled; code.Valid(); code++ {
		if want := fmt.Sprintf("%d %s", exitCall+int(code), code); !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("odd"), "odd"},
		{&tandem.Error{Code: tandem.NotFound, Message: "no such book", Remote: true}, "not found: no such book (said by the server; it may have run)"},
		{errors.New("redis registry: NOAUTH Authentication required."), "redis registry: NOAUTH Authentication required.; tandem registry login keeps a user or a token for a registry"},
		{errors.New("NOAUTH "), "NOAUTH "},
		{fmt.Errorf("disable: %w", override.ErrEmpty), "disable: no instance of the service would be left to call; --force makes the change nevertheless"},
		{&tandem.Error{Code: tandem.Unavailable, Message: "nobody there", NotExecuted: true}, "unavailable: nobody there (said here; it did not run)"},
	} {
		if got := describe(c.err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	odd := errors.New("odd")
	if got := interrupted(ctx, odd); !errors.Is(got, odd) {
		t.Errorf("got %v before", got)
	}
	cancel()
	if got := interrupted(ctx, odd); !errors.Is(got, errInterrupted) {
		t.Errorf("got %v after", got)
	}
	if got := interrupted(ctx, nil); got != nil {
		t.Errorf("got %v for nothing", got)
	}
}
