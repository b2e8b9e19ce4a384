package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"go.uber.org/goleak"
)

// Every method of a closed database, and of what was made from it, says ErrClosed and
// does nothing else.
//
// Promise (manners): Everything after Close is `ErrClosed`, and an iteration that is under way
// ends so at its next item; Close may meet any call; nothing is left running. Also
// `TestIterationAcrossClose`, `TestCloseMeetsEverything`, `TestNothingIsLeftRunning`.
func TestEverythingAfterClose(t *testing.T) {
	db, err := engine.Open("test", &engine.Options{InMemory: true, RetainBytes: 1 << 20})
	ok(t, err)
	consumer, err := db.Consumer("c", engine.Position{})
	ok(t, err)
	for i := range 10 {
		ok(t, db.Put(pksk("p", fmt.Sprint(i)), nil))
	}
	b := engine.NewBatch()
	ok(t, b.Put(pk("x"), nil))
	snap := snapshotOf(t, db)
	q := engine.Query{PK: []byte("p")}
	var tx *engine.Tx
	ok(t, db.Update(ctx, func(x *engine.Tx) error { tx = x; return nil }))
	calls := closedCalls(db, b)
	first := func(seq iter.Seq2[engine.Item, error]) func() error {
		return func() error {
			for _, err := range seq {
				return err
			}
			return nil
		}
	}
	calls["old Query"] = first(db.Query(ctx, q)) // made before Close, used after
	calls["old Scan"] = first(db.Scan(ctx, engine.Scan{}))
	calls["old unordered Scan"] = first(db.Scan(ctx, engine.Scan{Unordered: true}))
	calls["snapshot Get"] = func() error { return second(snap.Get(pk("p"))) }
	calls["snapshot GetItem"] = func() error { return second(snap.GetItem(pk("p"))) }
	calls["snapshot Has"] = func() error { return second(snap.Has(pk("p"))) }
	calls["snapshot Count"] = func() error { return second(snap.Count(ctx, q)) }
	calls["snapshot Query"] = first(snap.Query(ctx, q))
	calls["snapshot Scan"] = first(snap.Scan(ctx, engine.Scan{}))
	for name, in := range txCalls(pk("p")) {
		calls["Tx."+name] = func() error { return in(tx) }
	}
	calls["Tx.Query"] = first(tx.Query(ctx, q))
	calls["Tx.Scan"] = first(tx.Scan(ctx, engine.Scan{}))
	calls["Tx.DeleteRange"] = func() error { return tx.DeleteRange(q.PK, engine.SKCondition{}) }

	calls["Ack"] = func() error { return consumer.Ack(engine.Position{}) }

	wantIs(t, db.Close(), engine.ErrLeaked)
	wantIs(t, db.Close(), engine.ErrLeaked) // the same answer again
	for name, call := range calls {
		if err := call(); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	_ = db.Metrics().String()
	ok(t, snap.Close())
	ok(t, snap.Close())
}

func closedCalls(db *engine.DB, b *engine.Batch) map[string]func() error {
	k := pksk("p", "1")
	none := func(*engine.Tx) error { return nil }
	return map[string]func() error{
		"Put":         func() error { return db.Put(k, nil) },
		"PutIf":       func() error { return db.PutIf(k, nil, engine.IfPresent()) },
		"PutIfAbsent": func() error { return db.PutIf(k, nil, engine.IfAbsent()) },
		"Delete":      func() error { return db.Delete(k) },
		"DeleteIf":    func() error { return db.DeleteIf(k, engine.IfPresent()) },
		"DeleteRange": func() error { return db.DeleteRange(k.PK, engine.SKCondition{}) },
		"Apply":       func() error { return db.Apply(ctx, b) },
		"Apply empty": func() error { return db.Apply(ctx, engine.NewBatch()) },
		"Get":         func() error { return second(db.Get(k)) },
		"AppendGet":   func() error { return second(db.AppendGet(nil, k)) },
		"GetItem":     func() error { return second(db.GetItem(k)) },
		"Has":         func() error { return second(db.Has(k)) },
		"Count":       func() error { return second(db.Count(ctx, engine.Query{PK: k.PK})) },
		"View":        func() error { return db.View(ctx, none) },
		"Update":      func() error { return db.Update(ctx, none) },
		"UpdateRetry": func() error { return db.UpdateRetry(ctx, none) },
		"Snapshot":    func() error { return second(db.Snapshot()) },
		"Sync":        func() error { return db.Sync(ctx) },
		"Flush":       func() error { return db.Flush(ctx) },
		"Compact":     func() error { return db.Compact(ctx) },
		"Checkpoint":  func() error { return db.Checkpoint(ctx, "copy", nil) },
		"Verify":      func() error { return second(db.Verify(ctx, nil)) },
		"SetProperty": func() error { return db.SetProperty("p", nil) },
	}
}

// A transaction is over when its function returns, also while the database is open.
func TestTxAfterItsEnd(t *testing.T) {
	db := openMemory(t, engine.Options{})
	var old *engine.Tx
	ok(t, db.Update(ctx, func(tx *engine.Tx) error { old = tx; return tx.Put(pk("a"), nil) }))
	for name, in := range txCalls(pk("b")) {
		if err := in(old); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, err := range old.Scan(ctx, engine.Scan{}) {
		wantIs(t, err, engine.ErrClosed)
	}
	wantValue(t, db, pk("b"), nil)
}

// Close may meet any other call: nothing panics or hangs, background work ends
// without a false alarm, and what was acknowledged is there afterwards.
func TestCloseMeetsEverything(t *testing.T) {
	rounds := testutil.Effort(3, 8)
	for round := range rounds {
		within(t, 2*time.Minute, "Close", func() { closeRound(t, round) })
	}
}

func closeRound(t *testing.T, round int) {
	var fsys vfs.FS = vfs.NewMem()
	if round%4 == 3 { // also with a log that is mapped into memory
		t.Chdir(t.TempDir())
		fsys = vfs.OS()
	}
	o := engine.Options{FlushRecords: 5, MaxRuns: 2, Durability: engine.Durability(1 + round%2)}
	o.Events = &engine.Events{ReadOnly: func(err error) { t.Errorf("read-only: %v", err) }}
	db := openOn(t, fsys, o)
	var acked [4]atomic.Int64
	var wg sync.WaitGroup
	loop := func(f func() error) { wg.Go(func() { untilClosed(t, f) }) }
	for w := range acked {
		loop(func() error {
			n := acked[w].Load()
			err := db.Put(pksk(fmt.Sprint(w), fmt.Sprint(n)), nil)
			if err == nil {
				acked[w].Add(1)
			}
			return err
		})
	}
	for i := range 3 {
		loop(func() error {
			for _, err := range db.Scan(ctx, engine.Scan{Unordered: i == 0, Reverse: i == 1}) {
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	copies := 0
	loop(func() error {
		_, err := db.Get(pksk("none", "1"))
		if errors.Is(err, engine.ErrNotFound) {
			return nil
		}
		return err
	})
	for _, f := range callsOfMany(db) {
		loop(f)
	}
	loop(func() error { return db.Flush(ctx) })
	loop(func() error { return db.Compact(ctx) })
	loop(func() error { return db.Sync(ctx) })
	loop(func() error { return db.SetProperty("round", []byte{byte(round)}) })
	loop(func() error { return second(db.Verify(ctx, nil)) })
	loop(func() error { copies++; return db.Checkpoint(ctx, fmt.Sprintf("copy-%d", copies), nil) })
	loop(func() error {
		return db.UpdateRetry(ctx, func(tx *engine.Tx) error { return tx.Put(pk("tx"), nil) })
	})
	eventually(t, "some writes", func() bool { return acked[0].Load() > int64(20+20*round) })
	if err := db.Close(); err != nil && !errors.Is(err, engine.ErrLeaked) {
		t.Errorf("Close: %v", err)
	}
	wg.Wait()
	db = openOn(t, fsys, o)
	defer mustClose(t, db)
	for w := range acked {
		n, err := db.Count(ctx, engine.Query{PK: []byte(fmt.Sprint(w))})
		if want := acked[w].Load(); err != nil || n < want || n > want+1 {
			t.Errorf("writer %d: %d items, %d acknowledged, %v", w, n, want, err)
		}
	}
}

// callsOfMany are calls about keys of many stripes.
func callsOfMany(db *engine.DB) []func() error {
	var keys []engine.Key
	var items []engine.Item
	g := engine.Gather{}
	b := engine.NewBatch()
	for i := range 50 {
		k := pk(fmt.Sprintf("many#%02d", i))
		keys, items = append(keys, k), append(items, engine.Item{Key: k})
		g.PKs = append(g.PKs, k.PK)
		if err := errors.Join(b.Require(k, engine.Condition{}), b.Delete(k)); err != nil {
			panic(err)
		}
	}
	return []func() error{
		func() error { return db.MultiGet(ctx, keys, new(engine.Results)) },
		func() error { return second(db.MultiHas(ctx, keys, nil)) },
		func() error { return second(db.CountGather(ctx, g)) },
		func() error { return db.Apply(ctx, b) },
		func() error {
			_, _, err := db.FilterNew(ctx, keys, nil, nil)
			return err
		},
		func() error {
			_, _, err := db.InsertNew(ctx, items, nil)
			return err
		},
		func() error {
			s, err := db.Snapshot()
			if err != nil {
				return err
			}
			return errors.Join(s.MultiGet(ctx, keys, new(engine.Results)), s.Close())
		},
	}
}

// untilClosed calls f until it returns ErrClosed, the only error it may return.
func untilClosed(t *testing.T, f func() error) {
	for {
		if err := f(); errors.Is(err, engine.ErrClosed) {
			return
		} else if err != nil {
			t.Errorf("%v", err)
			return
		}
	}
}

// A caller may change what it passed in, and what Get gave it.
//
// Promise (manners): Slices have the owner that the documentation names. Also
// `TestReusedBuffersChangeNothing`, `TestHandedOutValuesAreTheCallers`; `TestHandedOutMemory` in
// `memtable`.
func TestSlicesBelongToTheirOwners(t *testing.T) {
	db := openMemory(t, engine.Options{})
	scribble := func(bs ...[]byte) {
		for _, b := range bs {
			for i := range b {
				b[i] = '!'
			}
		}
	}
	p, s, v := []byte("p"), []byte("s"), []byte("value")
	k := engine.Key{PK: p, SK: s}
	ok(t, db.Put(k, v))
	b := engine.NewBatch()
	p2, v2 := []byte("q"), []byte("batch")
	ok(t, b.Put(engine.Key{PK: p2}, v2))
	r := []byte("r")
	ok(t, b.DeleteRange(r, engine.SKCondition{}))
	scribble(p, s, v, p2, v2, r)
	ok(t, db.Apply(ctx, b))
	b.Reset()
	ok(t, b.Put(pk("other"), []byte("other")))
	ok(t, db.SetProperty("p", v2))
	scribble(v2, []byte("x"))
	for _, stage := range []string{"memtable", "file"} {
		got, err := db.Get(pksk("p", "s"))
		ok(t, err)
		scribble(got)
		it, err := db.GetItem(pksk("p", "s"))
		ok(t, err)
		scribble(it.Key.PK, it.Key.SK, it.Value)
		for it, err := range db.Scan(ctx, engine.Scan{}) {
			ok(t, err)
			c := it.Clone()
			scribble(c.Key.PK, c.Key.SK, c.Value)
		}
		prop, _ := db.Property("p")
		scribble(prop)
		if got := listing(db.Scan(ctx, engine.Scan{})); got != "p / s=value q=batch" {
			t.Fatalf("%s: database holds %s", stage, got)
		}
		ok(t, db.Flush(ctx))
	}
	dst, err := db.AppendGet([]byte("before "), pk("q"))
	if err != nil || !bytes.Equal(dst, []byte("before batch")) {
		t.Errorf("%q, %v", dst, err)
	}
	dst, err = db.AppendGet(dst[:6], pk("none"))
	if !errors.Is(err, engine.ErrNotFound) || string(dst) != "before" {
		t.Errorf("%q, %v", dst, err)
	}
}

// However a loop ends, it leaves nothing behind that Close would complain about.
func TestLoopsThatEndEarly(t *testing.T) {
	before := goleak.IgnoreCurrent()
	defer goleak.VerifyNone(t, before)
	db := openOn(t, vfs.NewMem(), engine.Options{FlushRecords: 10})
	defer mustClose(t, db)
	for i := range 100 {
		ok(t, db.Put(pksk(fmt.Sprint(i%7), fmt.Sprint(i)), []byte("v")))
	}
	snap := snapshotOf(t, db)
	defer snap.Close()
	q := engine.Query{PK: []byte("1")}
	seqs := map[string]iter.Seq2[engine.Item, error]{
		"query": db.Query(ctx, q), "scan": db.Scan(ctx, engine.Scan{}),
		"unordered": db.Scan(ctx, engine.Scan{Unordered: true}),
		"snapshot":  snap.Scan(ctx, engine.Scan{}),
		"reverse":   db.Scan(ctx, engine.Scan{Reverse: true}),
	}
	for name, seq := range seqs {
		for range seq {
			break
		}
		func() {
			defer func() {
				if recover() != "in the body" {
					t.Errorf("%s: the panic was lost", name)
				}
			}()
			for range seq {
				panic("in the body")
			}
		}()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range seq {
				return
			}
		}()
		<-done
		next, stop := iter.Pull2(seq)
		if _, err, more := next(); err != nil || !more {
			t.Errorf("%s: %v, %v", name, err, more)
		}
		stop()
		stop()
		if n := db.Metrics().OpenSnapshots; n != 1 {
			t.Fatalf("%s: %d snapshots are open, want 1", name, n)
		}
	}
	if err := db.View(ctx, func(tx *engine.Tx) error {
		for range tx.Scan(ctx, engine.Scan{}) {
			return io.EOF
		}
		return nil
	}); err != io.EOF {
		t.Errorf("view: %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = db.Update(ctx, func(*engine.Tx) error { panic("in the function") })
	}()
	if n := db.Metrics().OpenSnapshots; n != 1 {
		t.Fatalf("%d snapshots are open, want 1", n)
	}
}

// An iteration that is still open at Close is reported, and ends with ErrClosed at its next
// item, whatever it has read ahead.
func TestIterationAcrossClose(t *testing.T) {
	pks := func(n int) (all [][]byte) {
		for i := range n {
			all = append(all, fmt.Appendf(nil, "%04d", i))
		}
		return all
	}
	iterations := map[string]func(*engine.DB) iter.Seq2[engine.Item, error]{
		"scan": func(db *engine.DB) iter.Seq2[engine.Item, error] {
			return db.Scan(ctx, engine.Scan{})
		},
		"unordered scan": func(db *engine.DB) iter.Seq2[engine.Item, error] {
			return db.Scan(ctx, engine.Scan{Unordered: true})
		},
		"gather": func(db *engine.DB) iter.Seq2[engine.Item, error] {
			return db.Gather(ctx, engine.Gather{PKs: pks(10)})
		},
		"gather by partition": func(db *engine.DB) iter.Seq2[engine.Item, error] {
			return db.Gather(ctx, engine.Gather{PKs: pks(10), ByPartition: true})
		},
		"query": func(db *engine.DB) iter.Seq2[engine.Item, error] {
			return db.Query(ctx, engine.Query{PK: []byte("0000")})
		},
		"reverse query": func(db *engine.DB) iter.Seq2[engine.Item, error] {
			return db.Query(ctx, engine.Query{PK: []byte("0000"), Reverse: true})
		},
	}
	for name, iterate := range iterations {
		for _, rows := range []int{2, 300} {
			fsys := vfs.NewMem()
			db := openOn(t, fsys, engine.Options{CacheBytes: 1, BlockBytes: 1 << 10})
			for i := range 10 * rows {
				key := pksk(fmt.Sprintf("%04d", i%10), fmt.Sprint(i))
				ok(t, db.Put(key, make([]byte, 50),
					engine.Process))
				if i == 5*rows {
					ok(t, db.Flush(ctx)) // the rest stays in the memtables
				}
			}
			next, stop := iter.Pull2(iterate(db))
			_, err, _ := next()
			ok(t, err)
			wantIs(t, db.Close(), engine.ErrLeaked)
			if _, err, more := next(); !more || !errors.Is(err, engine.ErrClosed) {
				t.Errorf("%s of %d rows: %v, more %v after Close", name, rows, err, more)
			}
			stop()
			if open := fsys.OpenFiles(); open > 0 {
				t.Errorf("%s: %d files are open", name, open)
			}
		}
	}
}

// No goroutine and no file is left after Close, nor after an Open that fails.
func TestNothingIsLeftRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	fsys := vfs.NewMem()
	db := openOn(t, fsys, engine.Options{FlushRecords: 3, MaxRuns: 2})
	for i := range 50 {
		ok(t, db.Put(pk(fmt.Sprint(i%9)), nil))
	}
	ok(t, second(db.Get(pk("1"))))
	_, err := engine.OpenFS(fsys, "db", nil)
	wantIs(t, err, engine.ErrLocked)
	mustClose(t, db)
	if n := fsys.OpenFiles(); n != 0 {
		t.Errorf("%d files are open after Close", n)
	}
	goleak.VerifyNone(t, before)
	// Each step of Open fails once.
	for n := int64(0); ; n++ {
		var count atomic.Int64
		fault := vfstest.NewFault(fsys, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpClose {
				return nil
			}
			if count.Add(1) == n+1 {
				return errors.New("on purpose")
			}
			return nil
		})
		db, err := engine.OpenFS(fault, "db", nil)
		if err == nil {
			_ = db.Close()
		}
		if open := fsys.OpenFiles(); open != 0 {
			t.Fatalf("operation %d failed: %d files are open (%v)", n, open, err)
		}
		goleak.VerifyNone(t, before)
		if err == nil && count.Load() <= n {
			break
		}
	}
	db = openOn(t, fsys, engine.Options{})
	if len(content(t, db)) != 9 {
		t.Errorf("items are lost")
	}
	mustClose(t, db)
}

// Callbacks are called without locks held: they may use the database.
//
// Promise (manners): Callbacks are called without locks.
func TestCallbacksMayUseTheDatabase(t *testing.T) {
	var db *engine.DB
	var ready sync.WaitGroup
	ready.Add(1)
	var flushed, compacted, readOnly atomic.Int32
	use := func() {
		ready.Wait()
		_ = db.Put(pk("from callback"), nil)
		_, _ = db.Get(pk("k"))
		_ = db.SetProperty("from callback", nil)
		_ = db.Metrics()
	}
	var broken atomic.Bool
	fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if broken.Load() && op.Kind == vfstest.OpSync {
			return errors.New("disk is gone")
		}
		return nil
	})
	within(t, 2*time.Minute, "callbacks", func() {
		db = openOn(t, fsys, engine.Options{Events: &engine.Events{
			Flushed: func(engine.FlushEvent) {
				use()
				if flushed.Add(1) == 1 {
					_ = db.Flush(ctx)
				}
			},
			Compacted: func(engine.CompactionEvent) {
				use()
				if compacted.Add(1) == 1 {
					_ = db.Compact(ctx)
				}
			},
			ReadOnly: func(error) { use(); _ = db.Flush(ctx); readOnly.Add(1) },
		}})
		ready.Done()
		for i := range 4 {
			ok(t, db.Put(pk("k"), []byte{byte(i)}))
			ok(t, db.Flush(ctx))
		}
		ok(t, db.Compact(ctx))
		broken.Store(true)
		wantIs(t, db.Put(pk("k"), nil), engine.ErrReadOnly)
		eventually(t, "read-only event", func() bool { return readOnly.Load() == 1 })
		wantIs(t, db.Put(pk("k"), nil), engine.ErrReadOnly)
		_ = db.Close()
	})
	if flushed.Load() < 4 || compacted.Load() < 1 || readOnly.Load() != 1 {
		t.Errorf("%d flushes, %d merges, %d failures", flushed.Load(), compacted.Load(),
			readOnly.Load())
	}
}

// Writing in the loop body of a transaction's own iteration is asked not to be done. Who
// does it nevertheless sees items once each, and the commit is whole.
func TestTxWritesInItsOwnLoop(t *testing.T) {
	db := openMemory(t, engine.Options{})
	const n = 300
	for i := range n {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%04d", i)), []byte("old")))
	}
	within(t, 2*time.Minute, "the transaction", func() {
		ok(t, db.Update(ctx, func(tx *engine.Tx) error {
			last, seen := "", 0
			for it, err := range tx.Query(ctx, engine.Query{PK: []byte("p")}) {
				if err != nil {
					return err
				}
				if k := id(it.Key); k <= last {
					t.Fatalf("%q comes after %q", k, last)
				} else {
					last = k
				}
				seen++
				if err := tx.Put(it.Key, []byte("new")); err != nil {
					return err
				}
			}
			if seen != n {
				t.Errorf("the loop saw %d items", seen)
			}
			return nil
		}))
	})
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		if err != nil || string(it.Value) != "new" {
			t.Fatalf("%v is %q, %v", it.Key, it.Value, err)
		}
	}
}

// A transaction inside the function of another is another transaction: the outer one
// loses if the inner one changed what it has read, and nothing hangs.
func TestNestedTransactions(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pk("k"), nil))
	within(t, 2*time.Minute, "nested transactions", func() {
		err := db.Update(ctx, func(outer *engine.Tx) error {
			_ = second(outer.Get(pk("k")))
			ok(t, db.Update(ctx, func(inner *engine.Tx) error {
				_ = second(inner.Get(pk("k")))
				return inner.Put(pk("k"), []byte("inner"))
			}))
			return outer.Put(pk("k"), []byte("outer"))
		})
		wantIs(t, err, engine.ErrConflict)
	})
	wantValue(t, db, pk("k"), []byte("inner"))
}
