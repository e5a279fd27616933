package multiplex

import (
	"strings"

	"github.com/tandem-rpc/tandem"
)

// TextError returns the error of a server whose protocol sends errors as text only. The text of a
// tandem server begins with the name of the code ([tandem.Error.Error]); missing is the
// beginning of the text with which servers of net/rpc or rpcx report that a method does not
// exist. Otherwise the code is Unknown.
func TextError(text, missing string) *tandem.Error {
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
