package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Colours of the parts of a text. Why these: the 16 colours of the terminal are those that its
// theme makes readable, on a dark ground and on a light one.
const (
	colorKeyword = "\x1b[1;34m"
	colorQuoted  = "\x1b[32m"
	colorNumber  = "\x1b[35m"
	colorComment = "\x1b[2m"
	colorEnd     = "\x1b[0m"
)

// Highlight returns a statement with its keywords, quoted texts, numbers and comments in
// colours. Without the colours it is the same text.
func Highlight(text string, keyword func(word string) bool) string {
	var b strings.Builder
	for text != "" {
		n, color := token(text, keyword)
		if color == "" {
			b.WriteString(text[:n])
		} else {
			b.WriteString(color + text[:n] + colorEnd)
		}
		text = text[n:]
	}
	return b.String()
}

// token returns the length of the first token of a text and its colour.
func token(text string, keyword func(string) bool) (n int, color string) {
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case r == '\'', r == '"', r == '`':
		return until(text, 1, text[:1]), colorQuoted
	case strings.HasPrefix(text, "--"):
		return until(text, 2, "\n"), colorComment
	case strings.HasPrefix(text, "/*"):
		return until(text, 2, "*/"), colorComment
	case unicode.IsDigit(r):
		return span(text, func(r rune) bool { return isWord(r) || r == '.' }), colorNumber
	case isWord(r):
		n = span(text, isWord)
		if keyword(text[:n]) {
			return n, colorKeyword
		}
		return n, ""
	}
	return size, ""
}

// until returns where a part that end closes is over, from a place after its begin.
func until(text string, from int, end string) int {
	if i := strings.Index(text[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(text)
}

// span returns the length of the runes at the start of a text for which in is true.
func span(text string, in func(rune) bool) int {
	if n := strings.IndexFunc(text, func(r rune) bool { return !in(r) }); n >= 0 {
		return n
	}
	return len(text)
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
