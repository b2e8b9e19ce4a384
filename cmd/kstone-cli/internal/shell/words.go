// Package shell holds what an interactive shell needs beyond its commands: lines cut
// into words, the history file, and the search for the word to complete.
package shell

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrOpenQuote is returned by Split for a line that ends inside of quotes: the next
// line belongs to it.
var ErrOpenQuote = errors.New("a quote is not closed")

// Word is a word of a line.
type Word struct {
	Text  string // without quotes and escapes; any bytes
	Start int    // where it begins in the line, in bytes
}

// Split cuts a line into words, which are separated by spaces. Inside of single quotes
// everything stands for itself. Inside of double quotes escapes work as in Go: \n,
// \x00, \u00e9, \". Outside of quotes a backslash makes the next character ordinary. A
// # at the start of a word begins a comment, and so does -- at the start of the line,
// as in statements, unless it begins a flag.
func Split(line string) ([]Word, error) {
	words, open, err := scan(line)
	if err == nil && open {
		err = ErrOpenQuote
	}
	return words, err
}

// Last cuts a line that is being typed. It returns the complete words and the one that
// the line ends in, which is empty after a space.
func Last(line string) (words []Word, last Word) {
	words, open, _ := scan(line)
	r, _ := utf8.DecodeLastRuneInString(line)
	if !open && (len(words) == 0 || unicode.IsSpace(r) && !endsEscaped(line)) {
		return words, Word{Start: len(line)}
	}
	n := len(words) - 1
	return words[:n], words[n]
}

// endsEscaped reports whether the last blank belongs to a word because of a backslash.
func endsEscaped(line string) bool {
	n := 0
	for i := len(line) - 2; i >= 0 && line[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

func scan(line string) (words []Word, open bool, err error) {
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case unicode.IsSpace(r):
			i += size
			continue
		case r == '#', len(words) == 0 && isComment(line[i:]):
			return words, false, nil
		}
		word := Word{Start: i}
		var text []byte
		text, i, open, err = scanWord(line, i)
		if err != nil {
			return words, false, err
		}
		word.Text = string(text)
		words = append(words, word)
	}
	return words, open, nil
}

func isComment(line string) bool {
	rest, ok := strings.CutPrefix(line, "--")
	r, _ := utf8.DecodeRuneInString(rest)
	return ok && !unicode.IsLetter(r)
}

// scanWord reads the word at i and returns where it ends.
func scanWord(line string, i int) (text []byte, end int, open bool, err error) {
	for i < len(line) {
		r, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case unicode.IsSpace(r):
			return text, i, false, nil
		case r == '\'':
			n := strings.IndexByte(line[i+1:], '\'')
			if n < 0 {
				return append(text, line[i+1:]...), len(line), true, nil
			}
			text = append(text, line[i+1:i+1+n]...)
			i += n + 2
		case r == '"':
			text, i, open, err = scanQuoted(text, line, i+1)
			if open || err != nil {
				return text, i, open, err
			}
		case r == '\\' && i+size < len(line):
			_, next := utf8.DecodeRuneInString(line[i+1:])
			text = append(text, line[i+1:i+1+next]...)
			i += 1 + next
		default:
			text = append(text, line[i:i+size]...)
			i += size
		}
	}
	return text, i, false, nil
}

// scanQuoted reads the inside of double quotes, from after the opening one.
func scanQuoted(text []byte, line string, i int) ([]byte, int, bool, error) {
	rest := line[i:]
	for rest != "" {
		switch rest[0] {
		case '"':
			return text, len(line) - len(rest) + 1, false, nil
		case '\n': // of a line that continues
			text, rest = append(text, '\n'), rest[1:]
			continue
		case '\\':
			if len(rest) == 1 {
				return text, len(line), true, nil
			}
		}
		r, multibyte, tail, err := strconv.UnquoteChar(rest, '"')
		if err != nil {
			return text, i, false, errors.New(`a bad escape in double quotes; \\ is a backslash, ` +
				`in single quotes everything stands for itself`)
		}
		switch {
		case r < utf8.RuneSelf || !multibyte:
			text = append(text, byte(r))
		case r == utf8.RuneError && rest[0] != '\\': // a byte that is no UTF-8 stays
			text = append(text, rest[:len(rest)-len(tail)]...)
		default:
			text = utf8.AppendRune(text, r)
		}
		rest = tail
	}
	return text, len(line), true, nil
}

// Quote returns text as one word of a line.
func Quote(text string) string {
	plain := text != "" && text[0] != '#'
	for _, r := range text {
		if unicode.IsSpace(r) || strings.ContainsRune(`"'\`, r) || r == utf8.RuneError ||
			!strconv.IsPrint(r) {
			plain = false
		}
	}
	if plain {
		return text
	}
	return strconv.Quote(text)
}

// Completed returns text as the word that a user has begun with typed, quotes and escapes
// included: it begins the same way where it can.
func Completed(typed, text string) string {
	quoted := Quote(text)
	if quoted == text || typed == "" || typed[0] == '"' || typed[0] == '\'' ||
		strings.ContainsFunc(text, func(r rune) bool {
			return r == utf8.RuneError || !strconv.IsPrint(r)
		}) {
		return quoted
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsSpace(r) || strings.ContainsRune(`"'\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
