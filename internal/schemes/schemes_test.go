package schemes_test

import (
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/schemes"
)

// TestRegistry registers two schemes, and one of them again.
func TestRegistry(t *testing.T) {
	var r schemes.Registry[int]
	if _, ok := r.Get("s3"); ok || len(r.Names()) != 0 {
		t.Error("an empty registry has something")
	}
	r.Add("s3", 1, "two")
	r.Add("file", 2, "two")
	if v, ok := r.Get("s3"); !ok || v != 1 || !slices.Equal(r.Names(), []string{"file", "s3"}) {
		t.Error(v, ok, r.Names())
	}
	defer func() {
		if got := recover(); got != "two for s3://" {
			t.Error(got)
		}
	}()
	r.Add("s3", 3, "two")
}
