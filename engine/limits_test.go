package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

var (
	long    = bytes.Repeat([]byte{'k'}, engine.MaxKeyBytes+1)
	emptySK = engine.Key{PK: []byte("p"), SK: []byte{}}
	badKeys = []badKey{
		{"no PK", engine.Key{}, engine.ErrEmptyPK},
		{"empty PK", engine.Key{PK: []byte{}, SK: []byte("s")}, engine.ErrEmptyPK},
		{"empty SK", emptySK, engine.ErrEmptySK},
		{"long PK", engine.Key{PK: long}, engine.ErrTooLarge},
		{"long SK", engine.Key{PK: []byte("p"), SK: long}, engine.ErrTooLarge},
	}
)

type badKey struct {
	name string
	key  engine.Key
	want error
}

// Every method that takes a key refuses a bad one with the same error, and nothing
// stored changes.
//
// Promise (manners): Bad arguments are refused with the documented error, and nothing changes.
// Also `TestBadArguments`, `TestBadOptions`, `TestBatchTooLarge`, `TestCanceledContext`; a nil
// context: `TestNilContext`, `TestNilContextOfTables`; the text: `TestTextOfArgumentErrors`.
func TestBadKeys(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pksk("p", "s"), []byte("v")))
	snap := snapshotOf(t, db)
	defer snap.Close()
	b := engine.NewBatch()
	for _, bad := range badKeys {
		k := bad.key
		calls := map[string]func() error{
			"Put":       func() error { return db.Put(k, nil) },
			"PutIf":     func() error { return db.PutIf(k, nil, engine.IfAbsent()) },
			"Delete":    func() error { return db.Delete(k) },
			"DeleteIf":  func() error { return db.DeleteIf(k, engine.IfPresent()) },
			"Get":       func() error { return second(db.Get(k)) },
			"AppendGet": func() error { return second(db.AppendGet(nil, k)) },
			"GetItem":   func() error { return second(db.GetItem(k)) },
			"Has":       func() error { return second(db.Has(k)) },
			"Batch.Put": func() error { return b.Put(k, nil) },
			"Batch.Del": func() error { return b.Delete(k) },
			"Snap.Get":  func() error { return second(snap.Get(k)) },
			"Snap.Has":  func() error { return second(snap.Has(k)) },
			"Snap.Item": func() error { return second(snap.GetItem(k)) },
			"StartAfter": func() error {
				for _, err := range db.Scan(ctx, engine.Scan{StartAfter: k}) {
					return err
				}
				return nil
			},
		}
		for name, in := range txCalls(k) {
			calls["Tx."+name] = func() error { return db.Update(ctx, in) }
		}
		if len(k.SK) == 0 && k.PK != nil || len(k.PK) > engine.MaxKeyBytes {
			if bad.want != engine.ErrEmptySK {
				calls["Query"] = func() error {
					return second(db.Count(ctx, engine.Query{PK: k.PK}))
				}
				calls["DeleteRange"] = func() error {
					return db.DeleteRange(k.PK, engine.SKCondition{})
				}
			}
		}
		for name, call := range calls {
			if bad.name == "no PK" && name == "StartAfter" {
				continue // the zero key stands for the beginning
			}
			if err := call(); !errors.Is(err, bad.want) {
				t.Errorf("%s with %s: %v, want %v", name, bad.name, err, bad.want)
			}
		}
	}
	if b.Len() != 0 || b.Bytes() != 0 {
		t.Errorf("refused writes left %d operations in the batch", b.Len())
	}
	if got := listing(db.Scan(ctx, engine.Scan{})); got != `p / s=v` {
		t.Errorf("database holds %s", got)
	}
}

func txCalls(k engine.Key) map[string]func(*engine.Tx) error {
	calls := txWrites(k)
	calls["Get"] = func(tx *engine.Tx) error { return second(tx.Get(k)) }
	calls["GetItem"] = func(tx *engine.Tx) error { return second(tx.GetItem(k)) }
	calls["Has"] = func(tx *engine.Tx) error { return second(tx.Has(k)) }
	return calls
}

