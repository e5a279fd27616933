package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

func TestMemoryConforms(t *testing.T) {
	registrytest.Run(t, func(testing.TB) registrytest.Harness {
		m := registry.NewMemory()
		return registrytest.Harness{
			Registrar: m,
			Resolver:  m,
			Outage: func() (func() error, error) {
				m.Fail(errors.New("down"))
				return func() error { m.Fail(nil); return nil }, nil
			},
		}
	})
}

func TestMemoryRefuses(t *testing.T) {
	m := registry.NewMemory()
	in := tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "a:1"}}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Register(ended, in); !errors.Is(err, context.Canceled) {
		t.Errorf("register after its context: %v", err)
	}
	entry, err := m.Register(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Register(t.Context(), in); !errors.Is(err, registry.ErrTaken) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("the same id twice: %v", err)
	}
	if err := entry.Update(ended, in); !errors.Is(err, context.Canceled) {
		t.Errorf("update after its context: %v", err)
	}
	down := errors.New("down")
	m.Fail(down)
	if err := entry.Update(t.Context(), in); !errors.Is(err, down) {
		t.Errorf("update in an outage: %v", err)
	}
	in.ID = "b"
	if _, err := m.Register(t.Context(), in); !errors.Is(err, down) {
		t.Errorf("register in an outage: %v", err)
	}
}
