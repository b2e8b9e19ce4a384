package keycodec_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

// TestCodecRefusesLikeTheSchema changes and cuts a key of every type of field at every byte:
// the codec has to read what the schema reads, and to name the place that the schema names.
func TestCodecRefusesLikeTheSchema(t *testing.T) {
	c := must(keycodec.NewCodec[everything]())
	note, count, tag := "n\x00", int32(-5), named("Tag")
	e := everything{S: "s", Name: "n", Fold: "Fold", B: []byte("b"), BDesc: []byte{0},
		Dec: decimal("-12.5"), IP: netip.IPv6Loopback(), Net: netip.MustParsePrefix("10.0.0.0/8"),
		Note: &note, Count: &count, Tag: &tag}
	key := must(c.Append(nil, &e))
	for i := range key {
		for _, b := range []byte{0, 1, 2, 'A', 0xfe, 0xff, key[i] ^ 1, key[i] + 1} {
			changed := bytes.Clone(key)
			changed[i] = b
			codecLikeSchema(t, c, changed)
		}
		codecLikeSchema(t, c, key[:i])
	}
}

func codecLikeSchema[T any](t *testing.T, c *keycodec.Codec[T], key []byte) {
	t.Helper()
	var v, view T
	_, want := c.Schema().Decode(key)
	err, viewErr := c.Decode(key, &v), c.DecodeView(key, &view)
	if strconv.IntSize == 32 && err != nil && strings.Contains(err.Error(), "cannot hold") {
		return // an int, which the schema reads as an int64
	}
	if offsetOf(err) != offsetOf(want) || offsetOf(viewErr) != offsetOf(want) {
		t.Fatalf("%x: the schema says %v, the codec %v and %v", key, want, err, viewErr)
	}
	if want != nil {
		return
	}
	for _, read := range []*T{&v, &view} {
		if again, err := c.Append(nil, read); err != nil || !bytes.Equal(again, key) {
			t.Fatalf("%x reads as %+v, which is written as %x, error %v", key, *read, again, err)
		}
	}
}

// TestCodecOfFrequentFields has structs that differ a little from those for which there is
// a path of their own, and values that begin with zero bytes.
func TestCodecOfFrequentFields(t *testing.T) {
	codecOfFrequent[struct {
		A string `kstone:"a"`
		I int64  `kstone:"i"`
	}](t)
	codecOfFrequent[struct {
		A string `kstone:"a,desc"`
		I int64  `kstone:"i"`
	}](t)
	codecOfFrequent[struct {
		A string `kstone:"a"`
		I int64  `kstone:"i,decimal(2)"`
		N named  `kstone:"n"`
	}](t)
	codecOfFrequent[struct {
		I int64   `kstone:"i,desc"`
		A *string `kstone:"a"`
		U uint64  `kstone:"u"`
	}](t)
	codecOfFrequent[struct {
		D keycodec.UUID `kstone:"d,desc"`
		A string        `kstone:"a,ascii"`
	}](t)
	codecOfFrequent[struct {
		U *uint64 `kstone:"u"`
		N int64   `kstone:"n"`
	}](t)
	codecOfFrequent[struct {
		A string `kstone:"a"`
		N int32  `kstone:"n"`
	}](t)
	codecOfFrequent[struct {
		D [16]byte `kstone:"d"`
		A string   `kstone:"a"`
		F float64  `kstone:"f"`
	}](t)
}

func codecOfFrequent[T any](t *testing.T) {
	t.Helper()
	c := must(keycodec.NewCodec[T]())
	fields := c.Schema().Fields()
	long := strings.Repeat("x", 64)
	for _, text := range []string{"", "a", "1234567", "12345678", long, "a\x00"} {
		for _, n := range []int64{math.MinInt64, -1, 0, 1 << 56} {
			values := make([]any, len(fields))
			for i, f := range fields {
				values[i] = map[keycodec.Type]any{keycodec.TypeString: text, keycodec.TypeInt64: n,
					keycodec.TypeFixed: keycodec.NewDecimal(n, 2), keycodec.TypeUint64: uint64(n),
					keycodec.TypeInt32:   int32(n),
					keycodec.TypeUUID:    keycodec.UUID{byte(n), 15: 7},
					keycodec.TypeFloat64: float64(n)}[f.Type]
			}
			key := must(c.Schema().Append(nil, values...))
			for cut := range len(key) + 1 {
				codecLikeSchema(t, c, key[:cut:cut])
			}
			codecLikeSchema(t, c, append(key, 0))
		}
	}
}

