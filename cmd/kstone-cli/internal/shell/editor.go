package shell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"github.com/reeflective/readline"
	"github.com/reeflective/readline/inputrc"
	"golang.org/x/term"
)

// ErrAborted is returned by Editor.Read for input that Ctrl-C has dropped.
var ErrAborted = errors.New("aborted")

// EditorOptions say what an Editor asks the shell for while a user types.
type EditorOptions struct {
	Prompt  func() string
	History *History
	// Whole reports whether a text needs no other line: Enter runs it.
	Whole func(text string) bool
	// Complete returns where the word before pos begins, in bytes, and what it may become.
	Complete func(text string, pos int) (start int, found []Candidate)
	// Hint returns a line that is shown below the text; nil for none.
	Hint func(text string) string
	// Highlight returns the text with colours; nil for none.
	Highlight func(text string) string
}

// Candidate is a word that Tab offers.
type Candidate struct {
	Text string // as it is inserted
	Kind string // candidates are listed by kind: "tables", "columns"
	Open bool   // more of the same word may follow, so that no space is added
}

// Editor reads commands and statements of any number of lines from a terminal.
type Editor struct{ rl *readline.Shell }

// NewEditor returns an editor on the terminal of the program.
func NewEditor(o EditorOptions) *Editor {
	rl := readline.NewShell()
	// Why these: a menu below the line comes first, then Tab walks through it; the cursor has
	// the shape that the user's terminal gives it; a terminal that does not report where the
	// cursor is would stop the shell (see roomBelow).
	for name, value := range map[string]any{
		"menu-complete-display-prefix": true, "multiline-column": false,
		"completion-ignore-case": true, "cursor-emacs": "default",
		"cursor-position-probe": false, "enable-bracketed-paste": true,
	} {
		_ = rl.Config.Set(name, value)
	}
	// In a search of the history Ctrl-R looks further back, and Ctrl-S forward again. Without these
	// both would end it.
	_ = rl.Config.Bind("isearch", inputrc.Unescape(`\C-r`), "menu-complete", false)
	_ = rl.Config.Bind("isearch", inputrc.Unescape(`\C-s`), "menu-complete-backward", false)
	externalEdit(rl)
	abortAhead(rl)
	rl.Prompt.Primary(func() string {
		prompt := o.Prompt()
		return roomBelow(prompt, string(*rl.Line())) + prompt
	})
	rl.Prompt.Secondary(func() string { return "..> " })
	rl.History.Delete()
	rl.History.Add("history", &source{History: o.History, lines: o.History.Lines()})
	rl.AcceptMultiline = func(line []rune) bool { return o.Whole(string(line)) }
	if o.Highlight != nil {
		rl.SyntaxHighlighter = func(line []rune) string { return o.Highlight(string(line)) }
	}
	if o.Hint != nil {
		rl.Hint.SetProvider(func(line []rune, _ int) []rune { return []rune(o.Hint(string(line))) })
	}
	rl.Completer = func(line []rune, cursor int) readline.Completions {
		text := string(line[:cursor])
		start, found := o.Complete(string(line), len(text))
		values := make([]readline.Completion, len(found))
		for i, c := range found {
			values[i] = readline.Completion{Value: c.Text, Display: c.Text, Tag: c.Kind}
		}
		all := readline.CompleteRaw(values)
		all.PREFIX = text[start:]
		for _, c := range found {
			if c.Open {
				last, _ := utf8.DecodeLastRuneInString(c.Text)
				all = all.NoSpace(last)
			}
		}
		return all
	}
	return &Editor{rl}
}

// abortAhead makes Ctrl-C drop a text also if further keys are there already, as those that are
// typed over a slow line. Why not the library's own command: it looks at the next key, loses that,
// and drops nothing, so that what is typed next becomes part of the text.
func abortAhead(rl *readline.Shell) {
	own := rl.Keymap.Commands()["abort"]
	rl.Keymap.Register(map[string]func(){"abort": func() {
		if rl.Keys.Empty() || rl.Keymap.Local() != "" { // of a menu or a search
			own()
			return
		}
		rl.Display.AcceptLine()
		rl.History.Accept(false, false, readline.ErrInterrupt)
	}})
}

// roomBelow returns what makes a terminal scroll until the rows of a text and one more are below
// the cursor, which stays at the prompt. Why: the line editor clears the row below a text, and
// where there is no such row it draws the prompt over the last line of a result. It could ask the
// terminal where the cursor is, but keys that are typed before the answer may be lost then.
func roomBelow(prompt, text string) string {
	cols, rows, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil || cols <= 0 {
		return ""
	}
	indent, n := runewidth.StringWidth(prompt), 1
	for i, line := range strings.Split(strings.ReplaceAll(text, "\t", "     "), "\n") {
		n += (indent + runewidth.StringWidth(line)) / cols
		if i > 0 {
			n++
		}
	}
	const down, up = "\x1bD", "\x1b[%dA" // the first scrolls
	n = min(n, rows-1)
	return strings.Repeat(down, n) + fmt.Sprintf(up, n)
}

// Read returns the next text that the user ends with Enter. It returns io.EOF for Ctrl-D and
// for the end of the input, and ErrAborted, with what is dropped, for Ctrl-C.
func (e *Editor) Read() (string, error) {
	text, err := e.rl.Readline()
	switch {
	case errors.Is(err, readline.ErrInterrupt):
		return text, ErrAborted
	case err != nil && !errors.Is(err, io.EOF):
		return "", err
	}
	return text, err
}

// source is a history as the line editor asks for it.
type source struct {
	*History
	lines []string
}

// Write stores a text that was run. One that the history does not keep is not offered either.
func (s *source) Write(text string) (int, error) {
	n := len(s.lines)
	if Kept(text) && (n == 0 || s.lines[n-1] != text) {
		s.lines = append(s.lines, text)
		s.Add(text)
	}
	return len(s.lines), nil
}

// GetLine returns the text with a number, counted from the oldest.
func (s *source) GetLine(n int) (string, error) {
	if n < 0 || n >= len(s.lines) {
		return "", io.EOF
	}
	return s.lines[n], nil
}

// Len returns how many texts there are.
func (s *source) Len() int { return len(s.lines) }

// Dump returns all texts.
func (s *source) Dump() any { return s.lines }
