package keycodec_test

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// TestFieldsReadTuples goes through tuples field by field.
func TestFieldsReadTuples(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		s := schemas().Draw(t, "schema")
		values := tuple(t, s)
		rest := must(s.Append(nil, values...))
		for i, f := range s.Fields() {
			want := must(f.Append(nil, values[i]))
			v, after, err := f.Decode(rest)
			if err != nil || compareField(f, v, values[i]) != 0 ||
				!bytes.Equal(rest[:len(rest)-len(after)], want) {
				t.Fatalf("%v: field %d of %v reads as %v, then %x, error %v", s, i, values, v,
					after, err)
			}
			if skipped, err := f.Skip(rest); err != nil || !bytes.Equal(skipped, after) {
				t.Fatalf("%v: after field %d of %v is %x, error %v; want %x", s, i, values,
					skipped, err, after)
			}
			rest = after
		}
		kept := func(f keycodec.Field) bool { return f.KeepCase }
		if n := len(rest); n > 0 && !slices.ContainsFunc(s.Fields(), kept) {
			t.Fatalf("%v: %d bytes are left of %v", s, n, values)
		}
	})
}
