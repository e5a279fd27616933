package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryAllocationBudgetIsHeld looks for tests that count allocations:
// bench revisions must run them all.
func TestEveryAllocationBudgetIsHeld(t *testing.T) {
	pattern, packages, found := regexp.MustCompile(budgetTests), list(hotPackages), 0
	for _, b := range allocationTests(t, "..") {
		found++
		if !pattern.MatchString(b.name) {
			t.Errorf("%s in %s counts allocations, but %q leaves it out", b.name, b.pkg, budgetTests)
		}
		if !slices.Contains(packages, b.pkg) {
			t.Errorf("%s in %s counts allocations, but the package is not among %q", b.name, b.pkg, hotPackages)
		}
	}
	if found < 5 {
		t.Errorf("only %d tests count allocations: the test does not look", found)
	}
}

type allocationTest struct{ pkg, name string }

// allocationTests finds the tests of the root module that call AllocsPerRun.
func allocationTests(t *testing.T, root string) (all []allocationTest) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && isModule(path) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		for _, name := range countingAllocations(string(text)) {
			all = append(all, allocationTest{filepath.ToSlash(pkg), name})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// countingAllocations are the names of the tests in a file that do so.
func countingAllocations(file string) (names []string) {
	for _, part := range strings.Split(file, "\nfunc ")[1:] {
		name, _, _ := strings.Cut(part, "(")
		if strings.HasPrefix(name, "Test") && strings.Contains(part, "testing.AllocsPerRun(") {
			names = append(names, name)
		}
	}
	return names
}
