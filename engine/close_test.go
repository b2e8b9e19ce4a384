package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Goal: a program that opens, writes a little and closes, again and again, leaves neither
// many log segments nor preallocated space behind.
func TestManyShortRunsLeaveLittle(t *testing.T) {
	mem := vfs.NewMem()
	for i := range 60 {
		db := openOn(t, mem, engine.Options{})
		ok(t, db.Put(pk(fmt.Sprintf("k%d", i%5)), fmt.Appendf(nil, "v%d", i), nil))
		mustClose(t, db)
	}
	names, err := mem.List("db")
	ok(t, err)
	segments := 0
	for _, name := range names {
		if strings.HasPrefix(name, "wal-") {
			segments++
		}
	}
	if segments > 18 {
		t.Errorf("%d log segments are left", segments)
	}
	if used := mem.UsedBytes(); used > 1<<20 {
		t.Errorf("%d bytes for five items", used)
	}
	db := openOn(t, mem, engine.Options{})
	defer mustClose(t, db)
	for i := range 5 {
		wantValue(t, db, pk(fmt.Sprintf("k%d", i)), fmt.Appendf(nil, "v%d", 55+i))
	}
}