// TestCoefficientOfEveryScale compares with exact arithmetic, at both ends of the range.
func TestCoefficientOfEveryScale(t *testing.T) {
	texts := []string{"0", "1e30", "-1e19", "1e999999999", "92233720368547758080",
		"922337203685477580", "922337203685477581", "9223372036854775800",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808",
		"-9223372036854775809", "123456789012345678901", "1234567890123456789012345",
		"18446744073709551616", "1844674407370955161.6", "-92233720368547758.08", "1e17"}
	for _, digit := range []string{"1", "5", "10", "11", "99", "9223372036854775807"} {
		for places := range 22 {
			texts = append(texts, fmt.Sprintf("%se-%d", digit, places))
		}
	}
	for _, text := range texts {
		d := decimal(text)
		for scale := range int32(keycodec.MaxScale + 1) {
			exact := new(big.Rat)
			if text != "1e999999999" {
				shift := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
				exact.SetString(text)
				exact.Mul(exact, new(big.Rat).SetInt(shift))
			}
			fits := exact.IsInt() && exact.Num().IsInt64() && text != "1e999999999"
			c, err := d.Coefficient(scale)
			if fits != (err == nil) || fits && c != exact.Num().Int64() || !fits && c != 0 {
				t.Errorf("%s with %d places: %d, error %v; want %s", text, scale, c, err, exact)
			}
			if err != nil && strings.Contains(err.Error(), "more than") == exact.IsInt() {
				t.Errorf("%s with %d places: %v", text, scale, err)
			}
		}
	}
}

// TestDecimalExponentLimits writes and reads the numbers at the ends of the exponents.
func TestDecimalExponentLimits(t *testing.T) {
	const most int64 = 2 * 5 << 28 // decimal places before the point, after an even number of them
	for text, fits := range map[string]bool{
		fmt.Sprintf("1e%d", most-1): true, fmt.Sprintf("1e%d", most): false,
		fmt.Sprintf("-1e%d", most-1): true, fmt.Sprintf("-1e%d", most): false,
		fmt.Sprintf("1e-%d", most+2): true, fmt.Sprintf("1e-%d", most+3): false,
		"1e9223372036854775807": false, "1e-9223372036854775808": false,
		"1e9223372036854775808": false, "1e-9223372036854775809": false,
		"12345.67e9223372036854775806": false, "0.00012e-9223372036854775807": false,
	} {
		d, err := keycodec.ParseDecimal(text)
		if (err == nil) != fits {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil {
			continue
		}
		got, rest, err := keycodec.DecodeDecimal(keycodec.AppendDecimal(nil, d))
		if err != nil || got != d || len(rest) != 0 {
			t.Errorf("%s reads back as %v, %x, %v", text, got, rest, err)
		}
	}
}

// TestReadersOfOneFieldRefuse cuts tuples at every byte: what needs a field that is cut
// off fails, what does not need it goes on.
func TestReadersOfOneFieldRefuse(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "a", Type: keycodec.TypeString},
		keycodec.Field{Name: "b", Type: keycodec.TypeIPPrefix, Desc: true},
		keycodec.Field{Name: "c", Type: keycodec.TypeBool, Nullable: true},
	))
	key := must(s.Append(nil, "a\x00", netip.MustParsePrefix("10.0.0.0/8"), true))
	ends := []int{5, 11, 13}
	for cut := range len(key) {
		for i, end := range ends {
			_, _, prefixErr := s.DecodePrefix(key[:cut], i+1)
			n, lenErr := s.PrefixLen(key[:cut], i+1)
			for _, err := range []error{prefixErr, lenErr} {
				at := offsetOf(err)
				if fits := cut >= end; fits != (err == nil) || !fits && at > int64(cut) {
					t.Errorf("%d bytes, field %d: error %v", cut, i, err)
				}
			}
			if lenErr != nil && n != 0 || lenErr == nil && n != end {
				t.Errorf("%d bytes: %d fields are %d bytes", cut, i+1, n)
			}
			start := append([]int{0}, ends...)[i]
			rest, err := s.Fields()[i].Skip(key[start:max(start, cut)])
			if (err == nil) != (cut >= end) || err != nil && rest != nil {
				t.Errorf("%d bytes: field %d is skipped, rest %x, error %v", cut, i, rest, err)
			}
		}
	}
	damaged := bytes.Clone(key)
	damaged[12] = 2
	if v, rest, err := s.Fields()[2].Decode(damaged[11:]); v != nil || rest != nil ||
		offsetOf(err) != 1 {
		t.Errorf("Field.Decode of 02 as a bool: %v, rest %x, error %v", v, rest, err)
	}
	if text, err := s.Format(damaged); text != "" || !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("Format of 02 as a bool: %q, error %v", text, err)
	}
	if n, err := s.PrefixLen(key, -1); n != 0 || err == nil {
		t.Errorf("-1 fields are %d bytes, error %v", n, err)
	}
	for cut, want := range map[string]string{"": "1 bytes", "21": "2 bytes", "30": "8 bytes"} {
		if rest, err := keycodec.SkipTagged(unhex(t, cut)); rest != nil || err == nil ||
			offsetOf(err) != int64(len(cut)/2) || !strings.Contains(err.Error(), "want "+want) {
			t.Errorf("SkipTagged(%s): %x, %v", cut, rest, err)
		}
	}
	if n, ok := keycodec.OrderedPKLen(unhex(t, "6100")); ok {
		t.Errorf("OrderedPKLen of a cut key is %d", n)
	}
}

