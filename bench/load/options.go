package load

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Options are what a system's name asks for beside its peer: "tandem+tls" is
// the peer tandem with the option tls, "tandem+bytes=600+gzip" has two options.
// The harness runs a peer under the whole name of its system.
type Options map[string]string

// OptionBeside is the option that this package itself sees to: "beside=1000"
// has every connection carry calls of that many bytes more, one after the
// other, beside the calls that are measured. A peer that lists it accepts them.
const OptionBeside = "beside"

// Named returns the options in the name of this program.
func Named() Options { return parseOptions(filepath.Base(os.Args[0])) }

func parseOptions(name string) Options {
	o := Options{}
	for _, text := range strings.Split(name, "+")[1:] {
		key, value, _ := strings.Cut(text, "=")
		o[key] = value
	}
	return o
}

// Has tells whether the option is there.
func (o Options) Has(name string) bool {
	_, has := o[name]
	return has
}

// Bytes returns the size that the option names, in bytes; 0 without the option,
// or when its value is no size, which check refuses.
func (o Options) Bytes(name string) int {
	n, _ := strconv.Atoi(o[name])
	return n
}

// check refuses what the peer does not know: it would measure something else
// than its name says. A value must be a size.
func (o Options) check(known []string) error {
	for name, value := range o {
		if !slices.Contains(known, name) {
			return fmt.Errorf("load: no option %q; the peer has %q", name, known)
		}
		if n, err := strconv.Atoi(value); value != "" && (err != nil || n < 1) {
			return fmt.Errorf("load: option %s=%s: the value must be a number of bytes, at least 1", name, value)
		}
	}
	return nil
}