// txWrites are the writes of one key in a transaction.
func txWrites(k engine.Key) map[string]func(*engine.Tx) error {
	absent, any := engine.IfAbsent(), engine.Condition{}
	return map[string]func(*engine.Tx) error{
		"Put":          func(tx *engine.Tx) error { return tx.Put(k, nil) },
		"Put, expires": func(tx *engine.Tx) error { return tx.Put(k, nil, engine.Expiry(1<<50)) },
		"PutIf, new":   func(tx *engine.Tx) error { return tx.PutIf(k, nil, absent) },
		"PutIf":        func(tx *engine.Tx) error { return tx.PutIf(k, nil, any) },
		"DeleteIf, no": func(tx *engine.Tx) error { return tx.DeleteIf(k, absent) },
		"DeleteIf":     func(tx *engine.Tx) error { return tx.DeleteIf(k, any) },
		"Delete":       func(tx *engine.Tx) error { return tx.Delete(k) },
	}
}

// TestViewWritesNothing: every writing method of Tx is refused in a View, whatever is there and
// whatever condition it has. The methods are found by their names, so that a new one is among
// them.
func TestViewWritesNothing(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pk("there"), []byte("v")))
	seen := map[string]bool{"DeleteRange": true, "DeleteScan": true}
	ok(t, db.View(ctx, func(tx *engine.Tx) error {
		for _, k := range []engine.Key{pk("there"), pk("new")} {
			for name, in := range txWrites(k) {
				seen[name] = true
				if err := in(tx); !errors.Is(err, engine.ErrReadOnly) {
					t.Errorf("%s of %v: %v", name, k, err)
				}
			}
		}
		wantIs(t, tx.DeleteRange([]byte("there"), engine.SKCondition{}), engine.ErrReadOnly)
		wantIs(t, tx.DeleteScan(engine.Key{}, engine.Key{}), engine.ErrReadOnly)
		return nil
	}))
	for m := range reflect.TypeFor[*engine.Tx]().Methods() {
		writes := strings.HasPrefix(m.Name, "Put") || strings.HasPrefix(m.Name, "Delete")
		if writes && !seen[m.Name] {
			t.Errorf("Tx.%s has not been tried", m.Name)
		}
	}
	if got := listing(db.Scan(ctx, engine.Scan{})); got != `there=v` {
		t.Errorf("database holds %s", got)
	}
}

// badCall is a call with an argument that makes no sense.
type badCall struct {
	call func() error
	want error
}

