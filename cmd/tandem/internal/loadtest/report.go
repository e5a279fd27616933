package loadtest

import (
	"bytes"
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

// CheckReport returns an error if no report can be written to a file of that name.
func CheckReport(file string) error {
	switch filepath.Ext(file) {
	case ".html", ".svg", ".json":
	default:
		return fmt.Errorf("%s: want a name that ends with .html, .svg or .json", file)
	}
	dir, err := os.Stat(filepath.Dir(file))
	if err == nil && !dir.IsDir() {
		err = fmt.Errorf("%s is no directory", filepath.Dir(file))
	}
	return err
}

// Write writes a report. The ending of the file's name says which: .html for a page, .svg for
// the percentile curve, .json for the result.
func (res *Result) Write(file string) error {
	var out bytes.Buffer
	var err error
	switch filepath.Ext(file) {
	case ".html":
		err = res.page(&out)
	case ".svg":
		out.WriteString(percentileChart(res))
	default:
		in := json.NewEncoder(&out)
		in.SetEscapeHTML(false)
		in.SetIndent("", "  ")
		err = in.Encode(res)
	}
	if err == nil {
		err = os.WriteFile(file, out.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

//go:embed report.html
var pageText string

// pageTable is a table of the page.
type pageTable struct {
	Names []string
	Rows  [][]string
	Notes []string
}

// page writes a page that loads nothing else.
func (res *Result) page(out *bytes.Buffer) error {
	page, err := template.New("report").Parse(pageText)
	if err != nil {
		return err
	}
	charts := append([]string{percentileChart(res)}, timeCharts(res)...)
	data := struct {
		Result *Result
		Charts []template.HTML
		Tables []pageTable
	}{Result: res}
	for _, svg := range charts { // their texts are escaped
		data.Charts = append(data.Charts, template.HTML(svg))
	}
	for _, l := range append(lists(res, true), listing.List{Notes: about(res)}) {
		data.Tables = append(data.Tables, tableOf(&l))
	}
	return page.Execute(out, data)
}

// tableOf returns a list as a table of the page.
func tableOf(l *listing.List) pageTable {
	t := pageTable{Rows: l.Rows, Notes: l.Notes}
	for _, c := range l.Columns {
		t.Names = append(t.Names, c.Name)
	}
	return t
}
