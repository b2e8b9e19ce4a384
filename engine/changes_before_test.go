package engine_test

import (
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// With Before each change has the item before its commit, over flushes, merges and opens. Where
// versions are not kept it says that it does not know.
//
// Promise (history): A change that knows the item before its commit has exactly that, and one whose
// versions are not kept says so.
func TestChangesBefore(t *testing.T) {
	rnd := testutil.Rand(t)
	fsys := vfs.NewMem()
	o := retaining()
	o.Durability, o.FlushRecords, o.MaxRuns = engine.Process, 200, 2
	db := openOn(t, fsys, o)
	ok(t, writeRandomly(db, rnd, 50)) // versions are not kept
	mustClose(t, db)
	o.RetainVersions = time.Hour
	db = openOn(t, fsys, o)
	for range testutil.Effort(3, 100) {
		ok(t, writeRandomly(db, rnd, 100))
		ok(t, db.Compact(ctx))
		mustClose(t, db)
		db = openOn(t, fsys, o)
	}
	m, inCommit := map[string]string{}, []engine.Change{}
	known := 0
	for c, err := range db.Changes(ctx, engine.Position{},
		&engine.ChangesOptions{Stop: true, Before: true}) {
		ok(t, err)
		if c.Kind != engine.ChangeDeleteRange {
			want, there := m[id(c.Key)]
			wrong := c.Known && there != (c.Before != nil)
			if b := c.Before; b != nil {
				wrong = string(b.Value) != want || b.Version >= c.Version || id(b.Key) != id(c.Key)
			}
			if wrong || c.Known != (c.Version == 1 || c.Version > 50) {
				t.Fatalf("%s: known %v, %+v before it, want %v %q", changeText(&c), c.Known,
					c.Before, there, want)
			}
			if c.Known {
				known++
			}
		}
		if inCommit = append(inCommit, c.Clone()); c.Last {
			for i := range inCommit {
				applyChange(m, &inCommit[i])
			}
			inCommit = inCommit[:0]
		}
	}
	if known < 300 {
		t.Errorf("%d changes know what was before", known)
	}
	for c, err := range db.Changes(ctx, version(60), &engine.ChangesOptions{Stop: true}) {
		ok(t, err)
		if c.Known || c.Before != nil {
			t.Fatalf("%s knows what was before, and nobody has asked", changeText(&c))
		}
	}
	wantSame(t, m, content(t, db))
	mustClose(t, db)
}
