package zonemap

import "testing"

// TestSizeOfFilters: a filter has 8 or 16 bits and at most a quarter of 2^32 keys.
func TestSizeOfFilters(t *testing.T) {
	for _, c := range []struct {
		bits int
		keys uint64
		want string
	}{
		{8, 0, ""}, {16, 1073741823, ""},
		{8, 1073741824, "zonemap: filter over 1073741824 keys is too large"},
		{7, 1, "zonemap: filter of 7 bits; 8 and 16 are supported"},
		{17, 1, "zonemap: filter of 17 bits; 8 and 16 are supported"},
	} {
		got := ""
		if err := checkSize(c.bits, c.keys); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d bits, %d keys: %q", c.bits, c.keys, got)
		}
	}
}
