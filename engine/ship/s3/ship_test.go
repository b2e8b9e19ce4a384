package s3_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/ship/s3"
	"github.com/kstonedb/kstone/engine/ship/s3/s3test"
	"github.com/kstonedb/kstone/engine/ship/shiptest"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Promise (shipping): Also over a connection that fails, to a bucket, every version that is listed
// is restored as it was, and every one that was reported as shipped is listed.
func TestShipUnderFaults(t *testing.T) {
	rnd, addr, did := testutil.Rand(t), s3test.Start(t), map[string]int{}
	restored := 0
	for i := range testutil.Effort(2, 100) {
		p := s3test.NewProxy(t, addr, rand.New(rand.NewPCG(rnd.Uint64(), 1)), 3+5*i)
		good := open(t, s3test.URL(addr, fmt.Sprint(i)))
		v := &shiptest.Voyage{T: t, Rnd: rnd, Good: good, Did: did, Dead: p.SetDead,
			Dest: open(t, s3test.URL(p.Addr(), fmt.Sprint(i))),
			Temporary: func(err error) bool {
				return !errors.Is(err, ship.ErrOther) && !errors.Is(err, ship.ErrGap) &&
					!errors.Is(err, ship.ErrFenced) && !errors.Is(err, engine.ErrCorrupt) &&
					!errors.Is(err, engine.ErrInvalid) && !errors.Is(err, s3.ErrUnconditional)
			},
			Upkeep: 20 * time.Millisecond,
			Restore: func(version uint64) *engine.DB {
				restored++
				dir := filepath.Join(t.TempDir(), fmt.Sprint(restored))
				if _, err := ship.Restore(ctx, good, dir, &ship.RestoreOptions{
					To: ship.Target{Version: version}}); err != nil {
					t.Fatalf("restore to %d: %v", version, err)
				}
				db, err := engine.Open(dir, &engine.Options{MustExist: true})
				ok(t, err)
				return db
			}}
		v.Run(4)
		p.Heal()
		for what, n := range p.Hits() {
			did[what] += n
		}
	}
	t.Log(did)
	if did["merged"] == 0 || did["removed"] == 0 || did["bases"] < 2 {
		t.Errorf("no merges, or nothing was removed: %v", did)
	}
}

// Of two shippers to a bucket the second goes on, and the first is fenced.
func TestTwoShippers(t *testing.T) {
	d := open(t, s3test.URL(s3test.Start(t), "two"))
	db, err := engine.Open(t.TempDir(), &engine.Options{RetainBytes: 16 << 20})
	ok(t, err)
	defer func() { ok(t, db.Close()) }()
	o := &ship.Options{Interval: 5 * time.Millisecond}
	a, err := ship.Start(db, d, o)
	ok(t, err)
	ok(t, db.Put(engine.Key{PK: []byte("k")}, []byte("one")))
	ok(t, a.WaitFor(ctx, 1))
	b, err := ship.Start(db, d, o)
	ok(t, err)
	<-a.Ended()
	wantIs(t, a.Close(ctx), ship.ErrFenced)
	ok(t, db.Put(engine.Key{PK: []byte("k")}, []byte("two")))
	ok(t, b.Close(ctx))
	c, err := ship.List(ctx, d)
	ok(t, err)
	if len(c.Ranges) != 1 || c.Ranges[0].Last.Version != 2 || len(c.Damage) > 0 {
		t.Errorf("%+v", c)
	}
}
