package wire_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

const document = "../docs/reference/protocol.md"

func readDocument(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

// hexBlock is an example of the document: the text between "```hex name" and
// "```", without the comments.
type hexBlock struct {
	name string
	line int
	hex  strings.Builder
}

func hexBlocks(t *testing.T) (blocks []*hexBlock) {
	t.Helper()
	var open *hexBlock
	for i, line := range readDocument(t) {
		name, starts := strings.CutPrefix(line, "```hex")
		switch {
		case starts:
			open = &hexBlock{name: strings.TrimSpace(name), line: i + 1}
			blocks = append(blocks, open)
		case strings.HasPrefix(line, "```"):
			open = nil
		case open != nil:
			bare, _, _ := strings.Cut(line, "#")
			open.hex.WriteString(bare + " ")
		}
	}
	return blocks
}

// TestDocumentExamples compares each example of the document with the golden
// vector of its name. Every type of frame has one.
func TestDocumentExamples(t *testing.T) {
	golden := readVectors(t)
	shown := map[wire.Type]bool{}
	blocks := hexBlocks(t)
	for _, b := range blocks {
		where := fmt.Sprintf("%s:%d: %s", document, b.line, b.name)
		want, ok := golden[b.name]
		if !ok {
			t.Errorf("%s: no such golden vector", where)
			continue
		}
		got := unhex(t, b.hex.String())
		if !bytes.Equal(got, want.hex) {
			t.Errorf("%s\n got % x\nwant % x", where, got, want.hex)
		}
		for rest := got; len(rest) > 0; {
			e, after, err := parse(rest)
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			shown[e.header.Type], rest = true, after
		}
	}
	for typ, name := range typeNames {
		if !shown[typ] {
			t.Errorf("%s has no example of a %s frame", document, name)
		}
	}
}

// table returns the cells of the rows under a table's head, which is the line
// given.
func table(t *testing.T, head string) (rows [][]string) {
	t.Helper()
	found := false
	for _, line := range readDocument(t) {
		switch {
		case line == head:
			found = true
		case found && !strings.HasPrefix(line, "|"):
			return rows
		case found && !strings.HasPrefix(line, "|--"):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	t.Fatalf("%s has no table %q", document, head)
	return nil
}

// named reads a table of numbers and names, in the columns given.
func named(t *testing.T, head string, number, name int) map[string]uint64 {
	t.Helper()
	got := map[string]uint64{}
	for _, row := range table(t, head) {
		n, err := strconv.ParseUint(strings.ReplaceAll(row[number], ",", ""), 0, 64)
		if err != nil {
			t.Fatalf("%s: %q: %v", document, row, err)
		}
		got[row[name]] = n
	}
	return got
}

// TestDocumentTables compares the numbers in the document with the code.
func TestDocumentTables(t *testing.T) {
	types, flags, codes := map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	for typ, name := range typeNames {
		types[name] = uint64(typ)
	}
	for f, name := range flagNames {
		flags[name] = uint64(f)
	}
	for c := tandem.OK; c.Valid(); c++ {
		codes[c.String()] = uint64(c)
	}
	same(t, types, named(t, "| type | frame | sent by | payload |", 0, 1))
	same(t, flags, named(t, "| flag | name | on | meaning |", 0, 1))
	same(t, codes, named(t, "| code | name |", 0, 1))
	same(t, map[string]uint64{
		"drain": uint64(wire.ReasonDrain), "violation": uint64(wire.ReasonViolation),
		"version": uint64(wire.ReasonVersion), "overload": uint64(wire.ReasonOverload),
	}, named(t, "| reason | name | meaning |", 0, 1))
	same(t, map[string]uint64{
		"frame header": wire.HeaderLen, "preface without its settings": wire.PrefaceLen, "settings": wire.MaxSettings,
		"payload of a frame":       wire.MaxBlock,
		"largest message, default": wire.DefaultMaxMessage, "open calls, default": wire.DefaultMaxOpen, "open calls, most": wire.MaxOpenLimit,
		"stream window, default": wire.DefaultStreamWindow, "connection window, default": wire.DefaultConnWindow,
		"window, least": wire.MinWindow, "window, most": wire.MaxWindow,
		"metadata or trailer": wire.MaxMetadata, "pairs of metadata": wire.MaxMetadataPairs,
		"method name": wire.MaxName, "names with a number": wire.MaxNames, "bytes of these names": wire.MaxNameBytes,
		"status": wire.MaxStatus, "details of a status": wire.MaxDetails, "message of a goaway": wire.MaxName,
	}, named(t, "| limit | value |", 1, 0))
}

// TestDocumentSettings sends each setting of the document's table at the
// bounds and the default that it names.
func TestDocumentSettings(t *testing.T) {
	fields := func(s *wire.Settings) map[string]uint64 {
		return map[string]uint64{
			"largest message": s.MaxMessage, "open calls": s.MaxOpen,
			"stream window": s.StreamWindow, "connection window": s.ConnWindow,
		}
	}
	defaults := wire.DefaultSettings()
	for _, row := range table(t, "| id | setting | value | default |") {
		id, err := strconv.ParseUint(row[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if id > 4 {
			s, err := wire.ParseSettings(setting(id, []byte("name")))
			if got := map[string][]string{"codec": s.Codecs, "compressor": s.Compressors}[row[1]]; err != nil || len(got) != 1 {
				t.Errorf("setting %d is not %s: %v", id, row[1], err)
			}
			continue
		}
		var low, high, byDefault uint64
		numbers := strings.ReplaceAll(row[2]+" "+row[3], ",", "")
		words := strings.Fields(numbers)
		if _, err := fmt.Sscan(words[0]+" "+words[2]+" "+words[len(words)-1], &low, &high, &byDefault); err != nil {
			t.Fatalf("%q: %v", row, err)
		}
		if got := fields(&defaults)[row[1]]; got != byDefault {
			t.Errorf("%s is %d by default, the document says %d", row[1], got, byDefault)
		}
		for _, v := range []uint64{low, high} {
			s, err := wire.ParseSettings(setting(id, uv(v)))
			if got := fields(&s)[row[1]]; err != nil || got != v {
				t.Errorf("setting %d, %s, is %d: %v", id, row[1], got, err)
			}
		}
		for _, v := range []uint64{low - 1, high + 1} {
			if _, err := wire.ParseSettings(setting(id, uv(v))); err == nil {
				t.Errorf("%s may be %d", row[1], v)
			}
		}
	}
}
