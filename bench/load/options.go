package load

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options are what a system's name asks for beside its peer: "tandem+tls+metrics" is
// the peer tandem with two options. The harness runs a peer under the whole name of
// its system.
type Options []string

// Named returns the options in the name of this program.
func Named() Options { return parseOptions(filepath.Base(os.Args[0])) }

func parseOptions(name string) Options { return strings.Split(name, "+")[1:] }

// Has tells whether the option is there.
func (o Options) Has(name string) bool { return slices.Contains(o, name) }

// check refuses what the peer does not know: it would measure something else
// than its name says.
func (o Options) check(known []string) error {
	for _, name := range o {
		if !slices.Contains(known, name) {
			return fmt.Errorf("load: no option %q; the peer has %q", name, known)
		}
	}
	return nil
}
