package typed_test

import (
	"testing"

	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/internal/testutil"
)

// What a commit of structs allocates does not grow with its rows, but for the memtables.
func TestTypedInsertsAllocateLittle(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	type plain struct {
		ID   int64  `kstone:"id,pk"`
		Text string `kstone:"text"`
		N    *int64 `kstone:"n"`
	}
	plains := typed.NewTable[plain]("plains")
	db := openTyped(t, plains)
	rows := make([]plain, 100)
	next, n := int64(0), int64(7)
	insert := func() {
		for i := range rows {
			next++
			rows[i] = plain{ID: next, Text: "some text of a row", N: &n}
		}
		if _, err := plains.InsertMany(ctx, db, rows); err != nil {
			t.Error(err)
		}
	}
	for range 50 { // memtables and pools have grown
		insert()
	}
	if got := testutil.AllocsPerRun(100, insert); got > 100 {
		t.Errorf("a commit of 100 rows allocates %v objects", got)
	}
}
