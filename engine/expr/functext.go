package expr

import (
	"fmt"
	"slices"
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

func reversed(s string) string {
	runes := []rune(s)
	slices.Reverse(runes)
	return string(runes)
}

func callLength(args []Value) (Value, error) {
	if v := args[0]; v.kind != KindString {
		return Int(int64(v.Len())), nil
	}
	return Int(int64(utf8.RuneCountInString(args[0].s))), nil
}

func callOctetLength(args []Value) (Value, error) { return Int(int64(len(args[0].s))), nil }

func callHex(args []Value) (Value, error) {
	if err := longText(2 * len(args[0].s)); err != nil {
		return Value{}, err
	}
	return String(fmt.Sprintf("%X", args[0].s)), nil
}

// longText returns an error for a text that functions do not make.
func longText(bytes int) error {
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
			err = longText(b.Len() + len(text.s))
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
	runes := []rune(args[0].s)
	n := int64(len(runes))
	from, _ := args[1].AsInt()
	if from < 0 {
		from += n + 1
	}
	if from--; len(args) < 3 {
		return String(string(runes[min(max(0, from), n):])), nil
	}
	count, _ := args[2].AsInt()
	if from < 0 && count > 0 { // what lies before the first character counts
		count, from = count+from, 0
	}
	if count <= 0 || from >= n {
		return String(""), nil
	}
	return String(string(runes[from:min(from+min(count, n), n)])), nil
}

// callLeft returns the first characters, all but the last ones for a negative count.
func callLeft(args []Value) (Value, error) {
	runes := []rune(args[0].s)
	return String(string(runes[:countOf(runes, args[1])])), nil
}

// callRight returns the last characters, all but the first ones for a negative count.
func callRight(args []Value) (Value, error) {
	runes := []rune(args[0].s)
	return String(string(runes[len(runes)-countOf(runes, args[1]):])), nil
}

// countOf returns a number of characters; a negative one counts from the other end.
func countOf(runes []rune, count Value) int {
	n, _ := count.AsInt()
	if n < 0 {
		n = max(n, -int64(len(runes))) + int64(len(runes))
	}
	return int(min(n, int64(len(runes))))
}

// pad fills a text up to a length, or cuts it there.
func pad(before bool) func([]Value) (Value, error) {
	return func(args []Value) (Value, error) {
		n, _ := args[1].AsInt()
		runes, fill := []rune(args[0].s), []rune(" ")
		if len(args) == 3 {
			fill = []rune(args[2].s)
		}
		switch {
		case n > maxTextBytes/utf8.UTFMax:
			return Value{}, fmt.Errorf("%w: a text of %d characters", ErrRange, n)
		case n <= int64(len(runes)) || len(fill) == 0:
			return String(string(runes[:max(0, min(n, int64(len(runes))))])), nil
		}
		filling := make([]rune, int(n)-len(runes))
		for i := range filling {
			filling[i] = fill[i%len(fill)]
		}
		if before {
			return String(string(filling) + args[0].s), nil
		}
		return String(args[0].s + string(filling)), nil
	}
}

func callReplace(args []Value) (Value, error) {
	s, from, to := args[0].s, args[1].s, args[2].s
	if from == "" {
		return args[0], nil
	}
	if err := longText(len(s) + strings.Count(s, from)*(len(to)-len(from))); err != nil {
		return Value{}, err
	}
	return String(strings.ReplaceAll(s, from, to)), nil
}

func callRepeat(args []Value) (Value, error) {
	n, _ := args[1].AsInt()
	if n > 0 && int64(len(args[0].s)) > maxTextBytes/n {
		return Value{}, fmt.Errorf("%w: a text of more than %d bytes", ErrRange, maxTextBytes)
	}
	return String(strings.Repeat(args[0].s, int(max(0, n)))), nil
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
	size := 0
	for _, v := range args[1:] {
		if v.kind == KindNull {
			continue
		}
		text, err := CastType{Kind: KindString}.Convert(v)
		if size += len(text.s) + len(args[0].s); err == nil {
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