// Arguments that make no sense are refused, and nothing stored changes.
func TestBadArguments(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pksk("p", "s"), []byte("v")))
	b := engine.NewBatch()
	for _, calls := range []map[string]badCall{badReads(db), badWrites(db, b)} {
		for name, c := range calls {
			if err := c.call(); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
	if got := listing(db.Scan(ctx, engine.Scan{})); got != `p / s=v` || b.Len() != 0 {
		t.Errorf("database holds %s, batch %d operations", got, b.Len())
	}
}

func badReads(db *engine.DB) map[string]badCall {
	count := func(q engine.Query) func() error {
		return func() error { return second(db.Count(ctx, q)) }
	}
	scan := func(s engine.Scan) func() error {
		return func() error {
			for _, err := range db.Scan(ctx, s) {
				return err
			}
			return nil
		}
	}
	p := []byte("p")
	return map[string]badCall{
		"query limit": {count(engine.Query{PK: p, Limit: -1}), engine.ErrInvalid},
		"empty SKEqual": {count(engine.Query{PK: p, SK: engine.SKEqual(nil)}),
			engine.ErrEmptySK},
		"scan limit":       {scan(engine.Scan{Limit: -1}), engine.ErrInvalid},
		"negative segment": {scan(engine.Scan{Segment: -1, Segments: 4}), engine.ErrInvalid},
		"segment too high": {scan(engine.Scan{Segment: 4, Segments: 4}), engine.ErrInvalid},
		"segment alone":    {scan(engine.Scan{Segment: 1}), engine.ErrInvalid},
		"no segments":      {scan(engine.Scan{Segments: -1}), engine.ErrInvalid},
		"many segments":    {scan(engine.Scan{Segments: 257}), engine.ErrInvalid},
		"SK without PK":    {scan(engine.Scan{StartAfter: engine.Key{SK: p}}), engine.ErrEmptyPK},
		"unordered start": {
			scan(engine.Scan{Unordered: true, StartAfter: pk("a")}), engine.ErrInvalid,
		},
	}
}

func badWrites(db *engine.DB, b *engine.Batch) map[string]badCall {
	p := []byte("p")
	return map[string]badCall{
		"no batch": {func() error { return db.Apply(ctx, nil) }, engine.ErrInvalid},
		"range of empty SK": {func() error {
			return db.DeleteRange(p, engine.SKEqual([]byte{}))
		}, engine.ErrEmptySK},
		"value": {func() error {
			return db.Put(pk("x"), make([]byte, engine.MaxValueBytes+1))
		}, engine.ErrTooLarge},
		"value in batch": {func() error {
			return b.Put(pk("x"), make([]byte, engine.MaxValueBytes+1))
		}, engine.ErrTooLarge},
		"nameless property": {func() error { return db.SetProperty("", nil) }, engine.ErrInvalid},
		"binary property":   {func() error { return db.SetProperty("\xff", p) }, engine.ErrInvalid},
		"no destination": {func() error {
			return db.Checkpoint(ctx, "", nil)
		}, engine.ErrInvalid},
	}
}

// A canceled context stops a call before it does anything, with its cause.
func TestCanceledContext(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pk("p"), []byte("v")))
	why := errors.New("no time")
	canceled, cancel := context.WithCancelCause(ctx)
	cancel(why)
	b := engine.NewBatch()
	ok(t, b.Put(pk("x"), nil))
	nothing := func(*engine.Tx) error { t.Error("the function ran"); return nil }
	q := engine.Query{PK: []byte("p")}
	first := func(seq func(func(engine.Item, error) bool)) (err error) {
		seq(func(_ engine.Item, e error) bool { err = e; return false })
		return err
	}
	for name, call := range map[string]func() error{
		"Apply":       func() error { return db.Apply(canceled, b) },
		"Query":       func() error { return first(db.Query(canceled, q)) },
		"Scan":        func() error { return first(db.Scan(canceled, engine.Scan{})) },
		"Count":       func() error { return second(db.Count(canceled, q)) },
		"View":        func() error { return db.View(canceled, nothing) },
		"Update":      func() error { return db.Update(canceled, nothing) },
		"UpdateRetry": func() error { return db.UpdateRetry(canceled, nothing) },
		"Flush":       func() error { return db.Flush(canceled) },
		"Compact":     func() error { return db.Compact(canceled) },
		"Checkpoint":  func() error { return db.Checkpoint(canceled, "copy", nil) },
		"Verify":      func() error { return second(db.Verify(canceled, nil)) },
	} {
		if err := call(); !errors.Is(err, why) {
			t.Errorf("%s with a canceled context: %v", name, err)
		}
	}
	wantValue(t, db, pk("x"), nil)
	ok(t, db.Put(pk("y"), nil)) // and nothing of it makes the database read-only
}

