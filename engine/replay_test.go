package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/wal"
)

// state reads everything with versions and expiries.
func state(t testing.TB, db *engine.DB) map[string]string {
	t.Helper()
	m := map[string]string{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		m[id(it.Key)] = fmt.Sprintf("%d %d %.40q %d",
			it.Version, it.Expiry, it.Value, len(it.Value))
	}
	return m
}

// writeAllSorts commits operations and records of every kind and size, at random.
func writeAllSorts(t *testing.T, db *engine.DB) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	key := func() engine.Key {
		return pksk(fmt.Sprint("pk", r.IntN(30)), fmt.Sprint("sk", r.IntN(20)))
	}
	b := engine.NewBatch()
	for n := range 3000 {
		b.Reset()
		ops := 1 + r.IntN(4)
		switch {
		case n%500 == 100:
			ops = 8000 // small ones, many to the same keys
		case n%500 == 200:
			ok(t, b.Put(key(), bytes.Repeat([]byte{byte(n)}, 300_000)))
		case n%500 == 300:
			ok(t, db.DeleteRange(key().PK, engine.SKLess([]byte("sk15"))))
		case n == 1000:
			ok(t, db.Flush(ctx))
		}
		for i := range ops {
			if ops == 8000 && i%2 == 0 { // nobody touches these again
				ok(t, b.Put(pksk(fmt.Sprint("big", n), fmt.Sprint(i%5000)), fmt.Append(nil, i)))
				continue
			}
			switch r.IntN(20) {
			case 0:
				ok(t, b.Delete(key()))
			case 1:
				ok(t, b.DeleteRange(key().PK, engine.SKBeginsWith([]byte("sk1"))))
			case 2:
				ok(t, b.Put(key(), fmt.Append(nil, n, i), engine.TTL(time.Hour)))
			default:
				ok(t, b.Put(key(), fmt.Append(nil, n, i)))
			}
		}
		ok(t, db.Apply(ctx, b))
	}
}

// Replay is spread over goroutines; what it gives must not depend on that: the order of
// a stripe's operations, also within one record, records larger than what is handed
// over at a time, records of more operations than that, range deletes, expiries, and
// records that are flushed for some stripes and not for others.
//
// Promise (reads and writes): Replay gives the same whatever it is spread over, and skips what
// is flushed. Also `TestReplayLeavesOutWhatIsFlushed`.
func TestReplayGivesTheSameState(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	dir := t.TempDir()
	o := engine.Options{Durability: engine.Process, MemtableBytes: 32 << 20}
	db := openDir(t, dir, &o)
	defer mustClose(t, db)
	writeAllSorts(t, db)
	want := state(t, db)
	if len(want) < 100 {
		t.Fatalf("only %d items", len(want))
	}
	killed := t.TempDir()
	ok(t, os.CopyFS(killed, os.DirFS(dir)))
	for _, readOnly := range []bool{true, false} {
		o.ReadOnly = readOnly
		again := openDir(t, killed, &o)
		got := state(t, again)
		for k, v := range want {
			if got[k] != v {
				t.Fatalf("read-only %v: %q is %s, want %s", readOnly, k, got[k], v)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("read-only %v: %d items, want %d", readOnly, len(got), len(want))
		}
		if m := again.Metrics(); m.MemtableBytes != m.Total.MemtableBytes {
			t.Fatalf("%d bytes of memory are counted, memtables have %d",
				m.MemtableBytes, m.Total.MemtableBytes)
		}
		if !readOnly {
			ok(t, again.Put(pk("after"), []byte("x")))
		}
		mustClose(t, again)
	}
}

// Replay leaves out what a flush has written, stripe by stripe: a busy stripe has been
// flushed while a quiet one still needs the log.
func TestReplayLeavesOutWhatIsFlushed(t *testing.T) {
	dir := t.TempDir()
	// No merge may be under way while the directory is copied.
	o := engine.Options{Durability: engine.Process, FlushRecords: 100, MaxRuns: 64}
	db, err := engine.Open(dir, &o)
	ok(t, err)
	defer mustClose(t, db)
	quiet, busy := pk("quiet"), pk("busy")
	ok(t, db.Put(quiet, []byte("v")))
	stripe := keycodec.Stripe(busy.PK)
	b := engine.NewBatch()
	for i := range 1000 {
		ok(t, b.Put(engine.Key{PK: busy.PK, SK: fmt.Append(nil, i)}, make([]byte, 100)))
		if b.Len() < o.FlushRecords {
			continue
		}
		ok(t, db.Apply(ctx, b))
		b.Reset()
		// A flush takes what is there when it begins: let it have all of each batch.
		eventually(t, "flush of the busy stripe", func() bool {
			m := db.Metrics().Stripes[stripe]
			return m.Records == uint64(i+1) && m.Runs > 0 && m.MemtableBytes < 1<<10
		})
	}
	killed := t.TempDir()
	ok(t, os.CopyFS(killed, os.DirFS(dir)))
	o.ReadOnly = true
	again := openDir(t, killed, &o)
	defer mustClose(t, again)
	wantValue(t, again, quiet, []byte("v"))
	n, err := again.Count(ctx, engine.Query{PK: busy.PK})
	ok(t, err)
	m := again.Metrics().Stripes[stripe]
	if n != 1000 || m.Records != 1000 {
		t.Fatalf("%d items, %d records in memtables and runs, want 1000 each", n, m.Records)
	}
}

// A range delete over much of a memtable freezes it, so that reads need not step over
// what is deleted; before a crash and after.
func TestRangeDeleteFreezesWhatItHides(t *testing.T) {
	fsys, stuck, release := stuckFlushes() // the copy is to have the log, not what was flushed
	stuck.Store(true)
	o := engine.Options{Durability: engine.Process}
	db := openOn(t, fsys, o)
	defer mustClose(t, db)
	b := engine.NewBatch()
	for i := range 5000 {
		ok(t, b.Put(pksk("p", fmt.Sprintf("%04d", i)), []byte("v")))
	}
	ok(t, db.Apply(ctx, b))
	ok(t, db.DeleteRange([]byte("p"), engine.SKBetween([]byte("0001"), []byte("4998"))))
	names, err := fsys.List("db")
	ok(t, err)
	again := openOn(t, filesOfNames(t, fsys, "db", names).store(t), o)
	defer mustClose(t, again)
	stuck.Store(false)
	close(release)
	for name, db := range map[string]*engine.DB{"written": db, "replayed": again} {
		eventually(t, name+" memtable flushed", func() bool { return db.Metrics().Flushes > 0 })
		got := listing(db.Query(ctx, engine.Query{PK: []byte("p")}))
		if want := "p / 0000=v p / 4999=v"; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Open reports the first record that makes no sense, in the order of the log, and
// neither hangs nor leaves anything behind, wherever the record is.
func TestReplayOfSenselessRecords(t *testing.T) {
	good := func(n int) []byte {
		return wal.AppendPut(nil, fmt.Append(nil, "pk", n), nil, make([]byte, 1000))
	}
	bad := func(kind byte) []byte { return append(good(0), kind, 1, 2, 3) }
	long := func(kind byte) []byte {
		return append(wal.AppendPut(nil, []byte("pk"), nil, make([]byte, 400_000)), kind)
	}
	for name, tail := range map[string][][]byte{
		"last":   {bad(99)},
		"first":  {bad(99), bad(98), good(1), long(97)},
		"middle": {good(1), long(99), good(2), bad(98)},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			fsys := vfs.NewMem()
			db := openOn(t, fsys, engine.Options{})
			for n := range 500 {
				ok(t, db.Put(pk(fmt.Sprint(n)), make([]byte, 1000)))
			}
			mustClose(t, db)
			appendToLog(t, fsys, tail)
			_, err := engine.OpenFS(fsys, "db", &engine.Options{})
			if !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), "got 99") {
				t.Fatalf("error is %v, want one about operation 99", err)
			}
			if n := fsys.OpenFiles(); n != 0 {
				t.Fatalf("%d files are open", n)
			}
		})
	}
}

