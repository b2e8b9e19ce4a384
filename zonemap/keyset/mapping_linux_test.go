package keyset_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/zonemap/keyset"
)

// isMapped reports whether the file is mapped into memory.
func isMapped(t *testing.T, name string) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	ok(t, err)
	return strings.Contains(string(maps), name)
}

// TestMappingEnds: the mapping of a file ends with its segment, that of a damaged file at once.
func TestMappingEnds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "mapped-segment")
	seg := mustBuild(t, nil, []uint64{1, 1 << 40, 1 << 50})[0]
	ok(t, seg.Save(name))
	opened, err := keyset.OpenSegment(name)
	if err != nil || !isMapped(t, name) {
		t.Fatalf("the file is not mapped, %v", err)
	}
	runtime.KeepAlive(opened)
	for range 100 { // a cleanup runs some time after the collection
		if runtime.GC(); !isMapped(t, name) {
			break
		}
		runtime.Gosched()
	}
	if isMapped(t, name) {
		t.Error("the file of a segment that is gone is still mapped")
	}
	ok(t, os.Truncate(name, 100))
	if _, err := keyset.OpenSegment(name); err == nil || isMapped(t, name) {
		t.Errorf("a damaged file is mapped, %v", err)
	}
}