// The batch limit is enforced before anything is added.
func TestBatchTooLarge(t *testing.T) {
	testutil.SlowUnderRace(t, "copies 256 MiB")
	b := engine.NewBatch()
	value := make([]byte, engine.MaxValueBytes)
	for i := range 3 {
		ok(t, b.Put(pk(fmt.Sprint(i)), value))
	}
	ok(t, b.Put(pk("3"), value[:engine.MaxValueBytes-1<<10]))
	size := b.Bytes()
	for _, err := range []error{
		b.Put(pk("4"), value[:1<<10]), b.Delete(engine.Key{PK: long[:1<<10]}),
		b.DeleteRange(long[:1<<10], engine.SKCondition{}),
	} {
		wantIs(t, err, engine.ErrTooLarge)
	}
	if b.Bytes() != size || b.Len() != 4 {
		t.Errorf("batch has %d bytes in %d operations", b.Bytes(), b.Len())
	}
	if size > engine.MaxBatchBytes {
		t.Errorf("%d bytes are over the limit", size)
	}
}

// A cursor of a version that this program does not know is refused even though its
// checksum is right.
func TestCursorOfNewerVersion(t *testing.T) {
	q := engine.Query{PK: []byte("p")}
	c := q.CursorAfter(engine.Item{Key: pk("p")})
	c[0]++
	q.After = resum(c)
	db := openMemory(t, engine.Options{})
	_, err := db.Count(ctx, q)
	wantIs(t, err, engine.ErrInvalidCursor)
	if !strings.Contains(err.Error(), "version") {
		t.Errorf("%v does not speak of the version", err)
	}
}

