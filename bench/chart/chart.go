// Package chart describes plots as data, and has them drawn by a program in a
// module of its own, bench/tools: so neither the bench nor a peer is built with
// a plotting library, or with the versions that one asks for.
package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Chart is one plot.
type Chart struct {
	Name   string   `json:"name"` // of the files, without their ending
	Title  string   `json:"title"`
	X      string   `json:"x"` // what the axis means, and its unit
	Y      string   `json:"y"`
	LogX   bool     `json:"log_x,omitempty"`
	LogY   bool     `json:"log_y,omitempty"`
	Ticks  []Tick   `json:"ticks,omitempty"` // of the horizontal axis; none means round numbers
	Bars   bool     `json:"bars,omitempty"`  // series of bars beside each other, not lines; X of a point counts from 0
	Series []Series `json:"series"`
}

// Tick is a mark of the horizontal axis.
type Tick struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
}

// Series is one line, or one colour of bars.
type Series struct {
	Name   string  `json:"name"`
	Style  int     `json:"style"`            // number of its colour and mark, which it keeps in all charts
	Strong bool    `json:"strong,omitempty"` // drawn thicker, in red
	Dashed bool    `json:"dashed,omitempty"` // grey and dashed
	Points []Point `json:"points"`
}

// Point is a value and its spread; no spread is drawn where Low and High are
// both Y.
type Point struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Draw writes every chart into the folder dir, as SVG and as PNG. It needs the
// go command and the source tree, since it builds the program that draws.
func Draw(ctx context.Context, dir string, charts []Chart) error {
	tools, err := toolsFolder(ctx)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	text, err := json.Marshal(charts)
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "run", "./plot", dir)
	cmd.Dir = tools
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("chart: drawing into %s: %w\n%s", dir, err, out)
	}
	return nil
}

// toolsFolder finds bench/tools from wherever in the workspace the bench runs.
func toolsFolder(ctx context.Context) (string, error) {
	const module = "github.com/tandem-rpc/tandem/bench"
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	dir := string(bytes.TrimSpace(out))
	if err != nil || dir == "" {
		return "", fmt.Errorf("chart: module %s not found; run inside the repository: %w", module, err)
	}
	return filepath.Join(dir, "tools"), nil
}
