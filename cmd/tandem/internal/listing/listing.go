// Package listing prints lists: as tables for people, and as JSON or YAML for programs.
package listing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Format is how a list is printed. Its methods make it the value of a flag.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide" // a table with more columns
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats returns all formats.
func Formats() []string { return []string{string(Table), string(Wide), string(JSON), string(YAML)} }

// String returns the format's name.
func (f *Format) String() string { return string(*f) }

// Set sets the format by its name.
func (f *Format) Set(name string) error {
	if !slices.Contains(Formats(), name) {
		return fmt.Errorf("want one of %s", strings.Join(Formats(), ", "))
	}
	*f = Format(name)
	return nil
}

// Type returns what help says of the flag's value.
func (f *Format) Type() string { return strings.Join(Formats(), "|") }

// Column is a column of a table.
type Column struct {
	Name  string
	Wide  bool // it is printed only in wide tables
	State bool // its cells are states, which have colors
}

// List is a list to print. Every row has one cell for each column, also for wide ones.
type List struct {
	Columns []Column
	Rows    [][]string
	Notes   []string // lines below the table
	Value   any      // what JSON and YAML print: the same names in both
}

// Printer prints lists.
type Printer struct {
	Out    io.Writer
	Format Format // "" is Table
	Color  bool   // states have colors
	Stream bool   // one list follows another: JSON is one line each, YAML one document each, and a table goes on

	widths []int // of the columns, in characters; nil before the first table
}

// Print prints a list.
func (p *Printer) Print(l *List) error {
	switch p.Format {
	case JSON, YAML:
		return p.printValue(l.Value)
	default:
		return p.printTable(l)
	}
}

func (p *Printer) printValue(v any) error {
	var text bytes.Buffer
	in := json.NewEncoder(&text)
	in.SetEscapeHTML(false)
	if p.Format == JSON && !p.Stream {
		in.SetIndent("", "  ")
	}
	if err := in.Encode(v); err != nil {
		return err
	}
	if p.Format == YAML {
		block, err := toYAML(text.Bytes())
		if err != nil {
			return err
		}
		text.Reset()
		if p.Stream {
			text.WriteString("---\n")
		}
		text.Write(block)
	}
	_, err := p.Out.Write(text.Bytes())
	return err
}

// toYAML returns JSON as YAML in blocks, with the fields in the same order.
func toYAML(text []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	var plain func(n *yaml.Node)
	plain = func(n *yaml.Node) {
		n.Style = style(n)
		for _, child := range n.Content {
			plain(child)
		}
	}
	plain(&root)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&root); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// style returns the style of a node: blocks, and quotes for strings that a reader of YAML, of
// version 1.1 too, takes for something else.
func style(n *yaml.Node) yaml.Style {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return 0
	}
	if alone, err := yaml.Marshal(n.Value); err == nil && strings.HasPrefix(string(alone), `"`) {
		return yaml.DoubleQuotedStyle
	}
	return 0
}

func (p *Printer) printTable(l *List) error {
	var out strings.Builder
	columns, rows := p.layout(l)
	if len(columns) > 0 && (p.widths == nil || !p.Stream) {
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = c.Name
		}
		p.line(&out, columns, names, false)
	}
	p.widths = make([]int, len(columns))
	for i, c := range columns {
		p.widths[i] = c.width
	}
	for _, row := range rows {
		if len(row) > 0 {
			p.line(&out, columns, row, p.Color)
		}
	}
	for _, note := range l.Notes {
		out.WriteString(printable(note) + "\n")
	}
	_, err := io.WriteString(p.Out, out.String())
	return err
}

// shownColumn is a column of a table that is printed.
type shownColumn struct {
	Column
	width int // in characters
}

// layout returns the columns that are printed, and the cells of their rows.
func (p *Printer) layout(l *List) (columns []shownColumn, rows [][]string) {
	rows = make([][]string, len(l.Rows))
	for i, c := range l.Columns {
		if c.Wide && p.Format != Wide {
			continue
		}
		width := utf8.RuneCountInString(c.Name)
		for r, row := range l.Rows {
			cell := printable(row[i])
			rows[r] = append(rows[r], cell)
			width = max(width, utf8.RuneCountInString(cell))
		}
		if n := len(columns); p.Stream && n < len(p.widths) {
			width = max(width, p.widths[n])
		}
		columns = append(columns, shownColumn{c, width})
	}
	return columns, rows
}

// line appends a line of a table.
func (*Printer) line(out *strings.Builder, columns []shownColumn, cells []string, colored bool) {
	for i, cell := range cells {
		pad := columns[i].width - utf8.RuneCountInString(cell) + 2 //nolint:mnd // two spaces between columns
		if color := colorOf(cell); colored && columns[i].State && color != "" {
			cell = color + cell + plainText
		}
		out.WriteString(cell)
		if i < len(cells)-1 {
			out.WriteString(strings.Repeat(" ", pad))
		}
	}
	out.WriteByte('\n')
}

// printable replaces control characters: what other programs have written into a registry must
// not move the cursor of a terminal, and stays on one line. An empty text becomes "-".
func printable(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return ' '
		}
		return visible(r)
	}, text)
}

// Printable returns a text in which blanks stand in place of control characters, which could
// change what a terminal shows. Lines stay.
func Printable(text string) string { return strings.Map(visible, text) }

func visible(r rune) rune {
	if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError {
		return ' '
	}
	return r
}

// Control sequences of ECMA-48 for colors.
const (
	green     = "\x1b[32m"
	yellow    = "\x1b[33m"
	red       = "\x1b[31m"
	plainText = "\x1b[0m"
)

// colorOf returns the color of a state, "" for none.
func colorOf(state string) string {
	switch state {
	case "enabled", "ok", "applied":
		return green
	case "draining", "pending", "warning", "unknown":
		return yellow
	case "disabled", "refused", "failed", "critical":
		return red
	}
	return ""
}
