package multiplex_test

import (
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/multiplex"
)

// Every error of a tandem server is read back from its text, and no other text is read as one.
func TestSaid(t *testing.T) {
	for code := tandem.Canceled; code.Valid(); code++ {
		for _, message := range []string{"why", "why: because", ""} {
			e := multiplex.TextError((&tandem.Error{Code: code, Message: message}).Error(), "rpc: can't find ")
			if e.Code != code || e.Message != message || !e.Remote || e.NotExecuted {
				t.Errorf("%v, %q: %+v", code, message, e)
			}
		}
	}
	for text, code := range map[string]tandem.Code{
		"rpc: can't find service T.X": tandem.Unimplemented, "can't find service T.X": tandem.Unknown,
		"disk full": tandem.Unknown, "internal error": tandem.Unknown, "not founder: x": tandem.Unknown, "": tandem.Unknown,
	} {
		if e := multiplex.TextError(text, "rpc: can't find "); e.Code != code || e.Message != text {
			t.Errorf("%q: %+v", text, e)
		}
	}
}
