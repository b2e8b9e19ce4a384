package keycodec_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func TestFoldVectors(t *testing.T) {
	for _, v := range []struct{ text, ascii, unicode string }{
		{"", "", ""},
		{"Straße", "straße", "straße"},
		{"STRASSE", "strasse", "strasse"},
		{"ÉCOLE", "École", "école"},
		{"ΣΑΣ", "ΣΑΣ", "σασ"},
		{"ς", "ς", "σ"},
		{"µ", "µ", "μ"},
		{"\u212aelvin", "\u212aelvin", "kelvin"},
		{"ſ", "ſ", "s"},
		{"İI", "İi", "İi"},
		{"ı", "ı", "ı"},
		{"\uab70", "\uab70", "\u13a0"},
		{"A\xffB\x00C", "a\xffb\x00c", "a\xffb\x00c"},
		{"\ufffdA", "\ufffda", "\ufffda"},
	} {
		if got := keycodec.CollateASCII.Fold(v.text); got != v.ascii {
			t.Errorf("%q folds to %q by ASCII, want %q", v.text, got, v.ascii)
		}
		if got := keycodec.CollateUnicode.Fold(v.text); got != v.unicode {
			t.Errorf("%q folds to %q by Unicode, want %q", v.text, got, v.unicode)
		}
		if got := keycodec.CollateBytes.Fold(v.text); got != v.text {
			t.Errorf("%q folds to %q by bytes", v.text, got)
		}
	}
}

// TestFoldTableIsPinned compares the folding with the list of all pairs of Unicode 15.0. A
// later release may add pairs; if one of these changes, keys that exist no longer match.
//
// Promise (keys): Collations follow a pinned table; tagged tuples sort. Also `TestCollatedKeys`,
// `TestTaggedTuplesSort` in `keycodec`.
func TestFoldTableIsPinned(t *testing.T) {
	const name = "testdata/fold-15.0.0.txt"
	list, err := os.ReadFile(name)
	ok(t, err)
	pairs := map[rune]rune{}
	for line := range strings.Lines(string(list)) {
		var from, to rune
		if _, err := fmt.Sscanf(line, "%x %x", &from, &to); err != nil {
			t.Fatalf("%s: line %q: %v", name, line, err)
		}
		pairs[from] = to
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if 0xd800 <= r && r < 0xe000 {
			continue
		}
		want, listed := pairs[r]
		if !listed {
			want = r
		}
		got := keycodec.CollateUnicode.Fold(string(r))
		if got != string(want) && (listed || unicode.Version == "15.0.0") {
			t.Errorf("%04x folds to %q, want %04x", r, got, want)
		}
	}
}

func TestFoldingTwiceChangesNothing(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(awkward(0), func(b []byte) string {
			return string(b)
		})).Draw(t, "text")
		for _, c := range []keycodec.Collation{keycodec.CollateASCII, keycodec.CollateUnicode} {
			once := c.Fold(s)
			if twice := c.Fold(once); twice != once {
				t.Fatalf("%q folds to %q and then to %q by %s", s, once, twice, c)
			}
		}
		if folded := keycodec.CollateUnicode.Fold(s); !strings.EqualFold(folded, s) {
			t.Fatalf("%q folds to %q, which differs in more than case", s, folded)
		}
	})
}

// TestCollatedKeys shows what the case does: nothing in the order of fields, a tie-break
// after all of them if it is kept.
func TestCollatedKeys(t *testing.T) {
	fields := []keycodec.Field{
		{Name: "name", Type: keycodec.TypeString, Collation: keycodec.CollateASCII},
		{Name: "n", Type: keycodec.TypeUint8},
	}
	s := must(keycodec.NewSchema(fields...))
	fields[0].KeepCase = true
	kept := must(keycodec.NewSchema(fields...))

	for _, v := range []struct {
		schema       keycodec.Schema
		name         string
		hex, decoded string
	}{
		{s, "Bob", "626f62 0000 07", "bob"},
		{kept, "bob", "626f62 0000 07 0000", "bob"},
		{kept, "BOB", "626f62 0000 07 424f42 0000", "BOB"},
		{kept, "Bob", "626f62 0000 07 426f62 0000", "Bob"},
	} {
		key := must(v.schema.Append(nil, v.name, 7+uint(0)))
		if fmt.Sprintf("%x", key) != strings.ReplaceAll(v.hex, " ", "") {
			t.Errorf("%s of %v is %x, want %s", v.name, v.schema, key, v.hex)
		}
		values, err := v.schema.Decode(key)
		if err != nil || values[0] != v.decoded {
			t.Errorf("%x decodes to %v, error %v; want %s", key, values, err, v.decoded)
		}
		span := must(v.schema.RangeSpan([]any{"bOB"}, keycodec.Including(uint(7)),
			keycodec.Bound{}))
		if !span.Contains(key) {
			t.Errorf("name = bOB and n >= 7 does not find %x", key)
		}
	}
	for name, hex := range map[string]string{
		"text that is not folded":     "42 0000 07 0000",
		"case of another text":        "62 0000 07 43 0000",
		"case that is the text":       "62 0000 07 62 0000",
		"no case":                     "62 0000 07",
		"case without its terminator": "62 0000 07 42",
		"something after the case":    "62 0000 07 42 0000 00",
	} {
		if values, err := kept.Decode(unhex(t, hex)); err == nil {
			t.Errorf("%s: %s decodes to %v", name, hex, values)
		}
	}
}
