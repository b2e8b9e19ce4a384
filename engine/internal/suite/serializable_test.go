package suite_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/elle"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// lists keeps lists of numbers in a database. Even ones are one item each, whose value is
// the whole list; odd ones are partitions with an item for each element, so that reading
// them is a query and appending to them depends on what a range does not hold.
type lists struct {
	db    *engine.DB
	clock atomic.Int64
	next  atomic.Int64
	mu    sync.Mutex
	txs   []elle.Tx // Guarded by mu
}

const listCount = 6

func listKey(list int) engine.Key { return engine.K(fmt.Sprintf("list#%d", list)) }

func elementKey(list, n int) engine.Key {
	return engine.Key{PK: listKey(list).PK, SK: binary.BigEndian.AppendUint32(nil, uint32(n)+1)}
}

// readList reads a list; by a scan of everything if scan is set.
func readList(tx engine.Reader, list int, scan bool) (read []int, err error) {
	if list%2 == 0 && !scan {
		v, err := tx.Get(listKey(list))
		if errors.Is(err, engine.ErrNotFound) {
			return nil, nil
		}
		return decodeList(v), err
	}
	seq := tx.Query(ctx, engine.Query{PK: listKey(list).PK})
	if scan {
		seq = tx.Scan(ctx, engine.Scan{})
	}
	for it, err := range seq {
		if err != nil {
			return nil, err
		}
		if string(it.Key.PK) == string(listKey(list).PK) {
			read = append(read, decodeList(it.Value)...)
		}
	}
	return read, nil
}

func decodeList(v []byte) (read []int) {
	for ; len(v) >= 4; v = v[4:] {
		read = append(read, int(binary.BigEndian.Uint32(v)))
	}
	return read
}

// appendList appends a value to what was read. With again set, it takes the list away and writes
// all of it again.
func appendList(tx *engine.Tx, list, value int, read []int, again bool) error {
	if list%2 == 1 {
		from := len(read)
		if again {
			if err := tx.DeleteRange(listKey(list).PK, engine.SKCondition{}); err != nil {
				return err
			}
			from = 0
		}
		for i, n := range append(slices.Clone(read), value)[from:] {
			v := binary.BigEndian.AppendUint32(nil, uint32(n))
			if err := tx.Put(elementKey(list, from+i), v); err != nil {
				return err
			}
		}
		return nil
	}
	if again {
		if err := tx.Delete(listKey(list)); err != nil {
			return err
		}
	}
	var v []byte
	for _, n := range append(slices.Clone(read), value) {
		v = binary.BigEndian.AppendUint32(v, uint32(n))
	}
	return tx.Put(listKey(list), v)
}

// transaction runs one random transaction and notes it.
func (l *lists) transaction(rnd *rand.Rand) error {
	plan := make([]elle.Op, 1+rnd.IntN(5))
	for i := range plan {
		plan[i].List = rnd.IntN(listCount)
		if rnd.IntN(2) == 0 {
			plan[i].Append = int(l.next.Add(1))
		}
	}
	readOnly := !slices.ContainsFunc(plan, func(o elle.Op) bool { return o.Append != 0 })
	fail, scan, again := rnd.IntN(10) == 0, rnd.IntN(20) == 0, rnd.IntN(3) == 0
	var done []elle.Op
	run := func(reader engine.Reader, tx *engine.Tx) error {
		done = nil // another try reads again
		for _, o := range plan {
			read, err := readList(reader, o.List, scan)
			if err != nil {
				return err
			}
			done = append(done, elle.Op{List: o.List, Read: read})
			runtime.Gosched() // so that others get in between
			if o.Append == 0 {
				continue
			}
			if err := appendList(tx, o.List, o.Append, read, again); err != nil {
				return err
			}
			done = append(done, o)
		}
		if fail {
			return errOnPurpose
		}
		return nil
	}
	way := rnd.IntN(2)
	if readOnly {
		way = rnd.IntN(4)
	}
	call := l.clock.Add(1)
	err := l.do(way, run)
	tx := elle.Tx{Ops: done, Call: call, Return: l.clock.Add(1)}
	if errors.Is(err, engine.ErrConflict) || errors.Is(err, errOnPurpose) {
		tx.Aborted, err = true, nil
	}
	if len(done) > 0 && !(tx.Aborted && readOnly) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.txs = append(l.txs, tx)
	}
	return err
}

// do runs a transaction: as an update or, if it only reads, in a snapshot.
func (l *lists) do(way int, run func(engine.Reader, *engine.Tx) error) error {
	inTx := func(tx *engine.Tx) error { return run(tx, tx) }
	switch way {
	case 0:
		return l.db.Update(ctx, inTx)
	case 1:
		return l.db.UpdateRetry(ctx, inTx)
	case 2:
		return l.db.View(ctx, inTx)
	}
	s, err := l.db.Snapshot()
	if err != nil {
		return err
	}
	return errors.Join(run(s, nil), s.Close())
}

// readAll is the transaction at the end of a history.
func (l *lists) readAll(db *engine.DB) (tx elle.Tx, err error) {
	tx.Call = l.clock.Add(1)
	err = db.View(ctx, func(x *engine.Tx) error {
		for list := range listCount {
			read, err := readList(x, list, false)
			if err != nil {
				return err
			}
			tx.Ops = append(tx.Ops, elle.Op{List: list, Read: read})
		}
		return nil
	})
	tx.Return = l.clock.Add(1)
	return tx, err
}

