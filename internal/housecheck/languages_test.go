//go:build !race

package housecheck

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// untranslated are the pages that have no Chinese version, or whose Chinese version is behind for
// a while, with the reason.
var untranslated = map[string]string{ //nolint:gochecknoglobals // a constant
	"docs/reference/imports.md":  "it is generated",
	"docs/reference/interop.md":  "it is generated",
	"docs/reference/packages.md": "its rows are the first lines of package comments, and each new package adds one",
}

// translatedFolders have a Chinese version of every page.
var translatedFolders = []string{"docs/tutorial/", "docs/howto/", "docs/reference/", "docs/explanation/"} //nolint:gochecknoglobals // a constant

// TestLanguagesAgree checks that each page of the documentation has a Chinese version in
// docs/zh, no Chinese page is without an English one, and both agree in what a machine can
// compare: levels of headings, tables and the numbers in them, code, and the names that each
// section has in code. Links of Chinese pages lead to Chinese pages where there are any.
func TestLanguagesAgree(t *testing.T) {
	pages := map[string]string{}
	for name, text := range files(t) {
		if strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md") {
			pages[name] = text
		}
	}
	for _, problem := range languageProblems(pages, untranslated) {
		t.Error(problem)
	}
}

// TestLanguageProblemsAreFound shows that TestLanguagesAgree can fail, and what it accepts.
func TestLanguageProblemsAreFound(t *testing.T) {
	const english = "# A\n\n## B\n\n| a | b |\n|---|---|\n| `A` 3 of 5 | two |\n\n```go\nf(1) // why\n// more\n```\n\n    $ run file:///a\n\n    wait of  2 · t\n"
	const chinese = "# 甲\n\n## 乙\n\n| 子 | 丑 |\n|---|---|\n| 5 `A` 中的 3 | 两 |\n\n```go\nf(1) // 原因\n```\n\n    $ run file:///a\n\n    等待  2 · t\n"
	if problems := languageProblems(map[string]string{"docs/howto/a.md": english, "docs/zh/howto/a.md": chinese, "docs/adr/1.md": "", "docs/reference/b.md": "", "docs/howto/c.md": "# c", "docs/zh/howto/c.md": "", "docs/README.md": "# d", "docs/zh/README.md": ""}, map[string]string{"docs/reference/b.md": "", "docs/howto/c.md": ""}); len(problems) > 0 {
		t.Errorf("found %q", problems)
	}
	for _, tc := range []struct{ was, is, want string }{
		{"## 乙", "### 乙", "levels [# ###], not [# ##]"},
		{"\n## 乙\n", "", "levels [#], not [# ##]"},
		{"| 5 `A` 中的 3 | 两 |\n", "`A`\n", "2 rows, not 3"},
		{"中的 3", "中的 4", "other numbers in a row"},
		{"中的 3", "3, 5", "other numbers in a row"},
		{"```go\nf(1) // 原因\n```\n", "", "1 blocks of code, not 2"},
		{"`A`", "`B`", "section 2: it lacks [`A`] and adds [`B`]"},
		{"## 乙", "## `乙`", "section 2: it lacks [] and adds [`乙`]"},
		{"```go", "```go fragment", "other code"},
		{"f(1)", "f(2)", "other code"},
		{"f(1)", "f(1)\ng(1)", "3 lines without comments, not 2"},
		{"file:///a", "file:///b", "other code"},
		{"等待  2", "等待  3", "other code"},
	} {
		bad := strings.Replace(chinese, tc.was, tc.is, 1)
		if d := differences(english, bad); bad == chinese || len(d) != 1 || !strings.Contains(d[0], tc.want) {
			t.Errorf("%q for %q: found %q, want %q", tc.is, tc.was, d, tc.want)
		}
	}
	for _, tc := range []struct {
		pages, exceptions map[string]string
		want              string
	}{
		{map[string]string{"docs/tutorial/a.md": ""}, nil, "docs/tutorial/a.md: it has no Chinese version in docs/zh"},
		{map[string]string{"docs/zh/a.md": ""}, nil, "docs/zh/a.md: there is no docs/a.md"},
		{map[string]string{"docs/howto/a.md": "# a", "docs/zh/howto/a.md": ""}, nil, "docs/howto/a.md: its Chinese version differs: its headings have the levels [], not [#]"},
		{map[string]string{"docs/howto/a.md": "", "docs/zh/howto/a.md": ""}, map[string]string{"docs/howto/a.md": ""}, "docs/howto/a.md: its Chinese version agrees, so it is no exception"},
		{map[string]string{"docs/a.md": "", "docs/b.md": "", "docs/zh/b.md": "[a](../a.md)", "docs/zh/a.md": "[b](b.md#c), [all](../README.md)"}, nil, "docs/zh/b.md: link to ../a.md, which has a Chinese version"},
		{nil, map[string]string{"docs/a.md": ""}, "docs/a.md: this exception does not exist"},
	} {
		if problems := languageProblems(tc.pages, tc.exceptions); !slices.Equal(problems, []string{tc.want}) {
			t.Errorf("found %q, want %q", problems, tc.want)
		}
	}
}

