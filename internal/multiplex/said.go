package multiplex

import (
	"strings"

	"github.com/tandem-rpc/tandem"
)

// Said is the error of a server whose protocol carries a text and nothing else. Servers of
// tandem begin it with the name of the code ([tandem.Error.Error]), those of net/rpc and
// rpcx with their own words for a method that does not exist; else the code is Unknown.
func Said(text, missing string) *tandem.Error {
	if strings.HasPrefix(text, missing) {
		return &tandem.Error{Code: tandem.Unimplemented, Remote: true, Message: text}
	}
	for code := tandem.Canceled; code.Valid(); code++ {
		rest, named := strings.CutPrefix(text, code.String())
		why, goesOn := strings.CutPrefix(rest, ": ")
		if named && (goesOn || rest == "") {
			return &tandem.Error{Code: code, Remote: true, Message: why}
		}
	}
	return &tandem.Error{Code: tandem.Unknown, Remote: true, Message: text}
}
