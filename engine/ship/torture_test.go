package ship_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/ship/shiptest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

func openOn(t testing.TB, fsys vfs.FS, o engine.Options) *engine.DB {
	t.Helper()
	db, err := openfs.Open(fsys, "db", &o)
	ok(t, err)
	return db.(*engine.DB)
}

// Goal: whatever happens to the writer, the shipper and the destination, what can be restored is a
// prefix of the commits, and has all that was reported as shipped.
//
// Method: processes that write random commits and ship them every millisecond, with bases, merges
// and retention as often, to a destination where one call in 8, 40 or 200 fails before or after its
// effect, tears, forgets, comes late or twice. They end in order, are killed, or lose their power.
// After each the destination is listed, without faults, and restored at its last version and at
// another one of each range.
//
// Promise (shipping): Every version that a destination lists is restored as it was, and every one
// that was reported as shipped is listed: whatever was killed, and with a destination that delays,
// duplicates, tears, forgets and answers 5xx.
func TestShipUnderFaults(t *testing.T) {
	rnd := testutil.Rand(t)
	voyages := testutil.Effort(2, 300)
	did := map[string]int{}
	for range voyages {
		good := ship.DirectoryOn(vfs.NewMem(), "dest")
		dest := newFaulty(good, rnd.Uint64(), []int{8, 40, 200}[rnd.IntN(3)])
		v := &shiptest.Voyage{T: t, Rnd: rnd, Dest: dest, Good: good, Did: did, Dead: dest.setDead,
			Temporary: func(err error) bool {
				return errors.Is(err, errServer) || errors.Is(err, io.ErrUnexpectedEOF)
			},
			Upkeep: 5 * time.Millisecond,
			Restore: func(version uint64) *engine.DB {
				fsys := vfs.NewMem()
				if _, err := ship.RestoreOn(ctx, good, fsys, "db", &ship.RestoreOptions{
					To: ship.Target{Version: version}}); err != nil {
					t.Fatalf("restore to %d: %v", version, err)
				}
				return openOn(t, fsys, engine.Options{MustExist: true})
			}}
		v.Run(4)
		dest.heal()
		for what, n := range dest.hits {
			did[what] += n
		}
	}
	t.Log(did)
}
