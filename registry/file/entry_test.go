package file

import (
	"reflect"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
)

func TestFileName(t *testing.T) {
	for id, want := range map[string]string{
		"a-b_c.1":                     "a-b_c.1",
		"tcp://10.0.0.1:80":           "tcp%3a%2f%2f10.0.0.1%3a80",
		"A":                           "%41",
		".":                           "%2e",
		"..":                          "%2e.",
		"../a":                        "%2e.%2fa",
		"é":                           "%c3%a9",
		strings.Repeat("x", maxPlain): strings.Repeat("x", maxPlain),
		"~":                           "%7e",
	} {
		if got := fileName(id); got != want {
			t.Errorf("fileName(%q) = %q, want %q", id, got, want)
		}
	}
	long := fileName(strings.Repeat("/", 512))
	if len(long) != maxPlain || !strings.HasPrefix(long, "%2f%2f") || long[maxPlain-65] != '~' {
		t.Errorf("a long id: %q", long)
	}
}

// Different IDs have different file names, of safe bytes and at most maxPlain long.
func FuzzFileName(f *testing.F) {
	f.Add("a", "A")
	f.Add("..", "%2e.")
	f.Add(strings.Repeat("x", 512), strings.Repeat("x", 511))
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := fileName(a), fileName(b)
		if (a == b) != (x == y) {
			t.Fatalf("%q and %q become %q and %q", a, b, x, y)
		}
		if len(x) > maxPlain || strings.HasPrefix(x, ".") || x != strings.ToLower(x) ||
			strings.Trim(x, "abcdefghijklmnopqrstuvwxyz0123456789-_.%~") != "" {
			t.Fatalf("%q becomes %q", a, x)
		}
	})
}

// For any file, decode returns an error, or a valid instance that can be written
// again.
func FuzzDecode(f *testing.F) {
	f.Add("a", []byte(`{"id":"a","endpoints":[{"transport":"tcp","address":"a:1"}]}`))
	f.Add("a", []byte(`{"id":"a","weight":-1}`))
	f.Add("%41", []byte(`{"id":"A","endpoints":[{"transport":"t","address":"a","protocol":"p"}],"tags":{"k":"v"},"started":"2024-02-29T23:59:59.9Z"}`))
	f.Add("", []byte(`[]`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		in, err := decode(name, data)
		if err != nil {
			return
		}
		again, err := encode(in)
		if err != nil {
			if len(data) < maxFile/12 { // escapes and indentation make it longer
				t.Fatalf("%+v can't be written: %v", in, err)
			}
			return
		}
		back, err := decode(name, again)
		if err != nil || !sameInstance(back, in) {
			t.Fatalf("%+v came back as %+v, %v", in, back, err)
		}
	})
}

// sameInstance reports whether a and b are equal; nil and empty are equal too.
func sameInstance(a, b tandem.Instance) bool {
	if len(a.Tags) == 0 && len(b.Tags) == 0 {
		a.Tags, b.Tags = nil, nil
	}
	if len(a.Services) == 0 && len(b.Services) == 0 {
		a.Services, b.Services = nil, nil
	}
	if !a.Started.Equal(b.Started) {
		return false
	}
	a.Started = b.Started
	return reflect.DeepEqual(a, b)
}