// work runs clients, and flushes and merges beside them, until each client has done so
// many transactions.
func (l *lists) work(t testing.TB, each int, rnd *rand.Rand) {
	seed := rnd.Uint64()
	beside(t, l.db, 6, func(n int) {
		own := rand.New(rand.NewPCG(seed, uint64(n)))
		for range each {
			if err := l.transaction(own); err != nil {
				t.Error(err)
				return
			}
		}
	})
}

func wantSerializable(t *testing.T, what string, txs []elle.Tx) {
	t.Helper()
	problems := elle.Check(txs)
	for _, p := range problems[:min(5, len(problems))] {
		t.Errorf("%s: %.600s", what, p)
	}
}

// Goal: transactions are strictly serializable, those that read ranges included. Method:
// goroutines append to lists in many stripes and read them, by all the ways there are,
// while flushes and merges go on and the database is opened again in between; some
// transactions are rolled back. The order of the versions, which the lists themselves
// tell, must be one that no cycle of dependencies contradicts.
//
// Promise (reads and writes): Transactions are strictly serializable, phantoms included; what
// crashes leave is, too. Also `TestTransactionsAreSerializableAcrossCrashes`,
// `TestChangesOfAQueriedRangeConflict`.
func TestTransactionsAreSerializable(t *testing.T) {
	rounds, each := testutil.Effort(2, 5), min(80, testutil.Effort(40, 80))
	seed := testutil.Seed(t)
	total, conflicts := 0, uint64(0)
	for round := range rounds {
		l, fsys := &lists{}, vfs.NewMem()
		for phase := range 2 {
			l.db = openFixed(t, fsys, engine.Options{
				Durability: engine.Process, FlushRecords: []int{0, 3, 20}[round%3], MaxRuns: 2,
			})
			l.work(t, each, rand.New(rand.NewPCG(seed, uint64(2*round+phase))))
			conflicts += l.db.Metrics().Conflicts
			if phase == 1 {
				last, err := l.readAll(l.db)
				ok(t, err)
				l.txs = append(l.txs, last)
			}
			mustClose(t, l.db)
		}
		total += len(l.txs)
		wantSerializable(t, fmt.Sprintf("seed %d round %d", seed, round), l.txs)
	}
	t.Logf("%d transactions, %d conflicts", total, conflicts)
}

// Goal: what a crash leaves is serializable, too: the transactions of a prefix, whole,
// with all that were acknowledged before. Method: as above, on a file system whose disk
// after a kill or a power cut is taken at random moments; what is found on it is the
// end of the history. At Process a power cut may lose acknowledged transactions, but no
// part of one, and none that another one found there has read.
func TestTransactionsAreSerializableAcrossCrashes(t *testing.T) {
	rounds, each := testutil.Effort(2, 4), min(40, testutil.Effort(15, 40))
	seed := testutil.Seed(t)
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(seed, uint64(round)))
		level := engine.Sync + engine.Durability(round%2)
		l, fsys := &lists{}, vfstest.NewCrash()
		var cuts []listCut
		var ops atomic.Int64
		var mu sync.Mutex
		o := engine.Options{Durability: level, FlushRecords: 10, MaxRuns: 2}
		hook := func(op vfstest.Op) error {
			if crashChances[op.Kind] == 0 || ops.Add(1)%23 != 0 {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if len(cuts) < 25 {
				cuts = append(cuts, l.cut(fsys, rnd, level))
			}
			return nil
		}
		db, err := openOn(vfstest.NewFault(fsys, hook), "db", &o)
		ok(t, err)
		l.db = db
		l.work(t, each, rand.New(rand.NewPCG(seed, uint64(100+round))))
		mustClose(t, db)
		for i, c := range cuts {
			c.check(t, fmt.Sprintf("seed %d round %d cut %d at %v", seed, round, i, level), l)
		}
		t.Logf("%v: %d transactions, %d crashes", level, len(l.txs), len(cuts))
	}
}

// listCut is the disk after a crash, and the time of it.
type listCut struct {
	fs     *vfstest.CrashFS
	at     int64
	killed bool // and the power stays
	lost   bool // acknowledged transactions may be lost
}

func (l *lists) cut(fsys *vfstest.CrashFS, rnd *rand.Rand, level engine.Durability) listCut {
	c := listCut{at: l.clock.Add(1)}
	if rnd.IntN(2) == 0 {
		c.fs, c.killed = fsys.Kill(), true
		return c
	}
	c.fs = vfstest.CrashOf(fsys.PowerCut(rnd, rnd.Float64()))
	c.lost = level == engine.Process
	return c
}

// check makes the history that ends with the crash and judges it.
func (c *listCut) check(t *testing.T, where string, l *lists) {
	t.Helper()
	db := openFixed(t, c.fs, engine.Options{})
	defer mustClose(t, db)
	last, err := l.readAll(db)
	ok(t, err)
	there := map[int]bool{}
	for _, o := range last.Ops {
		for _, v := range o.Read {
			there[v] = true
		}
	}
	var history []elle.Tx
	for _, tx := range l.txs {
		found, writes, readLost := false, false, false
		for _, o := range tx.Ops {
			writes = writes || o.Append != 0
			found = found || there[o.Append]
			for _, v := range o.Read {
				readLost = readLost || !there[v]
			}
		}
		acknowledged := tx.Return < c.at && !c.lost
		// A reader sees what may not be synced yet.
		if found || (acknowledged && !tx.Aborted && (writes || !readLost || c.killed)) {
			history = append(history, tx)
		}
	}
	wantSerializable(t, where, append(history, last))
}
