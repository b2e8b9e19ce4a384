package keycodec_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func TestFormat(t *testing.T) {
	at := time.Date(2025, 1, 17, 9, 0, 0, 5e6, time.FixedZone("", 3600))
	for _, c := range []struct {
		field keycodec.Field
		value any
		want  string
	}{
		{keycodec.Field{Type: keycodec.TypeString}, "Provincia di Brescia", "Provincia di Brescia"},
		{keycodec.Field{Type: keycodec.TypeString}, "Zürich", "Zürich"},
		{keycodec.Field{Type: keycodec.TypeString}, "", ""},
		{keycodec.Field{Type: keycodec.TypeString}, "NULL", `"NULL"`},
		{keycodec.Field{Type: keycodec.TypeString}, "a / b", `"a / b"`},
		{keycodec.Field{Type: keycodec.TypeString}, "a /", `"a /"`},
		{keycodec.Field{Type: keycodec.TypeString}, "/", `"/"`},
		{keycodec.Field{Type: keycodec.TypeString}, "/usr/bin", "/usr/bin"},
		{keycodec.Field{Type: keycodec.TypeString}, " a", `" a"`},
		{keycodec.Field{Type: keycodec.TypeString}, "a ", `"a "`},
		{keycodec.Field{Type: keycodec.TypeString}, `"a"`, `"\"a\""`},
		{keycodec.Field{Type: keycodec.TypeString}, `a"b\n`, `a"b\n`},
		{keycodec.Field{Type: keycodec.TypeString}, "a\nb", `"a\nb"`},
		{keycodec.Field{Type: keycodec.TypeString}, "a\u200bb", `"a\u200bb"`},
		{keycodec.Field{Type: keycodec.TypeBytes}, []byte("plain"), "plain"},
		{keycodec.Field{Type: keycodec.TypeBytes}, []byte{0xff, 0}, `"\xff\x00"`},
		{keycodec.Field{Type: keycodec.TypeString, Nullable: true}, nil, "NULL"},
		{keycodec.Field{Type: keycodec.TypeInt64, Desc: true}, int64(-5), "-5"},
		{keycodec.Field{Type: keycodec.TypeUint64}, uint64(math.MaxUint64), "18446744073709551615"},
		{keycodec.Field{Type: keycodec.TypeBool}, true, "true"},
		{keycodec.Field{Type: keycodec.TypeFloat64}, math.Inf(-1), "-Inf"},
		{keycodec.Field{Type: keycodec.TypeFloat64}, 0.1, "0.1"},
		{keycodec.Field{Type: keycodec.TypeTime, Unit: keycodec.Second}, at,
			"2025-01-17T08:00:00Z"},
		{keycodec.Field{Type: keycodec.TypeTime, Unit: keycodec.Millisecond}, at,
			"2025-01-17T08:00:00.005Z"},
		{keycodec.Field{Type: keycodec.TypeTime, Unit: keycodec.Second},
			time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "253402300800s"},
		{keycodec.Field{Type: keycodec.TypeTime, Unit: keycodec.Second},
			time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), "9999-12-31T23:59:59Z"},
		{keycodec.Field{Type: keycodec.TypeTime, Unit: keycodec.Second},
			time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), "0000-01-01T00:00:00Z"},
		{keycodec.Field{Type: keycodec.TypeTime, Unit: keycodec.Second},
			time.Date(-1, 12, 31, 23, 59, 59, 0, time.UTC), "-62167219201s"},
		{keycodec.Field{Type: keycodec.TypeUUID}, keycodec.UUID{15: 1},
			"00000000-0000-0000-0000-000000000001"},
		{keycodec.Field{Type: keycodec.TypeDecimal}, decimal("12345.670"), "12345.67"},
	} {
		c.field.Name = "f"
		s := must(keycodec.NewSchema(c.field))
		got, err := s.Format(must(s.Append(nil, c.value)))
		if err != nil || got != c.want {
			t.Errorf("%v of %v: %s, error %v; want %s", c.field, c.value, got, err, c.want)
		}
	}
}

func TestFormatRefusesDamage(t *testing.T) {
	s := must(keycodec.NewSchema(keycodec.Field{Name: "f", Type: keycodec.TypeBool}))
	if got, err := s.AppendFormat([]byte("dst"), []byte{7}); err == nil || string(got) != "dst" {
		t.Errorf("AppendFormat = %q, error %v; want an error and dst", got, err)
	}
}

// TestFormatIsUnambiguous reads texts back, so that no two tuples can have one text.
func TestFormatIsUnambiguous(t *testing.T) {
	odd := rapid.Custom(func(t *rapid.T) string {
		r := rapid.SampledFrom([]rune{
			' ', '/', '"', '\\', '`', 'a', 'x', '0', 0, 0xa0, 0x200b, 0xfffd,
		})
		return rapid.StringOfN(r, 0, 5, -1).Draw(t, "odd")
	})
	testutil.Check(t, func(t *rapid.T) {
		s := schemas().Draw(t, "schema")
		values := tuple(t, s)
		for i, f := range s.Fields() {
			if f.Type == keycodec.TypeString && values[i] != nil {
				values[i] = rapid.OneOf(odd, rapid.Just("NULL"), rapid.String()).Draw(t, "text")
			}
		}
		key := must(s.Append(nil, values...))
		text := must(s.Format(key))
		got, err := s.Parse(text)
		if err != nil || !bytes.Equal(must(s.Append(nil, got...)), key) {
			t.Fatalf("%v as %s reads back as %v, error %v", values, text, got, err)
		}
	})
}

func TestParseValueVariants(t *testing.T) {
	at := keycodec.Field{Name: "at", Type: keycodec.TypeTime, Unit: keycodec.Millisecond}
	want := time.Date(2025, 1, 17, 8, 0, 0, 0, time.UTC)
	for _, text := range []string{
		"2025-01-17T08:00:00Z", "2025-01-17T09:00:00+01:00", "1737100800000", "1737100800000ms",
	} {
		v, err := at.ParseValue(text)
		if got, ok := v.(time.Time); err != nil || !ok || !got.Equal(want) {
			t.Errorf("%s reads as %v, error %v; want %v", text, v, err, want)
		}
	}
	text := keycodec.Field{Name: "s", Type: keycodec.TypeString}
	if v, err := text.ParseValue(`"plain"`); err != nil || v != "plain" {
		t.Errorf("a quoted string reads as %v, error %v", v, err)
	}
}

func TestParseRefuses(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "a", Type: keycodec.TypeString},
		keycodec.Field{Name: "n", Type: keycodec.TypeInt64},
	))
	for _, text := range []string{
		"", "a", "a/1", "a / ", "a / x", "a / 1 / 2", `"a / 1`, `"a"b / 1`, "a / NULL", "a / 1 ",
	} {
		if v, err := s.Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, v)
		}
	}
}
