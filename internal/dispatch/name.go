package dispatch

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the length of the longest name in bytes; the wire format has the same limit.
const maxName = 1024

// splitName cuts a name at its last dot, as net/rpc does. Without a dot the
// service is "".
func splitName(name string) (service, method string) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name
	}
	return name[:i], name[i+1:]
}

func joinName(service, method string) string { return service + "." + method }

// checkName returns an error if name can't name a method or a service.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("dispatch: empty name")
	case len(name) > maxName:
		return fmt.Errorf("dispatch: name %.40q… of %d bytes, limit %d", name, len(name), maxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("dispatch: name %q is not valid UTF-8", name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("dispatch: name %q has a control character", name)
	case name[0] == '.' || name[len(name)-1] == '.':
		return fmt.Errorf("dispatch: name %q starts or ends with a dot", name)
	}
	return nil
}

// isExported reports whether a Go identifier is exported.
func isExported(name string) bool {
	first, _ := utf8.DecodeRuneInString(name)
	return unicode.IsUpper(first)
}
