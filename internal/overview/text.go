package overview

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kstonedb/kstone/engine/expr"
)

// KeyText returns a key as text or, if that cannot be shown, as x and hexadecimal digits.
func KeyText(key []byte) string {
	if !utf8.Valid(key) {
		return "x" + hex.EncodeToString(key)
	}
	for _, r := range string(key) {
		if !unicode.IsPrint(r) {
			return "x" + hex.EncodeToString(key)
		}
	}
	return string(key)
}

// AppendValue appends a value without quotes, a list as a statement has it; NULL as nothing.
func AppendValue(dst []byte, v expr.Value) []byte {
	switch v.Kind() {
	case expr.KindNull:
		return dst
	case expr.KindFloat:
		f, _ := v.AsFloat()
		return strconv.AppendFloat(dst, f, 'g', -1, 64)
	case expr.KindString:
		s, _ := v.AsString()
		return append(dst, s...)
	case expr.KindTime:
		t, ok := v.AsTime()
		if year := t.Year(); !ok || year < 0 || year > 9999 {
			seconds, nanos, _ := v.AsUnixTime()
			return fmt.Appendf(dst, "@%d.%09d", seconds, nanos)
		}
		return t.AppendFormat(dst, time.RFC3339Nano)
	case expr.KindBytes:
		s, _ := v.AsBytes()
		return fmt.Appendf(dst, "x%x", s)
	case expr.KindList:
		return append(dst, v.String()...)
	}
	switch v := v.Any().(type) {
	case fmt.Stringer:
		return append(dst, v.String()...)
	default:
		return fmt.Append(dst, v)
	}
}

// ReadKeyText returns the key that a text denotes; it reads what KeyText writes.
func ReadKeyText(text string) []byte {
	if digits, ok := strings.CutPrefix(text, "x"); ok && len(digits) > 0 {
		if key, err := hex.DecodeString(digits); err == nil && KeyText(key) == text {
			return key
		}
	}
	return []byte(text)
}
