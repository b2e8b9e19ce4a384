package keyform_test

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/keyform"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

var ok = testutil.OK

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
		{Layout: "ordered", Fields: []string{"s:string:unicode:null-last", "n:int8", "p:fixed:2",
			"a:ip", "net:ipprefix:desc", "at:time-full"}},
	} {
		f, err := keyform.New(o)
		ok(t, err)
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
	for i := 2; i < 5; i++ { // text that is shown in quotes
		all = append(all, all[i])
	}
	for i, texts := range [][]string{
		{"a b", "-7", "1.5", "2025-01-17T08:00:00.000Z"},
		{"x", "0.25", "true", "550e8400-e29b-41d4-a716-446655440001"},
		{"a b", "2025-01-17T08:00:00.000Z", "550e8400-e29b-41d4-a716-446655440001"},
		{"Zürich", "-0.01", "42"},
		{"a", "", "b"},
		{"a", "123", "67824", "00ff"},
		{"zürich", "-128", "-0.01", "2001:db8::1", "10.0.0.0/8", "1960-01-01T00:00:00.000000001Z"},
		{`"\"a"`, "2025-01-17T08:00:00.000Z", "550e8400-e29b-41d4-a716-446655440001"},
		{`"tab\t"`, "-0.01", "42"},
		{`"\x01"`, `"NULL"`, `"\xff"`},
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
		ok(f, err)
		f.Add(b)
	}
	all := forms(f)
	f.Fuzz(func(t *testing.T, key []byte) {
		defer testutil.Watch(key)()
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

// A tagged tuple is shown without a description, each element with its own type.
func TestGuessTaggedTuple(t *testing.T) {
	key, err := keycodec.AppendTagged(nil, nil, true, -5, "Ada", []byte{1},
		keycodec.Descending{Value: 2.5}, keycodec.UUID{1}, time.Unix(0, 0).UTC(),
		netip.MustParseAddr("10.0.0.1"), netip.MustParsePrefix("10.0.0.0/8"))
	ok(t, err)
	var parts []keyform.Part
	for _, r := range keyform.Guess(key) {
		if r.Layout == "tagged tuple" {
			parts = r.Parts
		}
	}
	var got []string
	end := 0
	for _, p := range parts {
		if p.Start != end {
			t.Errorf("%+v begins at %d, the one before ends at %d", p, p.Start, end)
		}
		end = p.End
		got = append(got, p.What+" "+p.Value)
	}
	want := []string{"null NULL", "bool true", "int64 -5", `string "Ada"`, `bytes x"01"`,
		"float64 desc 2.5", "uuid 01000000-0000-0000-0000-000000000000",
		"time 1970-01-01T00:00:00.000000000Z", "ip 10.0.0.1", "ipprefix 10.0.0.0/8"}
	if !slices.Equal(got, want) || end != len(key) {
		t.Errorf("up to byte %d of %d:\n%q, want\n%q", end, len(key), got, want)
	}
}
