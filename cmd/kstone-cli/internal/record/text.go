package record

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"
)

// Bytes that are not text are written as an object with one member:
//
//	{"$b64":"AP8="}
//
// The text is standard base64 with padding. Text that is mostly control characters is
// written the same way, since its escapes would be longer, and so is long text of many quotes: its
// record would be longer than MaxRecordBytes.
const b64Name = "$b64"

var b64Open = []byte(`{"` + b64Name + `":"`)

// AppendString appends the canonical JSON string of s, which must be valid UTF-8.
func AppendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	start := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscaped(dst, rune(c))
		start = i + 1
	}
	return append(append(dst, s[start:]...), '"')
}

const hexDigits = "0123456789abcdef"

// The characters with a short escape, and what stands after its backslash. A canonical text has
// none for the last one.
const (
	short      = "\b\f\n\r\t\"\\/"
	shortNames = "bfnrt\"\\/"
)

// appendEscaped appends one character of a canonical string.
func appendEscaped(dst []byte, r rune) []byte {
	if i := strings.IndexRune(short, r); i >= 0 && r != '/' {
		return append(dst, '\\', shortNames[i])
	}
	if r < 0x20 {
		return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return utf8.AppendRune(dst, r)
}

// AppendBytes appends any bytes as JSON: a string if they are text, {"$b64":"…"}
// otherwise.
func AppendBytes(dst, b []byte) []byte {
	if !utf8.Valid(b) || mostlyEscaped(b) {
		return AppendBase64(dst, b)
	}
	return AppendString(dst, b)
}

// AppendBase64 appends any bytes as {"$b64":"…"}.
func AppendBase64(dst, b []byte) []byte {
	dst = append(dst, b64Open...)
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, `"}`...)
}

// mostlyEscaped reports whether base64 is shorter than the escapes of b. Those of quotes count in
// long text only.
func mostlyEscaped(b []byte) bool {
	extra, long := 0, len(b) > MaxRecordBytes/4
	for _, c := range b {
		switch {
		case c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
			extra++
		case c < 0x20:
			extra += 5
		case long && (c == '"' || c == '\\'):
			extra++
		}
	}
	return extra > 16+len(b)/3
}

// errNotText is returned by Unquote for JSON that is neither a string nor {"$b64":"…"}.
var errNotText = errors.New("not a string")

// Unquote appends the bytes that a canonical JSON string or {"$b64":"…"} stands for.
func Unquote(dst, text []byte) ([]byte, error) {
	if IsBytes(text) {
		body := text[len(b64Open) : len(text)-2]
		out, err := base64.StdEncoding.Strict().AppendDecode(dst, body)
		if err != nil {
			return dst, errors.New("$b64 does not hold standard base64")
		}
		return out, nil
	}
	if len(text) < 2 || text[0] != '"' {
		return dst, errNotText
	}
	body := text[1 : len(text)-1]
	for len(body) > 0 {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return append(dst, body...), nil
		}
		dst = append(dst, body[:i]...)
		var n int
		dst, n = unescape(dst, body[i:])
		body = body[i+n:]
	}
	return dst, nil
}

// unescape appends the character of a canonical escape and returns the escape's length.
func unescape(dst, b []byte) ([]byte, int) {
	if b[1] == 'u' {
		return append(dst, byte(unhex(b[4])<<4|unhex(b[5]))), 6
	}
	if i := strings.IndexByte(shortNames, b[1]); i >= 0 {
		return append(dst, short[i]), 2
	}
	return append(dst, b[1]), 2
}

// IsBytes reports whether canonical text is a {"$b64":"…"} object.
func IsBytes(text []byte) bool {
	return bytes.HasPrefix(text, b64Open) && bytes.HasSuffix(text, []byte(`"}`)) &&
		len(text) >= len(b64Open)+2 && bytes.Count(text, []byte(`"`)) == 4
}

// Text returns b with everything that is not valid UTF-8 replaced, for messages.
func Text(b []byte) []byte { return bytes.ToValidUTF8(b, []byte("\ufffd")) }

// Short returns text for messages as Text does, and no more than the beginning of a long one.
func Short(b []byte) string {
	const most = 60
	if len(b) <= most {
		return string(Text(b))
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(b[n]) {
		n--
	}
	return string(Text(b[:n])) + "…"
}
