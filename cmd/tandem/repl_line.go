package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// splitLine splits a line into words at blanks. Single quotes hold blanks together, as in a shell.
// JSON needs no quotes: from the first word on that begins with a brace, a bracket, a double quote
// or a minus sign and a digit, the rest of the line is returned as it is.
func splitLine(line string) (words []string, rest string, err error) {
	for line = strings.TrimLeft(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t") {
		if len(words) > 0 && beginsJSON(line) {
			return words, strings.TrimSpace(line), nil
		}
		var word strings.Builder
		for line != "" && line[0] != ' ' && line[0] != '\t' {
			if line[0] != '\'' {
				word.WriteByte(line[0])
				line = line[1:]
				continue
			}
			quoted, after, ok := strings.Cut(line[1:], "'")
			if !ok {
				return nil, "", usagef("a single quote is not closed")
			}
			word.WriteString(quoted)
			line = after
		}
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, "", errors.New("an empty line")
	}
	return words, "", nil
}

func beginsJSON(text string) bool {
	switch {
	case strings.ContainsRune(`{["`, rune(text[0])):
		return true
	case text[0] == '-' && len(text) > 1:
		return text[1] >= '0' && text[1] <= '9'
	}
	return false
}

// plainLines reads lines of standard input that is no terminal.
type plainLines struct{ in *bufio.Scanner }

func newPlainLines(in io.Reader) *plainLines {
	l := &plainLines{bufio.NewScanner(in)}
	l.in.Buffer(nil, maxInput)
	return l
}

func (l *plainLines) next(string) (string, error) {
	if l.in.Scan() {
		return l.in.Text(), nil
	}
	if err := l.in.Err(); err != nil {
		return "", fmt.Errorf("reading commands: %w", err)
	}
	return "", io.EOF
}

// terminalOf returns the terminal of a shell, if its input and its output are one.
func terminalOf(sh *shell) (in, out *os.File, ok bool) {
	in, isFile := sh.in.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) || !isTerminal(sh.out) {
		return nil, nil, false
	}
	out, isFile = sh.out.(*os.File)
	return in, out, isFile
}

// terminalLines reads lines of a terminal, which can be edited. Between two lines the terminal is
// as it was, so that commands print as always, and signals come.
type terminalLines struct {
	in, out *os.File
	editor  *term.Terminal

	mu     sync.Mutex
	before *term.State // of the terminal while a line is edited, else nil
}

// guard ends the process at SIGTERM and SIGHUP, with the terminal as it was: nothing else ends the
// reading of a terminal. The function that it returns ends the guard.
func (l *terminalLines) guard() func() {
	signals, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case <-signals:
			_ = l.restore() // there is nothing else to do
			os.Exit(exitInterrupted)
		case <-ended:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}

// restore makes the terminal what it was before a line was edited.
func (l *terminalLines) restore() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before == nil {
		return nil
	}
	err := term.Restore(int(l.in.Fd()), l.before)
	l.before = nil
	return err
}

// raw lets each key come by itself.
func (l *terminalLines) raw() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, err = term.MakeRaw(int(l.in.Fd()))
	return err
}

func newTerminalLines(in, out *os.File, complete func(line string) (string, bool)) *terminalLines {
	l := &terminalLines{in: in, out: out, editor: term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, "")}
	l.editor.AutoCompleteCallback = func(line string, at int, key rune) (string, int, bool) {
		if key != '\t' || at != len(line) {
			return "", 0, false
		}
		longer, ok := complete(line)
		return longer, len(longer), ok
	}
	return l
}

func (l *terminalLines) next(prompt string) (string, error) {
	if err := l.raw(); err != nil {
		return "", err
	}
	if width, height, err := term.GetSize(int(l.out.Fd())); err == nil && width > 0 {
		_ = l.editor.SetSize(width, height) // it only repaints, and fails as ReadLine does
	}
	l.editor.SetPrompt(prompt)
	line, err := l.editor.ReadLine()
	if restored := l.restore(); err == nil && restored != nil {
		return "", restored
	}
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	if errors.Is(err, io.EOF) {
		_, _ = fmt.Fprintln(l.out) // behind the prompt
	}
	return line, err
}

// completeLine returns the line with its last word completed, as far as that is clear: a command,
// or a method of the target.
func (r *repl) completeLine(line string) (string, bool) {
	words := strings.Fields(line)
	if strings.HasSuffix(line, " ") || len(words) == 0 {
		words = append(words, "")
	}
	var choices []string
	switch {
	case len(words) == 1:
		for _, c := range replCommands() {
			choices = append(choices, c.name)
		}
	case words[0] == "call" || words[0] == "describe":
		if r.methods == nil {
			ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
			defer cancel()
			r.methods = r.access.methodNames(ctx, []string{r.target})
		}
		for _, m := range r.methods {
			name, _, _ := strings.Cut(m, "\t")
			choices = append(choices, name)
		}
	}
	typed := words[len(words)-1]
	choices = slices.DeleteFunc(choices, func(c string) bool { return !strings.HasPrefix(c, typed) })
	if len(choices) == 0 {
		return "", false
	}
	longest := choices[0]
	for _, c := range choices {
		for !strings.HasPrefix(c, longest) {
			longest = longest[:len(longest)-1]
		}
	}
	if len(choices) == 1 && !strings.HasSuffix(longest, ".") {
		longest += " "
	}
	return strings.TrimSuffix(line, typed) + longest, longest != typed
}
