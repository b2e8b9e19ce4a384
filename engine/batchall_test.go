package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
)

// fullBatch has an operation of each kind.
func fullBatch(t *testing.T) *engine.Batch {
	b := engine.NewBatch()
	ok(t, errors.Join(
		b.Require(engine.K("first"), engine.IfAbsent()),
		b.Put(engine.K("p"), []byte("1")),
		b.Put(engine.K("p", "s"), nil, engine.TTL(time.Minute)),
		b.PutIf(engine.K("q\x00", "s"), []byte("2"), engine.IfAbsent(), engine.Expiry(1<<50)),
		b.Delete(engine.K("r")),
		b.Require(engine.K("x"), engine.IfValue([]byte("x"))),
		b.DeleteIf(engine.K("x"), engine.IfPresent()),
		b.DeleteRange([]byte("gone"), engine.SKCondition{}),
		b.DeleteRange([]byte("gone"), engine.SKLess([]byte("m")).OrNone()),
		b.DeleteRange([]byte("gone"), engine.SKBetween([]byte("a"), []byte("b"))),
		b.DeleteScan(engine.K("scan"), engine.K("scan", "t")),
		b.DeleteScan(engine.K("z"), engine.Key{}),
		b.Require(engine.K("last"), engine.IfAbsent()),
	))
	return b
}

// opsOf returns the operations of a batch as text.
func opsOf(b *engine.Batch) (lines []string) {
	for op := range b.All() {
		lines = append(lines, fmt.Sprintf("%d %q %q %v %d %v %v to %q", op.Kind, op.Key, op.Value,
			time.Duration(op.TTL), op.Expiry, op.Cond, op.SK, op.To))
	}
	return lines
}

// copyOf makes a batch of the operations of another by the calls that make them.
func copyOf(t *testing.T, b *engine.Batch) *engine.Batch {
	t.Helper()
	out := engine.NewBatch()
	for op := range b.All() {
		switch op.Kind {
		case engine.BatchPut:
			var o engine.ItemOption = op.TTL
			if op.Expiry > 0 {
				o = op.Expiry
			}
			ok(t, out.PutIf(op.Key, op.Value, op.Cond, o))
		case engine.BatchDelete:
			ok(t, out.DeleteIf(op.Key, op.Cond))
		case engine.BatchRequire:
			ok(t, out.Require(op.Key, op.Cond))
		case engine.BatchDeleteRange:
			ok(t, out.DeleteRange(op.Key.PK, op.SK))
		case engine.BatchDeleteScan:
			ok(t, out.DeleteScan(op.Key, op.To))
		}
	}
	return out
}

// What a batch returns of itself, or is appended, makes the same batch again.
//
// Promise (reads and writes): What a batch returns of itself makes the same batch again. Also
// `TestCopiesOfBatchesDoTheSame`.
func TestBatchAll(t *testing.T) {
	b := fullBatch(t)
	want := opsOf(b)
	if len(want) != b.Len() {
		t.Errorf("%d operations, want %d", len(want), b.Len())
	}
	appended := engine.NewBatch()
	ok(t, appended.Put(engine.K("before"), nil))
	ok(t, appended.Append(b))
	got := opsOf(appended)
	if fmt.Sprint(got[1:]) != fmt.Sprint(want) {
		t.Errorf("appended %q\nwant %q", got[1:], want)
	}
	if again := opsOf(copyOf(t, b)); fmt.Sprint(again) != fmt.Sprint(want) {
		t.Errorf("copied %q\nwant %q", again, want)
	}
	for range b.All() {
		break
	}
	wantIs(t, b.Append(b), engine.ErrInvalid)
	wantIs(t, b.Append(nil), engine.ErrInvalid)
}

// A batch, a copy of it made of All, and one it is appended to do the same to a database, or
// fail at the same condition; also after the batch has been applied.
func TestCopiesOfBatchesDoTheSame(t *testing.T) {
	load := func(x string) *engine.DB {
		now := time.UnixMilli(1_000_000)
		db := openMemory(t, engine.Options{Clock: func() time.Time { return now }})
		for _, k := range []engine.Key{
			engine.K("gone"), engine.K("gone", "a"), engine.K("gone", "z"), engine.K("scan", "a"),
			engine.K("scan", "z"), engine.K("zz"), engine.K("r"),
		} {
			ok(t, db.Put(k, nil))
		}
		ok(t, db.Put(engine.K("x"), []byte(x)))
		return db
	}
	for _, x := range []string{"x", "another"} { // one fails
		a, b, c := fullBatch(t), engine.NewBatch(), copyOf(t, fullBatch(t))
		ok(t, b.Append(a))
		var want string
		for i, batch := range []*engine.Batch{a, b, c, a, copyOf(t, a)} {
			db := load(x)
			err := db.Apply(ctx, batch)
			got := fmt.Sprint(err)
			for it, err := range db.Scan(ctx, engine.Scan{}) {
				ok(t, err)
				got += fmt.Sprintf(" %q=%q until %d,", it.Key, it.Value, it.Expiry)
			}
			if i == 0 {
				want = got
			}
			if got != want {
				t.Errorf("batch %d: %s, want %s", i, got, want)
			}
		}
	}
}
