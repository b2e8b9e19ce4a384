package record

import (
	"bufio"
	"io"
)

// An input of JSON lines may be one array instead, as other programs write it: then its elements
// are the records. They become lines before anything looks at them; a record of several lines has
// the number of its first one.

// beginsArray reports whether the first character of an input is "[".
func beginsArray(in *bufio.Reader) bool {
	for n := 1; ; n++ {
		head, err := in.Peek(n)
		if err != nil {
			return false
		}
		switch head[n-1] {
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf: // also the parts of a byte order mark
		default:
			return head[n-1] == '['
		}
	}
}

// elements reads an array as lines.
type elements struct {
	from  io.Reader
	chunk []byte
	out   []byte // what was not read yet
	err   error  // after out

	depth         int // 1 between elements
	text, escaped bool
	ended         bool
	comma         bool // the next element needs a line of its own
	fresh         bool // the line has no element yet
	inside        int  // line feeds of the present element, which follow it
}

// Read implements io.Reader.
func (e *elements) Read(p []byte) (int, error) {
	for len(e.out) == 0 && e.err == nil {
		if e.chunk == nil {
			e.chunk = make([]byte, 64<<10)
		}
		n, err := e.from.Read(e.chunk)
		for _, c := range e.chunk[:n] {
			e.add(c)
		}
		if e.err = err; err == io.EOF && e.depth > 0 {
			e.err = io.ErrUnexpectedEOF
		}
	}
	if len(e.out) == 0 {
		return 0, e.err
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

func (e *elements) add(c byte) {
	switch {
	case e.ended: // what follows is for the records to refuse
	case e.text:
		e.text = c != '"' || e.escaped
		e.escaped = c == '\\' && !e.escaped
	case c == '"':
		e.text = true
	case c == '[' || c == '{':
		if e.depth++; e.depth == 1 {
			c = ' '
		}
	case c == ']' || c == '}':
		if e.depth--; e.depth == 0 {
			c, e.ended = ' ', true
		}
	case c == '\n' && e.depth > 1:
		c = ' '
		e.inside++
	case c == ',' && e.depth == 1:
		e.comma = !e.fresh
		c = ' '
	}
	if e.comma && c != ' ' && c != '\t' && c != '\r' {
		if c != '\n' {
			e.out = append(e.out, '\n')
		}
		e.comma = false
	}
	e.out = append(e.out, c)
	e.fresh = c == '\n' || e.fresh && (c == ' ' || c == '\t' || c == '\r')
	for ; e.depth <= 1 && e.inside > 0; e.inside-- {
		e.out = append(e.out, '\n')
		e.fresh = true
	}
}
