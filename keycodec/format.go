package keycodec

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The text form of a tuple is for people: the fields joined by " / ", each as short as it
// can be without a second meaning, so that different tuples have different texts and
// Schema.Parse can read them back.
//
//   - A string or byte string stands as it is if it is printable UTF-8; otherwise, and
//     wherever it could be read as something else, it stands in double quotes with the
//     escapes of Go. An empty one is shown as nothing.
//   - NULL is NULL. Numbers, bools, UUIDs are in their usual notation.
//   - A time is in RFC 3339 with as many places as its unit has, in UTC; outside the years
//     0 to 9999 it is the number of units with the unit after it; of the full range, the
//     number of seconds with nine places and an s.
//   - A decimal of fixed scale has all its places; IP addresses and prefixes are in their
//     usual notation.
const (
	fieldSeparator = " / "
	nullText       = "NULL"
)

var timeLayouts = [...]string{
	Second:      "2006-01-02T15:04:05Z07:00",
	Millisecond: "2006-01-02T15:04:05.000Z07:00",
	Microsecond: "2006-01-02T15:04:05.000000Z07:00",
	Nanosecond:  "2006-01-02T15:04:05.000000000Z07:00",
	FullRange:   "2006-01-02T15:04:05.000000000Z07:00",
	Day:         "2006-01-02",
}

// Format renders an encoded tuple for people: its fields joined by " / ", for example
// "Lombardy / Provincia di Brescia / Brescia". Strings that are not printable are quoted
// and escaped, so different tuples never look the same. Errors are those of Decode.
func (s Schema) Format(key []byte) (string, error) {
	out, err := s.AppendFormat(nil, key)
	return string(out), err
}

// AppendFormat appends what Format returns to dst. On error dst is returned as it was.
func (s Schema) AppendFormat(dst, key []byte) ([]byte, error) {
	values, err := s.Decode(key)
	if err != nil {
		return dst, err
	}
	for i, v := range values {
		if i > 0 {
			dst = append(dst, fieldSeparator...)
		}
		dst = s.fields[i].appendFormat(dst, v)
	}
	return dst, nil
}

// appendFormat renders a value that Decode returned.
func (f Field) appendFormat(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, nullText...)
	case string:
		return appendText(dst, []byte(v))
	case []byte:
		return appendText(dst, v)
	case float64:
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	case time.Time:
		if year := v.Year(); year >= 0 && year <= 9999 {
			return v.AppendFormat(dst, timeLayouts[f.Unit])
		}
		if f.Unit == FullRange {
			return appendSeconds(dst, v)
		}
		ticks, _ := ticksOf(v, f.Unit) // cannot fail: v was made from ticks
		return append(strconv.AppendInt(dst, ticks, 10), f.Unit.String()...)
	case UUID:
		return v.append(dst)
	case Decimal:
		if f.Type == TypeFixed {
			c, _ := v.Coefficient(f.Scale) // cannot fail: v was made from a coefficient
			return appendPlaces(dst, c, int(f.Scale))
		}
		return v.append(dst)
	}
	return fmt.Append(dst, v)
}

// appendPlaces renders c × 10^-scale with all its decimal places.
func appendPlaces(dst []byte, c int64, scale int) []byte {
	u := uint64(c)
	if c < 0 {
		dst = append(dst, '-')
		u = -u
	}
	places := fmt.Sprintf("%0*d", scale+1, u)
	dst = append(dst, places[:len(places)-scale]...)
	if scale > 0 {
		dst = append(append(dst, '.'), places[len(places)-scale:]...)
	}
	return dst
}

// appendSeconds renders a time as the seconds since 1970, for example
// -62167219201.500000000s. Requires: it is not in the second before 1970, whose number -0
// would need a sign of its own.
func appendSeconds(dst []byte, t time.Time) []byte {
	sec, nanos := t.Unix(), t.Nanosecond()
	if sec < 0 && nanos > 0 {
		sec, nanos = sec+1, 1e9-nanos
	}
	return fmt.Appendf(dst, "%d.%09ds", sec, nanos)
}

// appendText renders a string or byte string.
func appendText(dst, text []byte) []byte {
	if plain(string(text)) {
		return append(dst, text...)
	}
	return strconv.AppendQuote(dst, string(text))
}