// languageProblems returns how the pages of the two languages differ.
func languageProblems(pages, exceptions map[string]string) (problems []string) {
	for name, text := range pages {
		if rest, chinese := strings.CutPrefix(name, "docs/zh/"); chinese {
			if _, found := pages["docs/"+rest]; !found {
				problems = append(problems, name+": there is no docs/"+rest)
			}
			problems = append(problems, englishLinks(pages, name)...)
			continue
		}
		if !slices.ContainsFunc(translatedFolders, func(f string) bool { return strings.HasPrefix(name, f) }) {
			continue
		}
		translated, found := pages["docs/zh/"+strings.TrimPrefix(name, "docs/")]
		_, excepted := exceptions[name]
		switch {
		case found:
			ds := differences(text, translated)
			if excepted && len(ds) == 0 {
				problems = append(problems, name+": its Chinese version agrees, so it is no exception")
			}
			for _, d := range ds {
				if !excepted {
					problems = append(problems, name+": its Chinese version differs: "+d)
				}
			}
		case !excepted:
			problems = append(problems, name+": it has no Chinese version in docs/zh")
		}
	}
	for name := range exceptions {
		if _, found := pages[name]; !found {
			problems = append(problems, name+": this exception does not exist")
		}
	}
	slices.Sort(problems)
	return problems
}

// englishLinks returns the links of a Chinese page to English ones that have a Chinese version.
func englishLinks(pages map[string]string, name string) (problems []string) {
	for _, m := range link.FindAllStringSubmatch(withoutCode(pages[name]), -1) {
		file, _, _ := strings.Cut(m[1], "#")
		rest, found := strings.CutPrefix(path.Join(path.Dir(name), file), "docs/")
		if _, translated := pages["docs/zh/"+rest]; found && translated {
			problems = append(problems, name+": link to "+m[1]+", which has a Chinese version")
		}
	}
	return problems
}

// outline is what a page has in every language.
type outline struct {
	headings []string   // their # signs
	spans    [][]string // of code, in each section
	rows     []string   // of tables
	blocks   []string   // code: with fences, the first line has the text after them; else "indented"
}

func outlineOf(text string) (o outline) {
	open, fenced := false, false // in a block; in one with fences
	var section strings.Builder
	endSection := func() {
		o.spans = append(o.spans, span.FindAllString(section.String(), -1))
		section.Reset()
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		switch {
		case strings.HasPrefix(line, "```"):
			if fenced = !fenced; fenced {
				o.blocks = append(o.blocks, strings.TrimPrefix(line, "```"))
			}
			open = fenced
		case fenced, open && (line == "" || strings.HasPrefix(line, "    ")):
			o.blocks[len(o.blocks)-1] += "\n" + line
		case strings.HasPrefix(line, "    "):
			o.blocks = append(o.blocks, "indented\n"+line)
			open = true
		default:
			open = false
			if strings.HasPrefix(line, "#") {
				endSection()
				o.headings = append(o.headings, strings.Repeat("#", len(line)-len(strings.TrimLeft(line, "#"))))
			} else if strings.HasPrefix(line, "|") {
				o.rows = append(o.rows, line)
			}
			section.WriteString(line + "\n")
		}
	}
	endSection()
	return o
}

// differences returns how the Chinese version of a page differs from the English one.
func differences(english, chinese string) (all []string) {
	e, c := outlineOf(english), outlineOf(chinese)
	if !slices.Equal(e.headings, c.headings) {
		all = append(all, fmt.Sprintf("its headings have the levels %v, not %v", c.headings, e.headings))
	} else {
		for i := range e.spans {
			if lacks, adds := without(e.spans[i], c.spans[i]), without(c.spans[i], e.spans[i]); lacks != nil || adds != nil {
				all = append(all, fmt.Sprintf("other names in code in section %d: it lacks %v and adds %v", i, lacks, adds))
			}
		}
	}
	if len(e.rows) != len(c.rows) {
		all = append(all, fmt.Sprintf("its tables have %d rows, not %d", len(c.rows), len(e.rows)))
	} else {
		for i := range e.rows {
			if !slices.Equal(numbers(e.rows[i]), numbers(c.rows[i])) {
				all = append(all, fmt.Sprintf("other numbers in a row:\n\t%s\n\t%s", e.rows[i], c.rows[i]))
			}
		}
	}
	if len(e.blocks) != len(c.blocks) {
		return append(all, fmt.Sprintf("it has %d blocks of code, not %d", len(c.blocks), len(e.blocks)))
	}
	for i := range e.blocks {
		all = append(all, codeDifferences(code(e.blocks[i]), code(c.blocks[i]))...)
	}
	return all
}

var (
	number  = regexp.MustCompile(`\d+(?:[.,]\d+)*`)
	comment = regexp.MustCompile(`(^|\s)(//|#)\s.*$`)
	span    = regexp.MustCompile("`[^`]+`")
	han     = regexp.MustCompile(`\p{Han}`)
)

// without returns what a has and b lacks.
func without(a, b []string) (only []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			only = append(only, s)
		}
	}
	return only
}

// numbers returns the numbers in a text, sorted: languages have different orders of words.
func numbers(text string) []string {
	all := number.FindAllString(text, -1)
	slices.Sort(all)
	return all
}

// code returns the lines of a block without comments and empty lines.
func code(block string) (lines []string) {
	for line := range strings.SplitSeq(block, "\n") {
		if line = strings.TrimRight(comment.ReplaceAllString(line, ""), " \t"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// codeDifferences compares two blocks. Of an indented line with Chinese words, as formulas have
// them, only the numbers are compared.
func codeDifferences(english, chinese []string) (all []string) {
	if len(english) != len(chinese) {
		return []string{fmt.Sprintf("a block of code has %d lines without comments, not %d: %q", len(chinese), len(english), english)}
	}
	for i, line := range english {
		same := line == chinese[i]
		if chinese[0] == "indented" && han.MatchString(chinese[i]) {
			same = slices.Equal(numbers(line), numbers(chinese[i]))
		}
		if !same {
			all = append(all, fmt.Sprintf("other code:\n\t%s\n\t%s", line, chinese[i]))
		}
	}
	return all
}