// appendToLog adds records to the log of a closed database.
func appendToLog(t *testing.T, fsys vfs.FS, payloads [][]byte) {
	t.Helper()
	st, _, err := manifest.Load(fsys, "db")
	ok(t, err)
	o := wal.Options{
		FS: fsys, Dir: "db", DBID: st.DBID, SegmentBytes: 16 << 20,
		MaxRecordBytes: engine.MaxBatchBytes,
	}
	ignore := func(wal.SegmentNum, base.SeqNum, []byte) error { return nil }
	end, err := wal.Recover(o, wal.SegmentNum(st.LogStart), st.LogSeq, ignore)
	ok(t, err)
	log, err := wal.Open(o, end)
	ok(t, err)
	for _, p := range payloads {
		_, err := log.Append(p)
		ok(t, err)
	}
	ok(t, log.Sync(log.LastSeq()))
	ok(t, log.Close())
}

// Goal: Close does not write out what memtables hold, and Open replays it, less each time. Method:
// the bytes written to SSTs by Close are counted.
//
// Promise (manners): Close flushes at most about 2 MiB of memtables, whatever they hold, and leaves
// the rest to the log; each Close leaves less. Also `TestCloseGivesUpWork` in
// `engine/internal/upkeep`.
func TestCloseLeavesTheLog(t *testing.T) {
	var written atomic.Int64
	fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpWrite && strings.HasSuffix(op.Name, ".sst") {
			written.Add(op.Len)
		}
		return nil
	})
	db := openOn(t, fsys, engine.Options{Durability: engine.Process})
	rng, value := testutil.Rand(t), make([]byte, 1<<10)
	const items = 8 << 10
	for i := range items {
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		ok(t, db.Put(pk(fmt.Sprint(i)), value))
	}
	want := content(t, db)
	mustClose(t, db)
	for left := int64(math.MaxInt64); left > 2<<20; {
		if n := written.Swap(0); n < 1<<20 || n > 4<<20 {
			t.Fatalf("Close has written %d bytes", n)
		}
		db = openOn(t, fsys, engine.Options{})
		n := db.Metrics().MemtableBytes
		if n >= left {
			t.Fatalf("Open has made memtables of %d bytes, and of %d before", n, left)
		}
		left = n
		if got := content(t, db); !maps.Equal(got, want) {
			t.Fatalf("%d items, want %d", len(got), len(want))
		}
		mustClose(t, db)
	}
}
