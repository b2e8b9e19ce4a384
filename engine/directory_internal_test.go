package engine

import (
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// TestShareFiles: a quarter of the files, at least 32, are left to the program.
func TestShareFiles(t *testing.T) {
	for limit, want := range map[int][2]int{
		20: {1, 4}, 34: {1, 4}, 36: {2, 4}, 40: {4, 4}, 42: {5, 5}, 128: {48, 48}, 160: {60, 60},
		172: {64, 65}, 256: {64, 128}, 1024: {64, 704}, 4096: {64, 3008},
	} {
		if flush, readers := shareFiles(limit); [2]int{flush, readers} != want {
			t.Errorf("of %d files %d and %d, want %d", limit, flush, readers, want)
		}
	}
}

// A call that Close has overtaken finds the database closed, and not failed.
func TestEditAfterClose(t *testing.T) {
	db, err := openOn(vfs.NewMem(), "db", &Options{RetainBytes: 1 << 20})
	testutil.OK(t, err)
	testutil.OK(t, db.Close())
	_, err = db.history.Join("c", Position{})
	testutil.WantIs(t, err, ErrClosed)
	if f := db.failure.Load(); f != nil {
		t.Error(f)
	}
}
