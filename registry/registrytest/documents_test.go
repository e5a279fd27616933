package registrytest_test

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
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// archive is a Memory with a fault in its documents.
type archive struct {
	*registry.Memory

	fault string
}

func (a archive) WatchDocument(ctx context.Context, key string, update func([]byte, error)) error {
	var last string
	ended := a.Memory.WatchDocument(ctx, key, func(text []byte, err error) {
		switch {
		case a.fault == "outage looks like no document" && err != nil:
			err = registry.ErrNoDocument
		case a.fault == "silent without a document" && errors.Is(err, registry.ErrNoDocument):
			return
		case a.fault == "cuts off" && len(text) > 1000:
			text = text[:1000]
		case a.fault == "first only" && last != "" && err == nil:
			return
		case a.fault == "repeats failures" && err != nil:
			update(nil, err)
			update(nil, err)
		}
		if err == nil {
			last = string(text)
		}
		update(text, err)
	})
	if a.fault == "ends well" {
		ended = nil
	}
	return ended
}

func (a archive) PutReport(ctx context.Context, key, name string, report []byte, life time.Duration) error {
	switch {
	case a.fault == "keeps reports":
		life = time.Hour
	case a.fault == "first report stays" && string(report) != "first":
		return nil
	case a.fault == "takes any report" && (name == "" || len(report) > registry.MaxReport):
		return nil
	case a.fault == "mixes names up":
		name = strings.ReplaceAll(name, "/", "-")
	}
	return a.Memory.PutReport(ctx, key, name, report, life)
}

func (a archive) ReadDocument(ctx context.Context, key string) ([]byte, error) {
	text, err := a.Memory.ReadDocument(ctx, key)
	switch {
	case a.fault == "absent is empty" && err == nil && text == nil:
		return []byte{}, nil
	case a.fault == "outage reads as absent" && err != nil && key != "":
		return nil, nil
	}
	return text, err
}

func (a archive) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	now, err := a.Memory.ReadDocument(ctx, key)
	switch {
	case a.fault == "writes nothing":
		return nil
	case a.fault == "takes nothing away" && len(text) == 0 && bytes.Equal(old, now):
		return nil
	case a.fault == "takes any document" && len(text) > registry.MaxDocument:
		return nil
	case a.fault == "spoils what it writes":
		text = []byte(strings.TrimSpace(string(text)))
	case a.fault == "compares nothing",
		a.fault == "compares nothing when it creates" && len(old) == 0,
		a.fault == "compares nothing when it deletes" && len(text) == 0,
		a.fault == "compares no absent document" && len(now) == 0,
		a.fault == "compares lengths" && len(old) == len(now):
		old = now
	case a.fault == "compares and then writes" && err == nil && len(text) <= registry.MaxDocument && bytes.Equal(old, now):
		time.Sleep(time.Millisecond) // another writer comes in between
		a.PutDocument(key, text)
		return nil
	case a.fault == "other errors for changed" && !bytes.Equal(old, now):
		return errors.New("it is another one")
	case a.fault == "outage looks like a change" && err != nil && key != "":
		return registry.ErrChanged
	}
	return a.Memory.SwapDocument(ctx, key, old, text)
}

func (a archive) harness() registrytest.DocumentHarness {
	return registrytest.DocumentHarness{
		Documents: a, Key: "/policies/shop", Name: "memory registry",
		Put: func(text []byte) error { a.PutDocument("/policies/shop", text); return nil },
		Outage: func() (func() error, error) {
			a.Fail(errors.New("memory registry: down"))
			return func() error { a.Fail(nil); return nil }, nil
		},
	}
}

func TestCheckDocuments(t *testing.T) {
	for fault, want := range map[string]string{
		"":                                 "",
		"outage looks like no document":    "the outage is not delivered",
		"silent without a document":        "that there is none is not delivered",
		"cuts off":                         "is not delivered",
		"first only":                       "is not delivered",
		"repeats failures":                 "twice",
		"ends well":                        "another error than the context's",
		"keeps reports":                    "reports stay",
		"first report stays":               `reported as "first"`,
		"takes any report":                 "is accepted",
		"mixes names up":                   "is reported as",
		"writes nothing":                   "that there is none is not delivered",
		"takes nothing away":               "that there is none is not delivered",
		"takes any document":               "too large is accepted",
		"spoils what it writes":            "ReadDocument returns",
		"absent is empty":                  "want nil",
		"compares nothing":                 "does not return ErrChanged",
		"compares nothing when it creates": "does not return ErrChanged",
		"compares nothing when it deletes": "does not return ErrChanged",
		"compares no absent document":      "does not return ErrChanged",
		"compares lengths":                 "does not return ErrChanged",
		"compares and then writes":         "is in the document 0 times",
		"other errors for changed":         "does not return ErrChanged",
		"outage reads as absent":           "in an outage ReadDocument",
		"outage looks like a change":       "in an outage SwapDocument",
	} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := registrytest.CheckDocuments(t.Context(), archive{registry.NewMemory(), fault}.harness())
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			})
		})
	}
}

// A program that probes a live registry can run the checks itself.
func ExampleCheckDocuments() {
	m := registry.NewMemory()
	fmt.Println(registrytest.CheckDocuments(context.Background(), registrytest.DocumentHarness{
		Documents: m, Key: "/policies/shop",
		Put: func(text []byte) error { m.PutDocument("/policies/shop", text); return nil },
	}))
	// Output: <nil>
}
