package httpcalls_test

import (
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
)

// Metadata that HTTP would drop or change is an error; other metadata is not.
func TestCheck(t *testing.T) {
	for name, value := range map[string]string{
		"a b:c": "x", "": "x", ":path": "x", "host": "x", "Host": "x", "te": "x", "content-type": "x", "grpc-timeout": "x",
		"tandem-x": "x", "connect-timeout-ms": "x", "key": "a\nb", "other": "\x00", "del": "\x7f",
	} {
		e := tandem.AsError(httpcalls.Check(tandem.Metadata{name: {"fine", value}}, true))
		if e == nil || e.Code != tandem.InvalidArgument || !e.NotExecuted {
			t.Errorf("%q: %q: %v", name, value, e)
		}
	}
	fine := tandem.Metadata{"key": {"", "a\tb", "größe"}, "authorization": {"Bearer x"}, "key-bin": {"\x00\n"}, tandem.CriticalityKey: {"critical"}}
	if err := httpcalls.Check(fine, true); err != nil {
		t.Error(err)
	}
	if err := httpcalls.Check(fine, false); err == nil {
		t.Error("control characters that will not be encoded are no error")
	}
}
