package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
)

// partitionsOfStripes returns n partition keys, each of another stripe.
func partitionsOfStripes(n int) (pks [][]byte) {
	seen := map[uint8]bool{}
	for i := 0; len(pks) < n; i++ {
		p := fmt.Appendf(nil, "p%03d", i)
		if id := keycodec.Stripe(p); !seen[id] {
			seen[id] = true
			pks = append(pks, p)
		}
	}
	return pks
}

// lastOf returns the error of a sequence, and how many items came before it.
func lastOf[T any](seq func(func(T, error) bool)) error {
	var last error
	for _, err := range seq {
		last = err
	}
	return last
}

// TestReadsFailWithTheirOperations: a read of a file that fails, whichever it is, is the error of
// the call that needs it, and the next call succeeds. If blocks are read together,
// those that are needed are read again one by one: they fail when the device goes on to fail.
func TestReadsFailWithTheirOperations(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	var plan atomic.Pointer[vfstest.FailPlan]
	fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if p := plan.Load(); p != nil {
			return p.Hook(op)
		}
		return nil
	})
	db := openOn(t, fsys, engine.Options{
		CacheBytes: 1, MaxRuns: 64, BlockBytes: 1 << 10, Durability: engine.Process,
	})
	defer mustClose(t, db)
	pks := partitionsOfStripes(6)
	for range 2 { // runs of each
		for i := range 30 {
			for _, p := range pks {
				ok(t, db.Put(pksk(string(p), fmt.Sprintf("%02d", i)), make([]byte, 50)))
			}
		}
		ok(t, db.Flush(ctx))
	}
	for name, call := range readingCalls(db, pks) {
		failed := 0
		lasting := readsTogether.MatchString(name)
		for at := int64(1); ; at++ {
			p := &vfstest.FailPlan{At: at, Err: errDisk, Lasting: lasting}
			p.Match = func(op vfstest.Op) bool {
				return op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst")
			}
			plan.Store(p)
			err := call()
			plan.Store(nil)
			if _, hit := p.Failed(); !hit {
				ok(t, err)
				break
			}
			failed++
			if !errors.Is(err, errDisk) {
				t.Errorf("%s, read %d fails: %v", name, at, err)
			}
		}
		if failed == 0 {
			t.Errorf("%s reads no file", name)
		}
	}
}

// readsTogether matches the names of calls that read several blocks of a file at once.
var readsTogether = regexp.MustCompile("^(MultiGet of many|MultiHas|FilterNew|InsertNew)")

// readingCalls are calls that have to read the files of some partitions.
func readingCalls(db *engine.DB, pks [][]byte) map[string]func() error {
	var some, many []engine.Key
	var items []engine.Item
	for i := range 10 {
		for _, p := range pks {
			k := pksk(string(p), fmt.Sprintf("%02d", 2*i))
			if many = append(many, k); i == 0 {
				some = append(some, k)
			}
			items = append(items, engine.Item{Key: k})
		}
	}
	q := engine.Query{PK: pks[0]}
	in := func(r engine.Reader) map[string]func() error {
		return map[string]func() error{
			"Get":           func() error { return second(r.Get(some[1])) },
			"GetItem":       func() error { return second(r.GetItem(some[1])) },
			"Has":           func() error { return second(r.Has(some[1])) },
			"MultiGet":      func() error { return r.MultiGet(ctx, some, new(engine.Results)) },
			"MultiGet of 3": func() error { return r.MultiGet(ctx, some[:3], new(engine.Results)) },
			"MultiGet of many": func() error {
				return r.MultiGet(ctx, many, new(engine.Results))
			},
			"MultiHas": func() error { return second(r.MultiHas(ctx, many, nil)) },
			"Query":    func() error { return lastOf(r.Query(ctx, q)) },
			"Query backward": func() error {
				return lastOf(r.Query(ctx, engine.Query{PK: q.PK, Reverse: true}))
			},
			"Count": func() error { return second(r.Count(ctx, q)) },
			"Scan":  func() error { return lastOf(r.Scan(ctx, engine.Scan{})) },
			"Scan unordered": func() error {
				return lastOf(r.Scan(ctx, engine.Scan{Unordered: true}))
			},
			"CountScan": func() error { return second(r.CountScan(ctx, engine.Scan{})) },
			"Gather":    func() error { return lastOf(r.Gather(ctx, engine.Gather{PKs: pks[:3]})) },
			"Gather by partition": func() error {
				return lastOf(r.Gather(ctx, engine.Gather{PKs: pks[:3], ByPartition: true}))
			},
			"CountGather": func() error {
				return second(r.CountGather(ctx, engine.Gather{PKs: pks[:3]}))
			},
		}
	}
	calls := in(db)
	snap := func(call string) func() error {
		return func() error {
			s, err := db.Snapshot()
			if err != nil {
				return err
			}
			return errors.Join(in(s)[call](), s.Close())
		}
	}
	for _, name := range []string{"Get", "MultiGet", "Query"} {
		calls[name+" in a snapshot"] = snap(name)
		calls[name+" in a view"] = func() error {
			return db.View(ctx, func(tx *engine.Tx) error { return in(tx)[name]() })
		}
	}
	addWritingCalls(db, calls, some, items)
	calls["Sample"] = func() error { return sampleOf(db, 1) }
	calls["Sample of everything"] = func() error { return sampleOf(db, 1000) }
	return calls
}

func sampleOf(db *engine.DB, parts int) error {
	s, err := db.Snapshot()
	if err != nil {
		return err
	}
	q := engine.Sample{Parts: parts, Rand: rand.New(rand.NewPCG(1, 1))}
	return errors.Join(lastOf(s.Sample(ctx, q)), s.Close())
}

