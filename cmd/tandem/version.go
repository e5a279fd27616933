package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version",
		Example: "tandem version",
		Args:    wantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			info, ok := debug.ReadBuildInfo()
			fmt.Fprintf(sh.out, "tandem %s %s %s/%s\n", version(info, ok), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// version is the module's version or, built from a checkout, its commit.
func version(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "-" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-modified"
		}
	}
	return "devel" + commit + changed
}
