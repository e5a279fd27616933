package once_test

import (
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/once/oncetest"
)

func TestMemory(t *testing.T) {
	oncetest.Run(t, oncetest.Harness{New: func(_ *testing.T, _, ttl time.Duration) once.Store {
		return once.NewMemory(once.MemoryConfig{TTL: ttl})
	}})
}

// A memory that is full begins no calls, and forgets none early.
func TestMemoryIsBounded(t *testing.T) {
	for name, cfg := range map[string]once.MemoryConfig{"records": {Records: 2}, "bytes": {Bytes: 2}} {
		t.Run(name, func(t *testing.T) {
			m := once.NewMemory(cfg)
			for _, key := range []string{"a", "b"} {
				claim, _, err := m.Begin(t.Context(), once.Request{ID: once.ID{Key: key}, Alone: true})
				if err != nil {
					t.Fatal(err)
				}
				if err := claim.Finish(t.Context(), []byte(key)); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := m.Begin(t.Context(), once.Request{ID: once.ID{Key: "c"}, Alone: true}); tandem.CodeOf(err) != tandem.ResourceExhausted {
				t.Fatal(err)
			}
			if _, record, err := m.Begin(t.Context(), once.Request{ID: once.ID{Key: "a"}, Alone: true}); err != nil || string(record.Answer) != "a" {
				t.Fatalf("%+v, %v", record, err)
			}
		})
	}
}
