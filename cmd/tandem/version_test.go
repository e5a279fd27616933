package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

func TestVersion(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "unknown"},
		{&debug.BuildInfo{}, "devel"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{&debug.BuildInfo{
			Main:     debug.Module{Version: "(devel)"},
			Settings: []debug.BuildSetting{setting("vcs.revision", "0123456789abcdef"), setting("vcs.modified", "true")},
		}, "devel-0123456789ab-modified"},
	} {
		if got := version(c.info, c.info != nil); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestVersionOf(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Deps:     []*debug.Module{{Path: "example.org/a", Version: "v0.1.0"}},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123"}, {Key: "vcs.time", Value: "2026-11-21T08:00:00Z"}},
	}
	line := fmt.Sprintf("tandem v1.2.3 %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for format, want := range map[listing.Format]string{
		listing.Table: line,
		listing.Wide:  "MODULE         VERSION\nexample.org/a  v0.1.0\n" + line,
		listing.JSON: fmt.Sprintf(`{"version":"v1.2.3","go":%q,"os":%q,"arch":%q,"commit":"0123","time":"2026-11-21T08:00:00Z",`, runtime.Version(), runtime.GOOS, runtime.GOARCH) +
			`"modules":[{"path":"example.org/a","version":"v0.1.0"}]}` + "\n",
	} {
		var out strings.Builder
		if err := (&listing.Printer{Out: &out, Format: format, Stream: true}).Print(versionOf(info, true)); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", format, err, out.String(), want)
		}
	}
}
