package keycodec

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Collation is a rule by which strings that differ are equal and sort together. It
// belongs to the schema, not to the bytes; it is fixed for the life of the data.
type Collation uint8

// The collations. Both fold case: they compare strings as if in lower case. Neither
// normalizes: "é" as one code point and as two are different strings. Where that matters,
// normalize before writing and before querying.
const (
	CollateBytes   Collation = iota // no folding: the order of the unsigned bytes
	CollateASCII                    // A to Z fold to a to z, all else is as it is
	CollateUnicode                  // simple case folding (Unicode CaseFolding.txt, C and S)
)

// On disk (schema files): the collations' names.
var collationNames = [...]string{CollateBytes: "", CollateASCII: "ascii",
	CollateUnicode: "unicode"}

// String returns "", "ascii" or "unicode".
func (c Collation) String() string {
	if c.valid() {
		return collationNames[c]
	}
	return fmt.Sprintf("collation %d", uint8(c))
}

func (c Collation) valid() bool { return int(c) < len(collationNames) }

// Fold returns what the collation makes of s: two strings are equal under it if their
// folded forms are the same bytes, and sort like these. Folding twice changes nothing.
// Bytes that are not valid UTF-8 stay.
func (c Collation) Fold(s string) string {
	if c.folded(s) {
		return s
	}
	return string(c.AppendFolded(nil, s))
}

// folded reports whether s is its own folded form. It allocates nothing.
func (c Collation) folded(s string) bool {
	if c == CollateBytes {
		return true
	}
	for i := 0; i < len(s); {
		if b := s[i]; b < utf8.RuneSelf {
			if 'A' <= b && b <= 'Z' {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if c == CollateUnicode && (r != utf8.RuneError || n > 1) && foldRune(r) != r {
			return false
		}
		i += n
	}
	return true
}

// AppendFolded appends the folded form of s: see Fold.
func (c Collation) AppendFolded(dst []byte, s string) []byte {
	if c == CollateBytes {
		return append(dst, s...)
	}
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf || c != CollateUnicode {
			if 'A' <= b && b <= 'Z' {
				b += 'a' - 'A'
			}
			dst = append(dst, b)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, b)
		} else {
			dst = utf8.AppendRune(dst, foldRune(r))
		}
		i += n
	}
	return dst
}

// foldRune returns the simple case folding of r: the lower case of its upper case.
// Cherokee folds to upper case, as its lower case came later.
//
// Why it may depend on the tables of the Go release: Unicode never changes the folding of
// a character that exists, so a later table folds all text of today's characters alike.
func foldRune(r rune) rune {
	if unicode.SimpleFold(r) == r {
		return r // no other character differs from it in case only; so İ, whose lower case is i
	}
	upper := unicode.ToUpper(r)
	if 0x13a0 <= upper && upper <= 0x13f5 { // Cherokee
		return upper
	}
	return unicode.ToLower(upper)
}

// append appends the ordered encoding of s under the collation.
func (c Collation) append(dst []byte, s string) []byte {
	if c == CollateBytes {
		return AppendString(dst, s)
	}
	return append(c.appendOpen(dst, s), escape, terminator)
}

// appendOpen is append without the terminator.
func (c Collation) appendOpen(dst []byte, s string) []byte {
	if c == CollateBytes {
		return PrefixString(dst, s)
	}
	for {
		// A zero byte is a character by itself, so folding the parts is folding the whole.
		part, rest, more := strings.Cut(s, "\x00")
		dst = c.AppendFolded(dst, part)
		if !more {
			return dst
		}
		dst, s = append(dst, escape, escapedNul), rest
	}
}

// decode reads a string in its folded form.
func (c Collation) decode(b []byte) (s string, rest []byte, err error) {
	s, rest, err = DecodeString(b)
	if err == nil && !c.folded(s) {
		return "", nil, damaged("string", 0, "folded text", strconv.Quote(s))
	}
	return s, rest, err
}

// appendCase appends the text that a collated field was given, for fields that keep their
// case: as a string, or as the empty string if it is its own folded form.
func (c Collation) appendCase(dst []byte, text string) []byte {
	if c.folded(text) {
		return AppendString(dst, "")
	}
	return AppendString(dst, text)
}

// decodeCase reads what appendCase wrote for a text with the given folded form.
func (c Collation) decodeCase(b []byte, folded string) (text string, rest []byte, err error) {
	text, rest, err = DecodeString(b)
	switch {
	case err != nil:
		return "", nil, err
	case text == "":
		return folded, rest, nil
	case text == folded || c.Fold(text) != folded:
		return "", nil, damaged("kept case", 0, "another spelling of "+strconv.Quote(folded),
			strconv.Quote(text))
	}
	return text, rest, nil
}
