package result

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// tables is the report.json of a command that is not of the family of calls.
type tables struct {
	Kind     string `json:"kind"`     // the command's name
	Command  string `json:"command"`  // with its arguments
	Revision string `json:"revision"` // of the source
	Report   any    `json:"report"`
}

// KeepTables writes a report that consists of tables into the folder, which it
// makes: all of it in report.json, and what write prints in report.md. A folder
// with another result in it is an error.
func KeepTables(ctx context.Context, dir, command string, report any, write func(io.Writer) error) error {
	if _, err := os.Stat(filepath.Join(dir, JSONFile)); err == nil {
		return fmt.Errorf("result: %s holds a result, which rounds of this command can't be added to; choose another folder", dir)
	}
	revision, err := harness.Revision(ctx)
	if err != nil {
		return err
	}
	kind := strings.Join(strings.Fields(command)[:2], " ")
	text, err := json.MarshalIndent(tables{kind, command, revision, report}, "", "\t")
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	var md bytes.Buffer
	fmt.Fprintf(&md, "# %s\n\n`go run ./%s`, revision %s\n\n```text\n", kind, strings.TrimSpace(command), revision)
	if err := write(&md); err != nil {
		return err
	}
	md.WriteString("```\n")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	for name, content := range map[string][]byte{JSONFile: append(text, '\n'), MarkdownFile: md.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	return nil
}
