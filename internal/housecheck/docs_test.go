//go:build !race

package housecheck

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// machinePath matches paths that exist only on one person's machine.
var machinePath = regexp.MustCompile(`(^|[\s"'(=:` + "`" + `])/(root|home|Users|work)/[\w.-]`)

// homes are the prefixes of such paths.
var homes = []string{"/root/", "/home/", "/Users/", "/work/"}

func TestNoMachinePaths(t *testing.T) {
	if !machinePath.MatchString("see " + "/" + "root/x") {
		t.Error("the pattern does not match")
	}
	for name, text := range files(t) {
		if !slices.ContainsFunc(homes, func(home string) bool { return strings.Contains(text, home) }) {
			continue // quicker than the pattern
		}
		for i, line := range strings.Split(text, "\n") {
			if machinePath.MatchString(line) {
				t.Errorf("%s:%d: a path of one machine: %s", name, i+1, strings.TrimSpace(line))
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks checks that the files and headings exist that the documentation links to.
func TestLinks(t *testing.T) {
	all := files(t)
	for name, text := range all {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(withoutCode(text), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: link to %s, which does not exist", name, m[1])
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s: link to %s, but %s has no such heading", name, m[1], target)
			}
		}
	}
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noWord  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func withoutCode(text string) string { return fence.ReplaceAllString(text, "") }

// anchors returns the fragments of a file's headings, as code hosts make them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(withoutCode(text), -1) {
		all[strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

var testName = regexp.MustCompile(`\b(Test|Fuzz|Example|Benchmark)[A-Z]\w+`)

// TestNamedTestsExist checks that the tests exist that the documentation names.
func TestNamedTestsExist(t *testing.T) {
	all := files(t)
	var code strings.Builder
	for name, text := range all {
		if strings.HasSuffix(name, "_test.go") {
			code.WriteString(text)
		}
	}
	for name, text := range all {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, claimed := range testName.FindAllString(text, -1) {
			if !strings.Contains(code.String(), "\nfunc "+claimed+"(") {
				t.Errorf("%s names %s, which does not exist", name, claimed)
			}
		}
	}
}

var target = regexp.MustCompile("`make ([a-z0-9-]+)")

// TestNamedTargetsExist checks that the Makefile has the targets that the documentation names.
func TestNamedTargetsExist(t *testing.T) {
	all := files(t)
	for name, text := range all {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(all["Makefile"], "\n"+m[1]+":") {
				t.Errorf("%s names the target %s, which does not exist", name, m[1])
			}
		}
	}
}

// option matches options in code spans, with or without their package.
var option = regexp.MustCompile("`(?:([a-z]+)\\.)?(With[A-Z]\\w+|Method[A-Z]\\w+)[`(]")

// TestNamedOptionsExist checks that the options exist that the documentation names, in the
// package that is named or in any. The changelog may name removed options, and the migration
// guides name options of other projects.
func TestNamedOptionsExist(t *testing.T) {
	if stale := staleOptions(map[string]string{
		"a/client.go": "package client\n\nfunc WithHere() {}\n",
		"a.md":        "`client.WithHere`, `WithHere(1)`, `server.WithHere` and `WithGone`",
	}); !slices.Equal(stale, []string{"a.md names the option server.WithHere, which does not exist", "a.md names the option WithGone, which does not exist"}) {
		t.Errorf("found %q", stale)
	}
	for _, s := range staleOptions(files(t)) {
		t.Error(s)
	}
}

var declaredOption = regexp.MustCompile(`(?m)^func ((?:With|Method)[A-Z]\w+)[(\[]`)

func staleOptions(all map[string]string) (stale []string) {
	known := map[string]bool{}
	for name, text := range all {
		if path.Ext(name) != ".go" {
			continue
		}
		_, pkg, _ := strings.Cut(text, "\npackage ")
		if strings.HasPrefix(text, "package ") {
			pkg = text[len("package "):]
		}
		pkg, _, _ = strings.Cut(pkg, "\n")
		for _, m := range declaredOption.FindAllStringSubmatch(text, -1) {
			known[m[1]], known[pkg+"."+m[1]] = true, true
		}
	}
	for name, text := range all {
		if path.Ext(name) != ".md" || name == "CHANGELOG.md" || namesOthersOptions(name) {
			continue
		}
		for _, m := range option.FindAllStringSubmatch(text, -1) {
			full := strings.TrimPrefix(m[1]+"."+m[2], ".")
			if !known[full] {
				stale = append(stale, name+" names the option "+full+", which does not exist")
			}
		}
	}
	return stale
}

// namesOthersOptions reports whether a file is a migration guide, in English or Chinese.
func namesOthersOptions(name string) bool {
	return strings.HasPrefix(name, "docs/howto/migrating/") || strings.HasPrefix(name, "docs/zh/howto/migrating/")
}

var workflowTarget = regexp.MustCompile(`run: make ([a-z0-9-]+)`)

// TestWorkflowTargetsExist checks that the Makefile has the targets that workflows run.
func TestWorkflowTargetsExist(t *testing.T) {
	makefile := files(t)["Makefile"]
	workflows, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, name := range workflows {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range workflowTarget.FindAllStringSubmatch(string(text), -1) {
			named++
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s runs the target %s, which does not exist", name, m[1])
			}
		}
	}
	if named == 0 {
		t.Error("no workflow runs a target: the test does not look")
	}
}
