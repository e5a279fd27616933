package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// measured is a report of so many failures.
type measured struct{ Failures int }

func (measured) WriteTable(io.Writer) error { return nil }

func (m measured) Failed() int { return m.Failures }

func TestPublish(t *testing.T) {
	interrupted := errors.New("interrupted")
	for _, c := range []struct {
		failures int
		ended    error
		want     string // in the error; none if it is empty
	}{
		{0, nil, ""},
		{2, nil, "failed: 2"},
		{2, interrupted, "interrupted"},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		err := publish(measured{c.failures}, c.ended, file)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c, err)
		}
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"Failures": `) {
			t.Errorf("%+v: the file has %q, %v", c, text, err)
		}
	}
	if err := publish(measured{}, nil, filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Error("no error for a file that can't be written")
	}
}
