package tandem_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tandem-rpc/tandem"
)

func TestErrorIdentity(t *testing.T) {
	cause := errors.New("cause")
	wrapped := tandem.Errorf(tandem.Unavailable, "dialling: %w", cause)
	if !errors.Is(wrapped, cause) {
		t.Error("the cause is lost")
	}
	over := &tandem.Error{Code: tandem.Canceled, Remote: true}
	if !errors.Is(over, context.Canceled) || errors.Is(over, context.DeadlineExceeded) {
		t.Error("a code does not stand for its context error")
	}
	outer := fmt.Errorf("calling: %w", &tandem.Error{Code: tandem.NotFound, Message: "x", NotExecuted: true})
	if e := tandem.AsError(outer); e.Code != tandem.NotFound || !e.NotExecuted || !strings.HasPrefix(e.Message, "calling: ") {
		t.Errorf("got %#v", e)
	}
	if tandem.AsError(nil) != nil || tandem.CodeOf(nil) != tandem.OK {
		t.Error("nil is no error")
	}
	if tandem.MayHaveExecuted(outer) || !tandem.MayHaveExecuted(cause) {
		t.Error("what may have executed")
	}
}

func TestWithDetailLeavesTheOriginalAlone(t *testing.T) {
	a := tandem.Errorf(tandem.Aborted, "a").WithDetail("1", nil)
	b, c := a.WithDetail("2", nil), a.WithDetail("3", nil)
	if len(a.Details) != 1 || b.Details[1].Type != "2" || c.Details[1].Type != "3" {
		t.Errorf("%v %v %v", a.Details, b.Details, c.Details)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	call := &tandem.Call{Metadata: tandem.Metadata{"k": {"v"}}, Exclude: []string{"a"}}
	call.OnEnd(func(error) { t.Error("ran twice") })
	c := call.Clone()
	c.Metadata.Add("k", "w")
	c.Exclude = append(c.Exclude[:0], "b")
	c.End(nil)
	if len(call.Metadata["k"]) != 1 || call.Exclude[0] != "a" {
		t.Errorf("%v %v", call.Metadata, call.Exclude)
	}
}

func TestEndRunsInReverseOnce(t *testing.T) {
	call, order := &tandem.Call{}, ""
	for _, s := range []string{"a", "b", "c"} {
		call.OnEnd(func(error) { order += s })
	}
	call.End(nil)
	call.End(nil)
	if order != "cba" {
		t.Errorf("got %q", order)
	}
}

func TestInstanceCloneSharesNothing(t *testing.T) {
	in := tandem.Instance{
		ID:        "a",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "a:1"}},
		Services:  []string{"s"},
		Tags:      map[string]string{"k": "v"},
		Position:  &tandem.Position{Latitude: 1},
		Load:      &tandem.Load{Rate: 1},
	}
	c := in.Clone()
	c.Endpoints[0].Address, c.Services[0], c.Tags["k"] = "", "", ""
	c.Position.Latitude, c.Load.Rate = 0, 0
	if in.Endpoints[0].Address != "a:1" || in.Services[0] != "s" || in.Tags["k"] != "v" ||
		in.Position.Latitude != 1 || in.Load.Rate != 1 {
		t.Errorf("the original changed: %+v", in)
	}
}

func TestInstanceLimits(t *testing.T) {
	good := func() tandem.Instance {
		return tandem.Instance{ID: "x", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "a:1"}}}
	}
	for name, spoil := range map[string]func(*tandem.Instance){
		"no id":        func(in *tandem.Instance) { in.ID = "" },
		"long id":      func(in *tandem.Instance) { in.ID = strings.Repeat("x", tandem.MaxInstanceID+1) },
		"bad id":       func(in *tandem.Instance) { in.ID = "\xff" },
		"no endpoint":  func(in *tandem.Instance) { in.Endpoints = nil },
		"many":         func(in *tandem.Instance) { in.Endpoints = make([]tandem.Endpoint, 17) },
		"bad endpoint": func(in *tandem.Instance) { in.Endpoints[0].Address = "" },
		"weight":       func(in *tandem.Instance) { in.Weight = tandem.MaxWeight + 1 },
		"many tags": func(in *tandem.Instance) {
			in.Tags = map[string]string{}
			for i := range 129 {
				in.Tags[fmt.Sprint(i)] = ""
			}
		},
	} {
		in := good()
		if err := in.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&in)
		if err := in.Validate(); err == nil || !utf8.ValidString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
