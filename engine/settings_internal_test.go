package engine

import (
	"errors"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

// Whatever a manifest stores as settings is damage, of a later version, or settings that
// are in range and stay as they are when nothing else is chosen.
func FuzzStoredSettings(f *testing.F) {
	f.Add([]byte(`{"compression":"zstd","block-bytes":"8KiB"}`))
	f.Add([]byte(`{"file-bytes":"9223372036854775807GiB"}`))
	f.Add([]byte(`{"filter-bits":"none","!later":"x"}`))
	f.Add([]byte(`{"filter-bits":""}`))
	f.Add([]byte(`[{}]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, value []byte) {
		defer testutil.Watch(value)()
		all := (&settings{}).with(settingsProperty, value)
		blob, err := all.encode()
		ok(t, err)
		_ = describeSettings(blob)
		o, store, err := joinSettings(nil, blob)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if string(store) != string(blob) {
			t.Fatalf("%s is to be stored as %s", blob, store)
		}
		if _, again, err := joinSettings(&o, blob); err != nil || len(again) == 0 {
			t.Fatalf("chosen again: %q, %v", again, err)
		}
	})
}
