package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docs/howto/once.md shows the program as it is, from its imports on, in both languages.
func TestGuideShowsTheProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "package main\n\n")
	for _, page := range []string{"../../docs/howto/once.md", "../../docs/zh/howto/once.md"} {
		guide, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(guide), "```go fragment\n"+code+"```\n") {
			t.Errorf("%s does not show examples/once/main.go as it is", page)
		}
	}
}

// The program writes each order once, also when it runs again with the same file.
func TestProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.db")
	for range 2 {
		said := captured(t, func() error { return run(t.Context(), path) })
		if want := "order-17 is number 1\norder-17 is number 1\norder-18 is number 2\n"; said != want {
			t.Errorf("it says %q, want %q", said, want)
		}
	}
}

// captured returns what f prints.
func captured(t *testing.T, f func() error) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stdout
	os.Stdout = file
	err = f()
	os.Stdout = old
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
