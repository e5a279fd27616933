package codecs

import (
	"fmt"
	"strconv"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/micro"
)

// Tables has one of the codecs alone, and one of calls for each number of
// callers.
func (p Plan) Tables(r micro.Results) []figures.Table {
	tables := []figures.Table{aloneTable(r)}
	for _, n := range p.Callers {
		tables = append(tables, callTable(r, n))
	}
	return tables
}

func aloneTable(r micro.Results) figures.Table {
	t := figures.Table{
		Title: "codecs alone: encoding into a buffer that is used again, decoding into a new value",
		Heads: []string{"codec", "bytes", "encode ns/op", "B/op", "allocs/op", "decode ns/op", "B/op", "allocs/op"},
	}
	for _, k := range kinds() {
		row := []string{k.name, strconv.Itoa(k.size)}
		for _, direction := range []string{"encode", "decode"} {
			name := aloneName(k.name, direction)
			s := r.Median(name)
			row = append(row, r.Times(name).String(), figures.Number(s.Bytes), figures.Number(s.Allocs))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func callTable(r micro.Results, callers int) figures.Table {
	t := figures.Table{
		Title: fmt.Sprintf("whole calls over TCP in one process, callers on one connection: %d; net/rpc in the right half", callers),
		Heads: []string{
			"codec", "tandem ns/call", "B/call", "allocs/call",
			"net/rpc ns/call", "B/call", "allocs/call", "codec", "net/rpc ÷ tandem",
		},
	}
	for _, k := range kinds() {
		row := []string{k.name}
		for _, framework := range []string{ours, theirs} {
			name := callName(k.name, callers, framework)
			s := r.Median(name)
			row = append(row, r.Times(name).String(), figures.Number(s.Bytes), figures.Number(s.Allocs))
		}
		ratio := r.Ratio(callName(k.name, callers, theirs), callName(k.name, callers, ours))
		t.Rows = append(t.Rows, append(row, k.theirs, ratio.String()))
		if ratio.Median < 1 {
			t.Notes = append(t.Notes, fmt.Sprintf("MISSED: with %s net/rpc takes %s times as long as tandem; ours should never be slower", k.name, ratio))
		}
	}
	if len(t.Notes) == 0 {
		t.Notes = []string{"Tandem is slower with no codec."}
	}
	return t
}
