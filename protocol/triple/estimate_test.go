package triple

import (
	"errors"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/codec/codectest"
)

type wide struct {
	A, B, C, D, E, F, G, H int
	Next                   *wide
}

// estimated decodes src, and compares the reserved memory with what was allocated. Up to
// five times as much may be in use at the end: lists and texts grow by doubling.
func estimated(t *testing.T, name, src string, v any) {
	t.Helper()
	var expected uint64
	var err error
	got := codectest.Allocated(func() {
		err = decode([]byte(src), v, func(n int64) error {
			expected += uint64(n)
			return nil
		})
	})
	if got > 5*expected+64*uint64(min(len(src), 4<<10))+256<<10 {
		t.Errorf("%s: %d bytes: expected %d, allocated %d (%v)", name, len(src), expected, got, err)
	}
}

func TestEstimates(t *testing.T) {
	const class = "C\x01w\x90" // it has no fields
	many := func(s string) string { return "W" + strings.Repeat(s, 20_000) + "Z" }
	var fields, keys strings.Builder
	for i := range 20_000 {
		key := "\x05" + string([]byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'a' + byte(i/676%26), 'a' + byte(i/17576), 'x'})
		fields.WriteString(key)
		keys.WriteString(key + "\x60")
	}
	for name, row := range map[string]struct {
		src string
		v   any
	}{
		"structs":           {"W" + class + strings.Repeat("\x60", 20_000) + "Z", new([]wide)},
		"pointers":          {"W" + class + strings.Repeat("\x60", 20_000) + "Z", new([]*wide)},
		"references":        {"W" + class + "\x60" + strings.Repeat("Q\x91", 20_000) + "Z", new([]wide)},
		"numbers":           {many("\x91"), new([]int64)},
		"anything, numbers": {many("\x91"), new(any)},
		"anything, lists":   {many("\x78"), new(any)},
		"anything, maps":    {many("HZ"), new(any)},
		"one entry":         {many("H\x01a\x91Z"), new(any)},
		"texts":             {many("\x01a"), new([]string)},
		"a map":             {class + "H" + keys.String() + "Z", new(map[string]wide)},
		"fields":            {"C\x01w\xd4\x4e\x20" + fields.String() + "\x91", new(any)},
		"classes":           {strings.Repeat(class, 20_000) + "\x91", new(any)},
	} {
		estimated(t, name, row.src, row.v)
	}
}

func TestExpectRefuses(t *testing.T) {
	errNoRoom := errors.New("no room")
	for _, src := range []string{"W" + strings.Repeat("\x78", 20_000) + "Z", "W" + strings.Repeat("HZ", 20_000) + "Z"} {
		var v any
		if err := decode([]byte(src), &v, func(int64) error { return errNoRoom }); !errors.Is(err, errNoRoom) {
			t.Errorf("%.10q: %v", src, err)
		}
	}
}

func FuzzEstimate(f *testing.F) {
	for _, s := range []string{"WC\x01w\x90\x60\x60Q\x91Z", "WHZH\x01a\x91ZZ", "W\x91\x01aT\x78Z", "C\x01w\x91\x01a\x60\x60\x91"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		for _, v := range []any{new(any), new([]wide), new([]*wide), new(map[string]wide), new([]map[string]any)} {
			estimated(t, "fuzz", src, v)
		}
	})
}
