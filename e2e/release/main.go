// Command release makes and checks releases of the modules of this repository.
//
//	make -version v0.1.0  release HEAD: tags here, and binaries, SBOMs and an image in -dist
//	check                 the same with the work tree, in a temporary folder that is removed
//	api                   report how the API differs from the last release's
//	across                run calls between the last release and the work tree, in both directions
//
// It runs from the root of the repository. CONTRIBUTING.md says how a release is made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// settings are the flags; each command uses some of them.
type settings struct {
	version string // of the release
	dist    string // folder for the built files
	base    string // the revision to compare with; empty for the previous release
	all     bool   // build for every system, not for this one only
	sbom    string // path of cyclonedx-gomod
	compare string // path of gorelease
}

func run(ctx context.Context, args []string) (err error) {
	var s settings
	commands := map[string]func(context.Context, settings, string) error{"make": makeRelease, "check": checkRelease, "api": compareAPI, "across": callAcross}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&s.version, "version", "", "version to release, such as v0.1.0")
	flags.StringVar(&s.dist, "dist", "dist", "folder that make writes binaries, checksums, SBOMs and an image to")
	flags.StringVar(&s.base, "base", "", "revision to compare with (the last release or, without one, HEAD~1)")
	flags.BoolVar(&s.all, "all", false, "check: build for every system, as make does; api: compare every library, not the core alone")
	flags.StringVar(&s.sbom, "sbom", "cyclonedx-gomod", "cyclonedx-gomod's path")
	flags.StringVar(&s.compare, "gorelease", "gorelease", "gorelease's path")
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("want one of the commands make, check, api and across")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "tandem-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	return commands[args[0]](ctx, s, temp)
}
