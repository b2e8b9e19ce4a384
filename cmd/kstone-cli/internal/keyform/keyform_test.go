package keyform_test

import (
	"encoding/hex"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/keyform"
)

func forms(t testing.TB) []keyform.Form {
	var list []keyform.Form
	for _, o := range []keyform.Options{
		{Layout: "ordered", Fields: []string{"s", "n:int:desc:null", "d:decimal", "at:time-ms"}},
		{Layout: "ordered", Fields: []string{"b:bytes", "f:float", "ok:bool", "id:uuid:desc"}},
		{Layout: "composite", Shard: "xxhash:9", Fields: []string{"s", "at:timestamp", "id:uuid"}},
		{Layout: "composite", Delimiter: "double-byte", Fields: []string{"s:string:0",
			"d:decimal:2", "n:integer"}},
		{Layout: "rowkey"},
		{Layout: "rowkey", Fields: []string{"s", "n:int", "v:varint", "b:bytes"}},
	} {
		f, err := keyform.New(o)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	return list
}

// checkParts wants the parts to be all of the key, without gaps.
func checkParts(t *testing.T, key []byte, parts []keyform.Part) {
	t.Helper()
	at := 0
	for _, p := range parts {
		if p.Start != at || p.End < p.Start {
			t.Fatalf("%x: the part %+v does not begin at %d", key, p, at)
		}
		at = p.End
	}
	if at != len(key) {
		t.Fatalf("%x: the parts end at %d", key, at)
	}
}

// Values that are shown encode to the key they were read from.
func TestShownValuesEncode(t *testing.T) {
	all := forms(t)
	for i, texts := range [][]string{
		{"a b", "-7", "1.5", "2025-01-17T08:00:00.000Z"},
		{"x", "0.25", "true", "550e8400-e29b-41d4-a716-446655440001"},
		{"a b", "2025-01-17T08:00:00.000Z", "550e8400-e29b-41d4-a716-446655440001"},
		{"Zürich", "-0.01", "42"},
		{"a", "", "b"},
		{"a", "123", "67824", "00ff"},
	} {
		key, err := all[i].Encode(texts)
		if err != nil {
			t.Errorf("%q: %v", texts, err)
			continue
		}
		parts, err := all[i].Explain(key)
		if err != nil {
			t.Errorf("%x: %v", key, err)
			continue
		}
		checkParts(t, key, parts)
		n := 0
		for _, p := range parts {
			if p.Name == "" {
				continue
			}
			if p.Value != texts[n] {
				t.Errorf("%q is shown as %q", texts[n], p.Value)
			}
			n++
		}
		if n != len(texts) {
			t.Errorf("%d values of %d are shown", n, len(texts))
		}
	}
}

// No bytes make a layout panic, and whatever is explained is explained completely.
func FuzzExplain(f *testing.F) {
	for _, s := range []string{"", "61", "49540000427265736369610000",
		"00000008757365722331323300000000", "6100000001", "0010" + "1f"} {
		b, err := hex.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	all := forms(f)
	f.Fuzz(func(t *testing.T, key []byte) {
		for _, form := range all {
			if parts, err := form.Explain(key); err == nil {
				checkParts(t, key, parts)
			}
		}
		for _, r := range keyform.Guess(key) {
			checkParts(t, key, r.Parts)
		}
	})
}
