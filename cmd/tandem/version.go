package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

func newVersion(sh *shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version [flags]",
		Short:   "print the version",
		Example: "tandem version -o json",
		Args:    wantArgs(0, 0),
	}
	p := outputFlag(sh, cmd)
	cmd.RunE = func(*cobra.Command, []string) error { return p.Print(versionOf(debug.ReadBuildInfo())) }
	return cmd
}

// built is what tandem version prints. Its fields are documented in docs/reference/cli.md.
type built struct {
	Version string   `json:"version"`
	Go      string   `json:"go"`
	OS      string   `json:"os"`
	Arch    string   `json:"arch"`
	Commit  string   `json:"commit,omitempty"`
	Time    string   `json:"time,omitempty"` // of the commit
	Modules []module `json:"modules"`
}

// module is a module that the command is built from.
type module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

// versionOf returns the version as a line, and in a wide table with the modules that the command
// is built from.
func versionOf(info *debug.BuildInfo, ok bool) *listing.List {
	b := built{Version: version(info, ok), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Modules: []module{}}
	list := &listing.List{Columns: []listing.Column{{Name: "MODULE", Wide: true}, {Name: "VERSION", Wide: true}}}
	if ok {
		for _, m := range info.Deps {
			b.Modules = append(b.Modules, module{m.Path, m.Version})
			list.Rows = append(list.Rows, []string{m.Path, m.Version})
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Time = s.Value
			}
		}
	}
	list.Notes, list.Value = []string{fmt.Sprintf("tandem %s %s %s/%s", b.Version, b.Go, b.OS, b.Arch)}, b
	return list
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
