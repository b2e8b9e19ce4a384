package testutil_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

func TestEffort(t *testing.T) {
	for setting, want := range map[string]int{
		"": 30, "nightly": 500, "0": 1, "0.01": 1, "0.5": 15, "1": 30, "5": 150,
	} {
		t.Setenv("KSTONE_EFFORT", setting)
		if got := testutil.Effort(30, 500); got != want {
			t.Errorf("effort %q: %d, want %d", setting, got, want)
		}
	}
}

// An effort that is no number is an error that names the variable.
func TestBadEffort(t *testing.T) {
	for _, setting := range []string{"ci", "-1", "NaN", "Inf", "1001", "5x"} {
		t.Run(setting, func(t *testing.T) {
			t.Setenv("KSTONE_EFFORT", setting)
			defer func() {
				said := fmt.Sprint(recover())
				if !strings.Contains(said, "is not an effort: set nightly") {
					t.Error(said)
				}
			}()
			testutil.Effort(1, 2)
		})
	}
}