// TestKeysAtTheLimit has keys of the largest size, and of one byte more.
func TestKeysAtTheLimit(t *testing.T) {
	long, zeros := bytes.Repeat([]byte{'k'}, keycodec.MaxKeyBytes+1), make([]byte, 1<<20)
	longest := keycodec.Key{PK: zeros[:keycodec.MaxKeyBytes], SK: long[1:]}
	if n := len(keycodec.AppendOrdered(nil, longest)); n != keycodec.MaxOrderedBytes {
		t.Errorf("the longest ordered key has %d bytes, want %d", n, keycodec.MaxOrderedBytes)
	}
	for _, key := range []keycodec.Key{
		longest, {PK: long, SK: long[:1]}, {PK: long[:1], SK: long},
		{PK: zeros[:keycodec.MaxKeyBytes+1]},
	} {
		fits := max(len(key.PK), len(key.SK)) <= keycodec.MaxKeyBytes
		b := keycodec.AppendLengthPrefixed(nil, key)
		prefixed, rest, err := keycodec.DecodeLengthPrefixed(b)
		if fits != (err == nil) || fits && (prefixed.Compare(key) != 0 || len(rest) > 0) {
			t.Errorf("%d and %d bytes, length-prefixed: %v", len(key.PK), len(key.SK), err)
		}
		ordered, _, err := keycodec.DecodeOrdered(keycodec.AppendOrdered(nil, key), nil)
		if fits != (err == nil) || fits && ordered.Compare(key) != 0 ||
			!fits && offsetOf(err) != 0 {
			t.Errorf("%d and %d bytes, ordered: %v", len(key.PK), len(key.SK), err)
		}
	}
}

// TestAppendOverwrites appends to a buffer with other bytes after its end.
func TestAppendOverwrites(t *testing.T) {
	dirty := bytes.Repeat([]byte{0xee}, 64)
	got := keycodec.AppendOrdered(dirty[:2], key("pk", "sk"))
	if want := unhex(t, "eeee 706b 0000 736b"); !bytes.Equal(got, want) {
		t.Errorf("the key is %x, want %x", got, want)
	}
}

