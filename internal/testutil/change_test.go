package testutil_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

func TestEachChange(t *testing.T) {
	var got []string
	testutil.EachChange([]byte{0, 7}, func(b []byte) { got = append(got, fmt.Sprintf("%x", b)) })
	want := []string{"", "00", "0107", "8007", "ff07", "0006", "0087", "0000", "00ff"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
