package sql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/sql"
)

// A query that is run again, whose rows of a stripe are in one block, leaves out blocks by their
// own zones.
func TestZonesOfRangesReadAgain(t *testing.T) {
	// With a larger cache the rows are read out of an image.
	e, db := openBlocks(t, engine.Options{BlockBytes: 1024, CacheBytes: 1 << 20})
	s := sql.Open(db)
	exec(t, s, "CREATE TABLE t (id INT, v INT, s TEXT, PRIMARY KEY (id))")
	var rows []string
	for i := range 12_000 {
		rows = append(rows, fmt.Sprintf("(%d, %d, '%s')", i, i, strings.Repeat("x", 20)))
	}
	exec(t, s, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	ok(t, e.Flush(context.Background()))
	for range 4 {
		got := queried(t, s, "SELECT count(*), sum(v) FROM t "+
			"WHERE id >= 1000 AND id < 2500 AND v >= 1200 AND v < 1300")
		if want := "100 124950"; got != want {
			t.Fatalf("got %q, want %s", got, want)
		}
		pruned := e.Metrics().PrunedBlocks
		got = queried(t, s, "SELECT id FROM t WHERE id >= 1000 AND id < 2500 AND v >= 8000")
		if n := e.Metrics().PrunedBlocks - pruned; n < 256 || got != "" {
			t.Errorf("got %q, %d blocks were left out", got, n)
		}
	}
}
