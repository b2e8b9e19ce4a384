package expr

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/kstonedb/kstone/keycodec"
)

// maxTextBytes bounds the texts that functions make longer than their arguments: no longer one can
// be stored.
const maxTextBytes = 64 << 20

func ofText(f func(string) string) func([]Value) (Value, error) {
	return func(args []Value) (Value, error) { return String(f(args[0].s)), nil }
}

// trim cuts off blanks, or the given characters.
func trim(cut func(s, characters string) string) func([]Value) (Value, error) {
	return func(args []Value) (Value, error) {
		characters := " "
		if len(args) == 2 {
			characters = args[1].s
		}
		return String(cut(args[0].s, characters)), nil
	}
}

// Bytes that are not UTF-8 are characters of their own, and stay as they are.

// cased returns what f, which knows UTF-8 alone, makes of a text.
func cased(f func(string) string) func(string) string {
	return func(s string) string {
		var before strings.Builder
		for !utf8.ValidString(s) {
			n := 0
			for r, size := utf8.DecodeRuneInString(s); r != utf8.RuneError || size > 1; {
				n += size
				r, size = utf8.DecodeRuneInString(s[n:])
			}
			before.WriteString(f(s[:n]))
			before.WriteByte(s[n])
			s = s[n+1:]
		}
		return before.String() + f(s)
	}
}

func reversed(s string) string {
	out := make([]byte, 0, len(s))
	for s != "" {
		_, n := utf8.DecodeLastRuneInString(s)
		out, s = append(out, s[len(s)-n:]...), s[:len(s)-n]
	}
	return string(out)
}

// characters returns the first characters of a text, at most n.
func characters(s string, n int64) string {
	for i := range s {
		if n <= 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func callLength(args []Value) (Value, error) {
	if v := args[0]; v.kind != KindString {
		return Int(int64(v.Len())), nil
	}
	return Int(int64(utf8.RuneCountInString(args[0].s))), nil
}

func callOctetLength(args []Value) (Value, error) { return Int(int64(len(args[0].s))), nil }

func callHex(args []Value) (Value, error) {
	if err := longText(2 * int64(len(args[0].s))); err != nil {
		return Value{}, err
	}
	return String(fmt.Sprintf("%X", args[0].s)), nil
}

// longText returns an error for a text that functions do not make.
func longText(bytes int64) error {
	if bytes <= maxTextBytes {
		return nil
	}
	return fmt.Errorf("%w: a text of more than %d bytes", ErrRange, maxTextBytes)
}

func callConcat(args []Value) (Value, error) {
	var b strings.Builder
	for _, v := range args {
		text, err := CastType{Kind: KindString}.Convert(v)
		if err == nil {
			err = longText(int64(b.Len() + len(text.s)))
		}
		if err != nil {
			return Value{}, err
		}
		b.WriteString(text.s)
	}
	return String(b.String()), nil
}

// callSubstr returns the characters from the given one on, which is counted from 1, or
// from the end if negative.
func callSubstr(args []Value) (Value, error) {
	s := args[0].s
	from, _ := args[1].AsInt()
	if from < 0 {
		from += int64(utf8.RuneCountInString(s)) + 1
	}
	from--
	rest := s[len(characters(s, from)):]
	if len(args) < 3 {
		return String(rest), nil
	}
	count, _ := args[2].AsInt()
	if from < 0 && count > 0 { // what lies before the first character counts
		count += from
	}
	return String(characters(rest, count)), nil
}

// callLeft returns the first characters, all but the last ones for a negative count.
func callLeft(args []Value) (Value, error) {
	s := args[0].s
	n, _ := args[1].AsInt()
	if n < 0 {
		n += int64(utf8.RuneCountInString(s))
	}
	return String(characters(s, n)), nil
}

// callRight returns the last characters, all but the first ones for a negative count.
func callRight(args []Value) (Value, error) {
	s := args[0].s
	n, _ := args[1].AsInt()
	if n >= 0 {
		n -= int64(utf8.RuneCountInString(s))
	}
	return String(s[len(characters(s, -max(n, -math.MaxInt64))):]), nil
}

// pad fills a text up to a length, or cuts it there.
func pad(before bool) func([]Value) (Value, error) {
	return func(args []Value) (Value, error) {
		n, _ := args[1].AsInt()
		n = max(n, 0)
		s, fill := args[0].s, " "
		if len(args) == 3 {
			fill = args[2].s
		}
		missing := n - int64(utf8.RuneCountInString(s))
		switch {
		case n > maxTextBytes/utf8.UTFMax:
			return Value{}, fmt.Errorf("%w: a text of %d characters", ErrRange, n)
		case missing <= 0 || fill == "":
			return String(characters(s, n)), nil
		}
		times := missing/int64(utf8.RuneCountInString(fill)) + 1
		filling := characters(strings.Repeat(fill, int(times)), missing)
		if before {
			return String(filling + s), nil
		}
		return String(s + filling), nil
	}
}

func callReplace(args []Value) (Value, error) {
	s, from, to := args[0].s, args[1].s, args[2].s
	if from == "" {
		return args[0], nil
	}
	more := int64(strings.Count(s, from)) * int64(len(to)-len(from))
	if err := longText(int64(len(s)) + more); err != nil {
		return Value{}, err
	}
	return String(strings.ReplaceAll(s, from, to)), nil
}

func callRepeat(args []Value) (Value, error) {
	n, _ := args[1].AsInt()
	if n > 0 && int64(len(args[0].s)) > maxTextBytes/n {
		return Value{}, fmt.Errorf("%w: a text of more than %d bytes", ErrRange, maxTextBytes)
	}
	return String(strings.Repeat(args[0].s, int(max(0, min(n, maxTextBytes))))), nil
}

// callCasefold returns what a collation makes of a text: texts that it takes for equal become one.
func callCasefold(args []Value) (Value, error) {
	if len(args) == 1 {
		return String(keycodec.CollateUnicode.Fold(args[0].s)), nil
	}
	for _, c := range []keycodec.Collation{keycodec.CollateASCII, keycodec.CollateUnicode} {
		if strings.EqualFold(args[1].s, c.String()) {
			return String(c.Fold(args[0].s)), nil
		}
	}
	return Value{}, fmt.Errorf("%s is not one of %s, %s", args[1], keycodec.CollateASCII,
		keycodec.CollateUnicode)
}

// callConcatWs leaves out NULLs, but for the separator.
func callConcatWs(args []Value) (Value, error) {
	if args[0].kind == KindNull {
		return Value{}, nil
	}
	var parts []string
	size := int64(0)
	for _, v := range args[1:] {
		if v.kind == KindNull {
			continue
		}
		text, err := CastType{Kind: KindString}.Convert(v)
		if size += int64(len(text.s) + len(args[0].s)); err == nil {
			err = longText(size)
		}
		if err != nil {
			return Value{}, err
		}
		parts = append(parts, text.s)
	}
	return String(strings.Join(parts, args[0].s)), nil
}

// callInstr returns the character, from 1, at which a part is first found, 0 if it is not there.
func callInstr(args []Value) (Value, error) {
	at := strings.Index(args[0].s, args[1].s)
	if at < 0 {
		return Int(0), nil
	}
	return Int(int64(utf8.RuneCountInString(args[0].s[:at])) + 1), nil
}
