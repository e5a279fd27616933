//go:build !race

package housecheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFuzzTargetsHaveACorpus requires a seed corpus for each fuzz target, which every plain
// test run executes.
func TestFuzzTargetsHaveACorpus(t *testing.T) {
	found := 0
	for _, s := range goFiles(t) {
		for _, target := range fuzzTargets(s) {
			found++
			folder := filepath.Join(root, s.folder(), "testdata", "fuzz", target)
			if seeds, _ := os.ReadDir(folder); len(seeds) == 0 {
				t.Errorf("%s: %s has no seeds in testdata/fuzz/%s", s.path, target, target)
			}
		}
	}
	if found == 0 {
		t.Error("no fuzz target found anywhere: the test does not look")
	}
}

// fuzzTargets returns the names of the file's fuzz targets. A function with the name Fuzz alone,
// a method, and a function outside a test file is not one.
func fuzzTargets(s *source) (names []string) {
	for d := range funcs(s) {
		if rest, ok := strings.CutPrefix(d.Name.Name, "Fuzz"); ok && rest != "" && d.Recv == nil && s.test {
			names = append(names, d.Name.Name)
		}
	}
	return names
}

func TestFuzzTargetsAreFound(t *testing.T) {
	const text = "package a\nfunc FuzzOne(f *testing.F) {}\nfunc (x) FuzzTwo() {}\nfunc Fuzz() {}\nfunc fuzzThree() {}\nfunc FuzzFour(f *testing.F) {}"
	if got := fuzzTargets(sample(t, "a_test.go", text)[0]); !slices.Equal(got, []string{"FuzzOne", "FuzzFour"}) {
		t.Errorf("found %q", got)
	}
	if got := fuzzTargets(sample(t, "a.go", text)[0]); got != nil {
		t.Errorf("found %q outside a test", got)
	}
}
