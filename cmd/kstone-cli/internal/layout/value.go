package layout

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/keycodec"
)

// valueOfJSON returns the typed value of a key field from canonical JSON.
func valueOfJSON(f keycodec.Field, text []byte) (any, error) {
	if string(text) == "null" {
		if f.Nullable {
			return nil, nil
		}
		return nil, fmt.Errorf("field %q is null", f.Name)
	}
	isString := text[0] == '"' || record.IsBytes(text)
	switch f.Type {
	case keycodec.TypeString, keycodec.TypeBytes:
		if !isString {
			return nil, wrongType(f, text)
		}
		b, err := record.Unquote(nil, text)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		if f.Type == keycodec.TypeString {
			return string(b), nil
		}
		return b, nil
	}
	plain := text
	if isString { // numbers of CSV files and UUIDs, times and big numbers are strings
		b, err := record.Unquote(nil, text)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		plain = b
	}
	v, err := f.ParseValue(string(plain))
	if err != nil {
		return nil, wrongType(f, text)
	}
	return v, nil
}

func wrongType(f keycodec.Field, text []byte) error {
	hint := ""
	if f.Type == keycodec.TypeString && (text[0] == '-' || '0' <= text[0] && text[0] <= '9') {
		hint = fmt.Sprintf("; if the field holds numbers, name it as %s:int or %s:float", f.Name,
			f.Name)
	}
	return fmt.Errorf("field %q is %s, which is no %s%s", f.Name,
		record.Short(text), f.Type, hint)
}

// appendValueJSON appends a typed value as JSON that valueOfJSON reads back.
func appendValueJSON(dst []byte, f keycodec.Field, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case string:
		return record.AppendBytes(dst, []byte(v))
	case []byte:
		return record.AppendBytes(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.AppendQuote(dst, strconv.FormatFloat(v, 'g', -1, 64))
		}
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	case time.Time:
		return strconv.AppendQuote(dst, formatValue(f, v))
	case keycodec.UUID:
		return strconv.AppendQuote(dst, v.String())
	case keycodec.Decimal:
		return strconv.AppendQuote(dst, v.String())
	}
	return fmt.Appendf(dst, "%q", fmt.Sprint(v))
}

// FormatValue shows one value as the schema's own Format does.
func FormatValue(f keycodec.Field, v any) (string, error) {
	one, err := keycodec.NewSchema(f)
	if err != nil {
		return "", err
	}
	key, err := one.Append(nil, v)
	if err != nil {
		return "", err
	}
	return one.Format(key)
}

func formatValue(f keycodec.Field, v any) string {
	text, err := FormatValue(f, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return text
}

// valueOfArg returns the typed value of a key field from an argument.
func valueOfArg(f keycodec.Field, text []byte) (any, error) {
	switch f.Type {
	case keycodec.TypeString:
		return string(text), nil
	case keycodec.TypeBytes:
		return bytes.Clone(text), nil
	}
	v, err := f.ParseValue(string(text))
	if err != nil {
		return nil, fmt.Errorf("%q is no %s, which the key field %s holds", text, f.Type, f.Name)
	}
	return v, nil
}

// Show returns bytes as text on one line: printable UTF-8 as it is, everything else,
// and the backslash, as an escape that -i escaped reads back.
func Show(b []byte) string {
	clean := true
	for _, r := range string(b) {
		clean = clean && r != utf8.RuneError && r != '\\' && strconv.IsPrint(r)
	}
	if clean {
		return string(b)
	}
	var out []byte
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, b[0])
		case r == '\\':
			out = append(out, `\\`...)
		case strconv.IsPrint(r):
			out = append(out, b[:n]...)
		default:
			quoted := strconv.QuoteRune(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		b = b[n:]
	}
	return string(out)
}

// isSymbol reports whether a rune may be a part of an emoji.
func isSymbol(r rune) bool { return r != utf8.RuneError && unicode.IsSymbol(r) }

// ShowLines is Show, except that line feeds, tabs, and what joins the parts of an emoji stay and
// backslashes are not escaped: for values that are looked at and not typed back.
func ShowLines(b []byte) string {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		before, _ := utf8.DecodeLastRune(out)
		after, _ := utf8.DecodeRune(b[n:])
		joins := r == '\u200d' && isSymbol(before) && isSymbol(after)
		if r == '\n' || r == '\t' || joins ||
			strconv.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			out = append(out, b[:n]...)
		} else {
			out = append(out, Show(b[:n])...)
		}
		b = b[n:]
	}
	return string(out)
}
