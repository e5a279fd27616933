package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

func runVersion(_ context.Context, sh *shell, args []string) error {
	set := newFlags("version")
	if err := parse(set, sh, args); err != nil {
		return err
	}
	if err := noArgs(set); err != nil {
		return err
	}
	info, ok := debug.ReadBuildInfo()
	fmt.Fprintf(sh.out, "tandem %s %s %s/%s\n", version(info, ok), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
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
