package thrift_test

import (
	"context"
	"sync/atomic"
	"testing"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/once"
	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
	"github.com/tandem-rpc/tandem/server"
)

// counting is a desk that says how often it was asked.
type counting struct{ runs atomic.Int32 }

func (c *counting) Who(context.Context) (string, error) {
	return string('0' + c.runs.Add(1)), nil
}

// A caller that sends a key in a header gets the first answer again.
func TestKeys(t *testing.T) {
	for _, dialect := range []string{"header binary", "header compact", "header zlib"} {
		service := &counting{}
		p := dial(t, serve(t, service, server.WithPlugins(once.New(once.NewMemory(once.MemoryConfig{OneInstance: true}), once.WithCaller(once.Anyone)))), dialect)
		c := desk.NewDeskClient(apache.NewTStandardClient(p, p))
		who := func(key string) string {
			got, err := c.Who(withHeaders(t.Context(), map[string]string{tandem.KeyKey: key, tandem.FingerprintKey: "f"}))
			if err != nil {
				t.Errorf("%s: %v", dialect, err)
			}
			return got
		}
		for _, key := range []string{"a", "a", "b", "a", "b"} {
			want := map[string]string{"a": "1", "b": "2"}[key]
			equal(t, dialect, who(key), want)
		}
	}
}
