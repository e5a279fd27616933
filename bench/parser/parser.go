// Package parser measures how messages get out of a stream of bytes, and puts
// the figures beside those of LittleRpc's document.
package parser

import (
	"fmt"
	"strconv"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/micro"
)

// Source has the benchmarks. They stand beside the session's reader, which is
// internal; what they measure is said there.
func Source() micro.Source {
	return &micro.TestBinary{Package: "github.com/tandem-rpc/tandem/internal/session", Pattern: "^BenchmarkParser$"}
}

// systems of this machine, by the last part of their benchmarks' names. The
// first is what the others are divided by.
var systems = []struct{ name, text string }{
	{"frames", "tandem: frame, head of the request, message"},
	{"calls", "tandem: the same, and a call ready to run"},
	{"bufio", "bufio: length, and the message in memory of its own"},
}

// Tables has a table for each size of message.
func Tables(r micro.Results) []figures.Table {
	var tables []figures.Table
	for _, d := range documents {
		t := figures.Table{
			Title: fmt.Sprintf("%s: parts of up to %d bytes, %d bytes a message on average in the document", d.size, d.limit, d.average()),
			Heads: []string{"system", "messages", "ns/op", "ns/message", "MB/s", "B/op", "allocs/op", "ns/op ÷ tandem's"},
		}
		for _, cell := range d.cells {
			t.Rows = append(t.Rows, row("LittleRpc's document ("+documentMachine+")", cell.messages, cell.figures, "another machine"))
			for _, s := range systems {
				name := benchmark(d.size, cell.messages, s.name)
				if r.Has(name) {
					ratio := r.Ratio(name, benchmark(d.size, cell.messages, systems[0].name))
					t.Rows = append(t.Rows, row(s.text, cell.messages, r.Median(name), ratio.String()))
				}
			}
		}
		t.Notes = verdicts(d, r)
		tables = append(tables, t)
	}
	return tables
}

func benchmark(size string, messages int, system string) string {
	return fmt.Sprintf("Parser/%s/%d/%s", size, messages, system)
}

func row(system string, messages int, s micro.Sample, ratio string) []string {
	return []string{
		system, strconv.Itoa(messages), figures.Number(s.NS), figures.Number(s.NS / float64(messages)),
		figures.Number(s.MBs), figures.Number(s.Bytes), figures.Number(s.Allocs), ratio,
	}
}

// Where messages are of parts of up to so many bytes, bufio should take at least
// so many times as long as the parser; elsewhere longer.
const (
	smallLimit  = 500
	leastFactor = 3
)

// verdicts names the cells that miss what the parser should reach.
func verdicts(d document, r micro.Results) []string {
	least := 1.0
	if d.limit <= smallLimit {
		least = leastFactor
	}
	var notes []string
	for _, cell := range d.cells {
		ours := benchmark(d.size, cell.messages, "frames")
		if s := r.Median(ours); s.Allocs > 0 {
			notes = append(notes, fmt.Sprintf("MISSED: %d messages: %s allocations a parse, wanted are none", cell.messages, figures.Number(s.Allocs)))
		}
		others := benchmark(d.size, cell.messages, "bufio")
		if !r.Has(others) {
			continue
		}
		if ratio := r.Ratio(others, ours); ratio.Median < least {
			notes = append(notes, fmt.Sprintf("MISSED: %d messages: bufio takes %s times as long, wanted are %s", cell.messages, ratio, figures.Number(least)))
		}
	}
	if len(notes) == 0 {
		notes = []string{fmt.Sprintf("Every cell: no allocation, and bufio takes at least %s times as long.", figures.Number(least))}
	}
	return notes
}
