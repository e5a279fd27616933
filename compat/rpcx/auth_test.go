package rpcx

import (
	"testing"

	"github.com/tandem-rpc/tandem"
)

// FuzzCredentials: credentials survive a round trip through metadata, and through a method's
// name.
func FuzzCredentials(f *testing.F) {
	f.Add("0b79bab5", "Bearer", "Arith.Mul")
	f.Add("", "", "")
	f.Add("Bearer \x00", "a b", "T.M")
	f.Fuzz(func(t *testing.T, token, tag, method string) {
		c := credentials{authorization: token, tag: tag}
		if p := credentialsOf(&tandem.Call{Method: method, Metadata: c.metadata()}); p.Authorization != token || p.Tag != tag || p.ServiceMethod != method {
			t.Errorf("%+v of %+v", p, c)
		}
		if containsZero(tag) || containsZero(method) { // which pack does not support
			return
		}
		if got, name := unpack(c.pack(method)); *got != c || name != method {
			t.Errorf("%+v, %q of %+v, %q", got, name, c, method)
		}
	})
}

func containsZero(s string) bool {
	for i := range len(s) {
		if s[i] == 0 {
			return true
		}
	}
	return false
}

func FuzzUnpack(f *testing.F) {
	f.Add("Arith.Mul")
	f.Add("\x00Bearer\x00x\x00Arith.Mul")
	f.Add("\x00\x00")
	f.Fuzz(func(t *testing.T, name string) {
		c, method := unpack(name)
		if c == nil && method != name || c != nil && c.pack(method) != name {
			t.Errorf("%q: %+v, %q", name, c, method)
		}
	})
}

// TestClaimedByOthers: clients of other protocols send tag and token in one value.
func TestClaimedByOthers(t *testing.T) {
	for value, want := range map[string][2]string{
		"Bearer sesame":  {"sesame", "Bearer"},
		"sesame":         {"sesame", ""},
		"Basic dGhlIGE=": {"dGhlIGE=", "Basic"},
		"":               {"", ""},
	} {
		p := credentialsOf(&tandem.Call{Metadata: tandem.Metadata{authorizationKey: {value}}})
		if p.Authorization != want[0] || p.Tag != want[1] {
			t.Errorf("%q: %+v", value, p)
		}
	}
}
