package adapter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// members returns instances with these IDs.
func members(ids ...string) []tandem.Instance {
	list := make([]tandem.Instance, len(ids))
	for i, id := range ids {
		list[i] = tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: id + ":1"}}}
	}
	return list
}

// numbered returns the instances i<from> to i<to-1>.
func numbered(from, to int) []tandem.Instance {
	var ids []string
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprintf("i%d", i))
	}
	return members(ids...)
}

// ids returns the IDs in order, separated by spaces.
func ids(list []tandem.Instance) string {
	var s []string
	for _, in := range list {
		s = append(s, in.ID)
	}
	slices.Sort(s)
	return strings.Join(s, " ")
}
