package load

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options are the options in a system's name: "tandem+tls+metrics" is the peer tandem with
// two options. The harness runs a peer under the whole name of its system.
type Options []string

// Named returns the options in the name of this program.
func Named() Options { return parseOptions(filepath.Base(os.Args[0])) }

func parseOptions(name string) Options { return strings.Split(name, "+")[1:] }

// Has reports whether the option is set.
func (o Options) Has(name string) bool { return slices.Contains(o, name) }

// The sizes of messages that systems may have as options, instead of message.Size.
const (
	Large = "16KiB"
	Huge  = "1MiB"
)

var sizes = map[string]int{Large: 16 << 10, Huge: 1 << 20}

// check returns an error for unknown options: the peer would not measure what its name
// says.
func (o Options) check(known []string) error {
	for _, name := range o {
		if !slices.Contains(known, name) {
			return fmt.Errorf("load: no option %q; the peer has %q", name, known)
		}
	}
	return nil
}