// TestFieldsRefuse has a field for each rule of fields, and the largest that keep it.
func TestFieldsRefuse(t *testing.T) {
	name := strings.Repeat("n", keycodec.MaxNameBytes)
	for want, f := range map[string]keycodec.Field{
		"":                          {Name: name, Type: keycodec.TypeString},
		"at most 255":               {Name: name + "n", Type: keycodec.TypeString},
		"not a fixed-scale decimal": {Name: "a", Type: keycodec.TypeDecimal, Scale: 1},
		"unknown collation 3":       {Name: "a", Type: keycodec.TypeString, Collation: 3},
		"unknown type 0":            {Name: "a"},
		"has 19 decimal places":     {Name: "a", Type: keycodec.TypeFixed, Scale: 19},
		"has -1 decimal places":     {Name: "a", Type: keycodec.TypeFixed, Scale: -1},
		"is not a string":           {Name: "a", Type: keycodec.TypeBytes, Collation: 1},
		"has no collation":          {Name: "a", Type: keycodec.TypeString, KeepCase: true},
	} {
		_, err := keycodec.NewSchema(f)
		if want == "" && err != nil || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%v: error %v, want %s", f, err, want)
		}
	}
	fields := make([]keycodec.Field, keycodec.MaxFields)
	for i := range fields {
		fields[i] = keycodec.Field{Name: fmt.Sprint(i), Type: keycodec.TypeBool}
	}
	if _, err := keycodec.NewSchema(fields...); err != nil {
		t.Error(err)
	}
	if got := keycodec.Collation(3).String() + ", " + keycodec.Unit(7).String() + ", " +
		keycodec.Type(20).String(); got != "collation 3, unit 7, type 20" {
		t.Errorf("unknown numbers are %s", got)
	}
	if typ, err := keycodec.ParseType("text"); typ != 0 || err == nil {
		t.Errorf("text is the type %s, error %v", typ, err)
	}
}

// TestFieldsNameTheirValues: the error of a value names the field, and nothing is written.
func TestFieldsNameTheirValues(t *testing.T) {
	for _, c := range []struct {
		typ   keycodec.Type
		value any
	}{
		{keycodec.TypeIP, netip.Addr{}}, {keycodec.TypeIP, netip.MustParseAddr("fe80::1%eth0")},
		{keycodec.TypeIPPrefix, netip.Prefix{}},
		{keycodec.TypeIPPrefix, netip.MustParsePrefix("10.0.0.1/8")},
		{keycodec.TypeFixed, decimal("0.5")}, {keycodec.TypeFixed, decimal("1e19")},
		{keycodec.TypeTime, time.Unix(math.MaxInt64, 0)}, {keycodec.TypeString, uint64(0)},
		{keycodec.TypeString, 0}, {keycodec.TypeInt8, 128}, {keycodec.TypeUint8, uint64(256)},
	} {
		f := keycodec.Field{Name: "price", Type: c.typ}
		if c.typ == keycodec.TypeTime {
			f.Unit = keycodec.Nanosecond
		}
		got, err := f.Append([]byte("dst"), c.value)
		if err == nil || string(got) != "dst" || !strings.Contains(err.Error(), `field "price"`) {
			t.Errorf("%v for %s: %q, error %v", c.value, c.typ, got, err)
		}
		switch v := c.value.(type) {
		case netip.Addr:
			got, err = keycodec.AppendIP([]byte("dst"), v)
		case netip.Prefix:
			got, err = keycodec.AppendIPPrefix([]byte("dst"), v)
		case keycodec.Decimal:
			got, err = keycodec.AppendFixed([]byte("dst"), v, 0)
		case time.Time:
			got, err = keycodec.AppendTime([]byte("dst"), v, keycodec.Nanosecond)
		}
		if err == nil || string(got) != "dst" {
			t.Errorf("%v appended without a field: %q, error %v", c.value, got, err)
		}
	}
}

