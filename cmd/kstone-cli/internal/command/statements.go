package command

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/shell"
	"github.com/kstonedb/kstone/engine/sql"
)

// inputBytes is how much of the input is read at a time, or more until a statement is whole.
const inputBytes = 1 << 20

// statements are texts of whole statements, read one after the other.
type statements struct {
	in      *bufio.Reader // nil for a text that is given
	pending []byte
	whole   int // end of the last whole statement in pending
	inside  openQuote
	line    int // how many lines came before pending
	ended   bool
}

// newStatements returns those of the arguments, or of the input.
func newStatements(a *cli.App, args []string) (*statements, error) {
	if len(args) != 1 || args[0] != "-" {
		return &statements{pending: []byte(strings.Join(args, " ")), ended: true}, nil
	}
	in, err := a.Stdin("statements", ".read FILE runs those of a file")
	if err != nil {
		return nil, err
	}
	return &statements{in: bufio.NewReaderSize(in, 64<<10)}, nil
}

// next returns as many statements as one text may hold, and how many lines came before them.
// A statement beyond the limit is returned with what surrounds it, for the parser to refuse.
// More reports whether there are others after them.
func (s *statements) next() (text string, before int, more bool, err error) {
	for !s.ended && (len(s.pending) <= inputBytes || s.whole == 0) &&
		len(s.pending) <= sql.MaxStatementBytes {
		start := len(s.pending)
		err := bufio.ErrBufferFull
		for errors.Is(err, bufio.ErrBufferFull) && len(s.pending)-start <= sql.MaxStatementBytes {
			var part []byte
			part, err = s.in.ReadSlice('\n')
			s.pending = append(s.pending, part...)
		}
		if s.ended = errors.Is(err, io.EOF); err != nil && !s.ended &&
			!errors.Is(err, bufio.ErrBufferFull) {
			return "", 0, false, err
		}
		line := string(s.pending[start:])
		if s.inside.ends(s.pending[s.whole:], line) {
			s.whole = len(s.pending)
		}
	}
	end := len(s.pending)
	if end > inputBytes && s.whole > 0 {
		end = s.whole
	}
	text, before = string(s.pending[:end]), s.line
	s.line += bytes.Count(s.pending[:end], []byte("\n"))
	s.pending = append(s.pending[:0], s.pending[end:]...)
	s.whole = 0
	return text, before, !s.ended || len(bytes.TrimSpace(s.pending)) > 0, nil
}

// openQuote is the mark of the quotes or comment that a text ends in, "" outside of them. It
// spares sql.Complete the lines that cannot end a statement.
type openQuote string

// quoteEnds are the marks with what ends them. A doubled quote ends one and begins another.
var quoteEnds = map[openQuote]string{"'": "'", `"`: `"`, "--": "\n", "/*": "*/"}

// ends reports whether statements are whole with their last line, after which q is the state.
// Why it looks at the line first: sql.Complete reads all of the text.
func (q *openQuote) ends(text []byte, line string) bool {
	semicolon := false
	for {
		if *q != "" {
			_, rest, ended := strings.Cut(line, quoteEnds[*q])
			if !ended {
				return false
			}
			*q, line = "", rest
		}
		at := len(line)
		for mark := range quoteEnds {
			if i := strings.Index(line[:at], string(mark)); i >= 0 {
				at, *q = i, mark
			}
		}
		semicolon = semicolon || strings.Contains(line[:at], ";")
		if *q == "" {
			return semicolon && sql.Complete(string(text))
		}
		line = line[at+len(*q):]
	}
}

// unfinished is a command or statement of a script up to some line. Why not goesOn of it with each
// line: that reads all of it, and a dump has statements of many lines.
type unfinished struct {
	text   []byte
	sql    bool
	inside openQuote
}

// add adds a line and reports whether another one is needed.
func (u *unfinished) add(line string) (more bool) {
	if len(u.text) == 0 {
		u.sql, u.inside = isSQL(line), ""
	}
	if u.text = append(u.text, line...); u.sql {
		return !u.inside.ends(u.text, line)
	}
	return goesOn(string(u.text))
}

// goesOn reports whether a command or statement needs another line.
func goesOn(text string) bool {
	if isSQL(text) {
		return !sql.Complete(text)
	}
	_, statement := sqlWord(text)
	_, err := shell.Split(text)
	return !statement && errors.Is(err, shell.ErrOpenQuote)
}

// scriptOf returns commands as a script. A statement needs no semicolon.
func scriptOf(commands []string) io.Reader {
	var b strings.Builder
	for _, c := range commands {
		if b.WriteString(c + "\n"); isSQL(c) && !sql.Complete(c) {
			b.WriteString(";\n")
		}
	}
	return strings.NewReader(b.String())
}

// placed adds the lines before a text to the place of an error in it.
func placed(err error, before int) error {
	var e *sql.Error
	var l *lineError
	switch {
	case errors.As(err, &e):
		e.Line += before
	case errors.As(err, &l):
		l.line += before
	}
	return err
}
