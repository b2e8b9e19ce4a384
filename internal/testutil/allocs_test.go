package testutil_test

import (
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

var sink *[64]byte

// What is allocated now and then is left out, what is allocated each time is not.
func TestAllocsPerRun(t *testing.T) {
	calls := 0
	got := testutil.AllocsPerRun(10, func() {
		if calls++; calls < 20 {
			sink = new([64]byte)
		}
	})
	if got != 0 || calls < 20 {
		t.Errorf("%v objects in %d calls, want 0 in the end", got, calls)
	}
	calls = 0
	got = testutil.AllocsPerRun(10, func() { calls++; sink = new([64]byte) })
	if got != 1 || calls != 55 {
		t.Errorf("%v objects in %d calls, want 1 in 55", got, calls)
	}
}