// TestBeginningsRefuse has values that the fields of a prefix or range do not take.
func TestBeginningsRefuse(t *testing.T) {
	s := must(keycodec.NewSchema(keycodec.Field{Name: "a", Type: keycodec.TypeBytes},
		keycodec.Field{Name: "b", Type: keycodec.TypeString}))
	for _, values := range [][]any{{"a"}, {[]byte("a"), []byte("b")}, {nil}, {"a", "b"}} {
		if got, err := s.AppendBeginsWith([]byte("dst"), values...); err == nil ||
			string(got) != "dst" {
			t.Errorf("begins with %v: %q, error %v", values, got, err)
		}
		span, err := s.BeginsSpan(values...)
		if err == nil || span.Start != nil || span.End != nil {
			t.Errorf("span of %v: %x, error %v", values, span, err)
		}
	}
	if got, err := s.AppendPrefix([]byte("dst"), []byte("a"), "b", 1); err == nil ||
		string(got) != "dst" {
		t.Errorf("a prefix of 3 of 2 fields: %q, error %v", got, err)
	}
	span, err := s.RangeSpan([]any{"a"}, keycodec.Including("b"), keycodec.Bound{})
	if err == nil || span.Start != nil || span.End != nil {
		t.Errorf("a range after a value that does not fit: %x, error %v", span, err)
	}
}

// TestTextsReadBackExactly has texts whose reading depends on one character.
func TestTextsReadBackExactly(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "a", Type: keycodec.TypeString},
		keycodec.Field{Name: "p", Type: keycodec.TypeFixed, Scale: 1},
		keycodec.Field{Name: "t", Type: keycodec.TypeTime, Unit: keycodec.FullRange},
	))
	for text, values := range map[string][]any{
		`"a / b" / 0.5 / -99999999999.000000001s`: {"a / b", decimal("0.5"),
			time.Unix(-99999999999, -1).UTC()},
		`a / 0.0 / -99999999998.999999999s`: {"a", decimal("0"),
			time.Unix(-99999999999, 1).UTC()},
		`'a / 12.0 / 999999999999.000000000s`: {"'a", decimal("12"),
			time.Unix(999999999999, 0).UTC()},
		"`a / -0.1 / -99999999999.000000002s": {"`a", decimal("-0.1"),
			time.Unix(-99999999999, -2).UTC()},
	} {
		key := must(s.Append(nil, values...))
		if got, err := s.Format(key); got != text || err != nil {
			t.Errorf("%v is shown as %s, error %v; want %s", values, got, err, text)
		}
		back, err := s.Parse(text)
		if err != nil || !bytes.Equal(must(s.Append(nil, back...)), key) {
			t.Errorf("%s reads as %v, error %v", text, back, err)
		}
	}
	second := keycodec.Field{Name: "t", Type: keycodec.TypeTime, Unit: keycodec.Second}
	for _, c := range []struct {
		field keycodec.Field
		text  string
		fits  bool
	}{
		{second, "9223371974719179007s", true}, {second, "9223371974719179008s", false},
		{keycodec.Field{Name: "t", Type: keycodec.TypeTime}, "1", false},
		{keycodec.Field{Name: "t"}, "1", false},
		{keycodec.Field{Name: "f", Type: keycodec.TypeFloat32}, "0.1", true},
		{keycodec.Field{Name: "n", Type: keycodec.TypeInt8}, "128", false},
		{keycodec.Field{Name: "n", Type: keycodec.TypeUint8}, "255", true},
	} {
		v, err := c.field.ParseValue(c.text)
		if c.fits != (err == nil) || !c.fits && v != nil {
			t.Errorf("%v: %s reads as %v, error %v", c.field, c.text, v, err)
		}
		if c.fits {
			_, err = c.field.Append(nil, v)
		}
		if c.fits && err != nil {
			t.Errorf("%v: %s: %v", c.field, c.text, err)
		}
	}
}

// TestScaleOfTags reads the number of places of a tag exactly.
func TestScaleOfTags(t *testing.T) {
	type row struct {
		A int64 `kstone:"a,decimal(12)"`
	}
	if s, err := keycodec.SchemaOf[row](); err != nil || s.String() != "a fixed(12)" {
		t.Errorf("schema %v, error %v", s, err)
	}
	for want, err := range map[string]error{
		"is not an option": schemaError[struct {
			A int64 `kstone:"a,decimal(4294967295)"`
		}](),
		"cannot be in a key": schemaError[struct {
			A chan int `kstone:"a"`
		}](),
		"is not exported": schemaError[struct {
			a int `kstone:"a"`
		}](),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