// addWritingCalls adds writes that depend on what is in files. Those that are repeated leave what
// they depend on as it is.
func addWritingCalls(
	db *engine.DB, calls map[string]func() error, keys []engine.Key, items []engine.Item,
) {
	filter := func(o *engine.FilterOptions) func() error {
		return func() error {
			var given []engine.Key
			for _, it := range items {
				given = append(given, it.Key)
			}
			_, _, err := db.FilterNew(ctx, given, nil, o)
			return err
		}
	}
	calls["FilterNew"] = filter(nil)
	calls["FilterNew approximately"] = filter(&engine.FilterOptions{Approximate: true})
	calls["InsertNew"] = func() error {
		_, _, err := db.InsertNew(ctx, items, nil)
		return err
	}
	failsOr := func(err error) error {
		if errors.Is(err, engine.ErrConditionFailed) {
			return nil
		}
		return err
	}
	calls["PutIf"] = func() error { return failsOr(db.PutIf(keys[2], nil, engine.IfAbsent())) }
	calls["DeleteIf"] = func() error {
		return failsOr(db.DeleteIf(keys[2], engine.IfAbsent()))
	}
	for _, n := range []int{3, 6} {
		calls[fmt.Sprintf("Apply with %d conditions", n)] = func() error {
			b := engine.NewBatch()
			for _, k := range keys[:n] {
				if err := b.Require(k, engine.IfPresent()); err != nil {
					return err
				}
			}
			return db.Apply(ctx, b)
		}
	}
	calls["Tx.PutIfAbsent"] = func() error {
		return failsOr(db.Update(ctx, func(tx *engine.Tx) error {
			return tx.PutIf(keys[3], nil, engine.IfAbsent())
		}))
	}
	calls["Verify"] = func() error { return second(db.Verify(ctx, nil)) }
}

// TestCommitsFailWithTheirReads: whether what a transaction has read is unchanged may stand in a
// file that has come since. A read of it that fails is an error of the commit, which then
// writes nothing; and so is one of the look that InsertNew takes under its locks.
func TestCommitsFailWithTheirReads(t *testing.T) {
	for name, call := range map[string]func(db *engine.DB, meanwhile func()) error{
		"a key": func(db *engine.DB, meanwhile func()) error {
			return db.Update(ctx, func(tx *engine.Tx) error {
				_, err := tx.Has(pksk("p", "30"))
				meanwhile()
				return errors.Join(err, tx.Put(pk("written"), nil))
			})
		},
		"a range": func(db *engine.DB, meanwhile func()) error {
			return db.Update(ctx, func(tx *engine.Tx) error {
				_, err := tx.Count(ctx, engine.Query{PK: []byte("p"),
					SK: engine.SKBetween([]byte("20"), []byte("40"))})
				meanwhile()
				return errors.Join(err, tx.Put(pk("written"), nil))
			})
		},
	} {
		var broken atomic.Bool
		fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
			if broken.Load() && op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".sst") {
				return errDisk
			}
			return nil
		})
		db := openOn(t, fsys, engine.Options{
			CacheBytes: 1, MaxRuns: 64, Durability: engine.Process,
		})
		put := func(sks ...string) {
			for _, sk := range sks {
				ok(t, db.Put(pksk("p", sk), nil))
			}
			ok(t, db.Flush(ctx))
		}
		put("10", "50")
		// The key is among what comes: of an absent one the filter may know without a read.
		err := call(db, func() { put("05", "30", "35", "55"); broken.Store(true) })
		broken.Store(false)
		if !errors.Is(err, errDisk) || errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		wantValue(t, db, pk("written"), nil)
		mustClose(t, db)
	}
}

// endsAfter is a context that ends after n looks at it.
type endsAfter struct {
	context.Context
	n int
}

func (c *endsAfter) Err() error {
	if c.n--; c.n < 0 {
		return errEnough
	}
	return nil
}

// TestReadsHeedTheirContext: however late a context ends, the call that still has something to
// read reports it.
func TestReadsHeedTheirContext(t *testing.T) {
	db := openMemory(t, engine.Options{BlockBytes: 1 << 10, Durability: engine.Process})
	var pks [][]byte
	var keys []engine.Key
	for i := range 300 {
		k := pksk(fmt.Sprintf("p%03d", i), "s")
		pks, keys = append(pks, k.PK), append(keys, k)
		ok(t, db.Put(k, make([]byte, 100)))
		ok(t, db.Put(pksk("one", fmt.Sprintf("%03d", i)), nil))
	}
	s := snapshotOf(t, db)
	defer s.Close()
	for name, call := range map[string]func(context.Context) error{
		"MultiGet": func(c context.Context) error {
			return db.MultiGet(c, keys, new(engine.Results))
		},
		"MultiHas": func(c context.Context) error { return second(db.MultiHas(c, keys, nil)) },
		"Query": func(c context.Context) error {
			return lastOf(db.Query(c, engine.Query{PK: []byte("one")}))
		},
		"Scan": func(c context.Context) error { return lastOf(db.Scan(c, engine.Scan{})) },
		"Gather": func(c context.Context) error {
			return lastOf(db.Gather(c, engine.Gather{PKs: pks}))
		},
		"Partition": func(c context.Context) error {
			return lastOf(db.Gather(c, engine.Gather{PKs: pks, ByPartition: true}))
		},
		"Sample": func(c context.Context) error {
			return lastOf(s.Sample(c, engine.Sample{Parts: 10, Rand: rand.New(rand.NewPCG(1, 1))}))
		},
	} {
		for n := range 5 {
			c := &endsAfter{ctx, n}
			if err := call(c); c.n < 0 && !errors.Is(err, errEnough) || c.n >= 0 && err != nil {
				t.Errorf("%s, ends after %d looks: %v", name, n, err)
			}
		}
	}
}