// plain reports whether s can stand without quotes.
func plain(s string) bool {
	switch {
	case s == "":
		return true
	case s == nullText, s[0] == '"', s[0] == ' ', s[len(s)-1] == ' ':
		return false
	case strings.Contains(" "+s+" ", fieldSeparator), !utf8.ValidString(s):
		return false
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// Parse reads the text form of a whole tuple and returns its values, ready for Append. It
// accepts what Format writes, and the variants that ParseValue accepts.
func (s Schema) Parse(text string) ([]any, error) {
	values := make([]any, 0, len(s.fields))
	for i, f := range s.fields {
		if i > 0 {
			rest, ok := strings.CutPrefix(text, fieldSeparator)
			if !ok {
				return nil, fmt.Errorf("keycodec: no %q before field %q", fieldSeparator, f.Name)
			}
			text = rest
		}
		n := strings.Index(text, fieldSeparator)
		if n < 0 {
			n = len(text)
		}
		if quoted, err := strconv.QuotedPrefix(text); err == nil && text[0] == '"' {
			n = len(quoted)
		}
		v, err := f.ParseValue(text[:n])
		if err != nil {
			return nil, err
		}
		values, text = append(values, v), text[n:]
	}
	if text != "" {
		return nil, fmt.Errorf("keycodec: %q after the last field", text)
	}
	return values, nil
}

// ParseValue reads the text form of one value. Beside what Format writes it accepts
// strings in unnecessary quotes, times in every zone, times as a number of units with or
// without the unit after it, and every notation of numbers that Go's strconv accepts.
func (f Field) ParseValue(text string) (v any, err error) {
	if text == nullText && f.Nullable {
		return nil, nil
	}
	switch f.Type {
	case TypeString, TypeBytes:
		s := text
		if strings.HasPrefix(text, `"`) {
			s, err = strconv.Unquote(text)
		}
		v = s
		if f.Type == TypeBytes {
			v = []byte(s)
		}
	case TypeBool:
		v, err = strconv.ParseBool(text)
	case TypeFloat64:
		v, err = strconv.ParseFloat(text, 64)
	case TypeFloat32:
		v, err = strconv.ParseFloat(text, 32)
	case TypeTime:
		v, err = f.parseTime(text)
	case TypeUUID:
		v, err = ParseUUID(text)
	case TypeDecimal, TypeFixed:
		v, err = ParseDecimal(text)
	case TypeIP:
		v, err = netip.ParseAddr(text)
	case TypeIPPrefix:
		v, err = netip.ParsePrefix(text)
	default:
		v, err = f.parseInteger(text)
	}
	if err != nil {
		return nil, fmt.Errorf("keycodec: reading %q for field %q: %w", text, f.Name, err)
	}
	return v, nil
}

func (f Field) parseInteger(text string) (any, error) {
	if width := f.Type.signedWidth(); width > 0 {
		return strconv.ParseInt(text, 10, 8*width)
	}
	if width := f.Type.unsignedWidth(); width > 0 {
		return strconv.ParseUint(text, 10, 8*width)
	}
	return nil, fmt.Errorf("unknown %s", f.Type)
}

func (f Field) parseTime(text string) (time.Time, error) {
	if !f.Unit.valid() {
		return time.Time{}, fmt.Errorf("keycodec: %d is not a unit of time", uint8(f.Unit))
	}
	if f.Unit == Day {
		return time.Parse(timeLayouts[Day], text)
	}
	if seconds, ok := strings.CutSuffix(text, "s"); ok && f.Unit == FullRange {
		return parseSeconds(seconds)
	}
	ticks, err := strconv.ParseInt(strings.TrimSuffix(text, f.Unit.String()), 10, 64)
	switch {
	case err != nil || f.Unit == FullRange:
		return time.Parse(time.RFC3339Nano, text)
	case f.Unit == Second && ticks > maxSecond:
		return time.Time{}, fmt.Errorf("keycodec: second %d is outside the range of a time", ticks)
	}
	return timeOf(ticks, f.Unit), nil
}

// parseSeconds reads what appendSeconds writes, without the unit; fewer places will do.
func parseSeconds(text string) (time.Time, error) {
	d, err := ParseDecimal(text)
	if err != nil {
		return time.Time{}, err
	}
	whole, places, _ := strings.Cut(text, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || len(places) > 9 || sec > maxSecond || strings.ContainsAny(places, "eE") {
		return time.Time{}, fmt.Errorf("keycodec: %q is not a number of seconds and nanoseconds",
			text)
	}
	nanos, _ := strconv.ParseInt((places + "000000000")[:9], 10, 64) // only digits are left
	if d.Sign() < 0 {
		nanos = -nanos
	}
	if sec == math.MinInt64 && nanos < 0 {
		return time.Time{}, fmt.Errorf("keycodec: second %s is outside the range of a time", text)
	}
	return time.Unix(sec, nanos).UTC(), nil
}