// Options beyond their limits, which are in TestLimitsOfOptions, are all reported at once, and no
// file is made.
func TestBadOptions(t *testing.T) {
	fsys := vfs.NewMem()
	_, err := engine.OpenFS(fsys, "db", &engine.Options{MaxRuns: 1, FilterBits: 3})
	wantIs(t, err, engine.ErrInvalid)
	for _, word := range []string{"MaxRuns", "FilterBits"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
	if names, _ := fsys.List("."); len(names) > 0 {
		t.Errorf("files were made: %v", names)
	}
}

// Keys at the limits, of any bytes, and keys that are prefixes of each other live
// through log replay, flush and merge, and are found in both directions.
//
// Promise (manners): Keys and values at their limits work. Also `TestLargestValue`,
// `TestEmptyValue`.
func TestExtremeKeys(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	const most = engine.MaxKeyBytes
	zeros, ffs := make([]byte, most), bytes.Repeat([]byte{0xff}, most)
	var all []engine.Key
	a, ab := []byte("a"), []byte("ab")
	for _, p := range [][]byte{{0}, {0, 0}, {0, 1}, {0xff}, {0xff, 0xff}, zeros, ffs, a, ab} {
		for _, s := range [][]byte{nil, {0}, {0, 0}, {0xff}, zeros, ffs, a, ab} {
			all = append(all, engine.Key{PK: p, SK: s})
		}
	}
	o := engine.Options{BlockBytes: 1 << 10}
	fsys := vfs.NewMem()
	db := openOn(t, fsys, o)
	value := func(k engine.Key) []byte { return fmt.Appendf(nil, "%d/%d", len(k.PK), len(k.SK)) }
	check := func(stage string) {
		t.Helper()
		for _, k := range all {
			wantValue(t, db, k, value(k))
		}
		for _, reverse := range []bool{false, true} {
			var last string
			n := 0
			for it, err := range db.Scan(ctx, engine.Scan{Reverse: reverse}) {
				ok(t, err)
				if now := id(it.Key); n > 0 && (now > last) == reverse {
					t.Fatalf("%s: scan is out of order", stage)
				} else {
					last = now
				}
				n++
			}
			if n != len(all) {
				t.Fatalf("%s: scan has %d items, want %d", stage, n, len(all))
			}
		}
		for _, p := range [][]byte{zeros, ffs, {0xff}, {0}} {
			if n, err := db.Count(ctx, engine.Query{PK: p, Reverse: true}); err != nil || n != 8 {
				t.Fatalf("%s: partition of %d bytes has %d items, %v", stage, len(p), n, err)
			}
		}
	}
	for _, k := range all {
		ok(t, db.Put(k, value(k)))
	}
	check("memtable")
	mustClose(t, db)
	db = openOn(t, fsys, o)
	check("replayed")
	ok(t, db.Flush(ctx))
	check("flushed")
	ok(t, db.Compact(ctx))
	ok(t, second(db.Verify(ctx, nil)))
	mustClose(t, db)
	db = openOn(t, fsys, o)
	check("merged")
	for _, p := range [][]byte{zeros, {0xff}} { // long range tombstones pass log and file
		ok(t, db.DeleteRange(p, engine.SKGreaterEqual(zeros)))
	}
	mustClose(t, db)
	db = openOn(t, fsys, o)
	ok(t, db.Flush(ctx))
	for _, p := range [][]byte{zeros, {0xff}} {
		// No SK, 00 and 00 00 lie below 64 Ki zeros.
		if n, err := db.Count(ctx, engine.Query{PK: p}); err != nil || n != 3 {
			t.Fatalf("%d items left, %v", n, err)
		}
	}
	mustClose(t, db)
}

// The largest value goes through every stage.
func TestLargestValue(t *testing.T) {
	testutil.SlowUnderRace(t, "writes 64 MiB several times")
	value := make([]byte, engine.MaxValueBytes)
	for i := 0; i < len(value); i += 512 {
		copy(value[i:], fmt.Sprint(i))
	}
	fsys := vfs.NewMem()
	o := engine.Options{MemtableBytes: 1 << 20, LogBytes: 8 << 20, CacheBytes: 1 << 20}
	within(t, 2*time.Minute, "writes around the largest value", func() {
		db := openOn(t, fsys, o)
		ok(t, db.Put(pk("big"), value))
		ok(t, db.Put(pk("small"), []byte("after"))) // the log has to move on
		wantValue(t, db, pk("big"), value)
		mustClose(t, db)
		db = openOn(t, fsys, o)
		wantValue(t, db, pk("big"), value)
		ok(t, db.Flush(ctx))
		ok(t, db.Put(pk("small"), []byte("again")))
		ok(t, db.Compact(ctx))
		mustClose(t, db)
		db = openOn(t, fsys, o)
		for it, err := range db.Query(ctx, engine.Query{PK: []byte("big")}) {
			ok(t, err)
			if !bytes.Equal(it.Value, value) {
				t.Error("query returns another value")
			}
		}
		wantValue(t, db, pk("small"), []byte("again"))
		ok(t, second(db.Verify(ctx, nil)))
		mustClose(t, db)
	})
}

// An empty value is a value: Get returns it as a slice that is not nil.
func TestEmptyValue(t *testing.T) {
	db := openMemory(t, engine.Options{})
	for _, v := range [][]byte{nil, {}} {
		ok(t, db.Put(pk("k"), v))
		for _, stage := range []string{"memtable", "file"} {
			got, err := db.Get(pk("k"))
			if err != nil || got == nil || len(got) != 0 {
				t.Errorf("%s: %v, %v", stage, got, err)
			}
			it, err := db.GetItem(pk("k"))
			if err != nil || it.Value == nil {
				t.Errorf("%s: item %v, %v", stage, it, err)
			}
			for it, err := range db.Query(ctx, engine.Query{PK: []byte("k")}) {
				if err != nil || it.Value == nil {
					t.Errorf("%s: query %v, %v", stage, it, err)
				}
			}
			ok(t, db.Flush(ctx))
		}
		ok(t, db.PutIf(pk("k"), []byte("x"), engine.IfValue(nil)))
	}
}

// resum gives changed bytes of a cursor a right checksum.
func resum(c engine.Cursor) engine.Cursor {
	body := c[:len(c)-4]
	sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	return binary.BigEndian.AppendUint32(bytes.Clone(body), sum)
}
