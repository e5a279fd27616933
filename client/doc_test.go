package client_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The package's comment lists all options, in groups, and they stay few enough to be read.
func TestOptionsAreListed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	main, err := os.ReadFile("client.go")
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(main), "\npackage client")
	option := regexp.MustCompile(`(?m)^func (With\w+)[\[(].*\bOption \{`)
	n := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range option.FindAllStringSubmatch(string(text), -1) {
			n++
			if !regexp.MustCompile(`\b` + found[1] + `\b`).MatchString(comment) {
				t.Errorf("the comment of the package does not list %s", found[1])
			}
		}
	}
	if n < 20 || n > 30 {
		t.Errorf("%d options", n)
	}
}
