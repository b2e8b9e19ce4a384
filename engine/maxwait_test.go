package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Every write gives up waiting for a flush that does not end: after MaxWait, or with its
// context. Nothing is written then, and the same writes succeed when the flush has ended.
//
// Promise (durability): A write gives up waiting for flushes after `MaxWait`, or with its
// context, and nothing of it is written. Also `TestWaitedFor` in `engine/internal/upkeep`.
func TestWritesGiveUpWaiting(t *testing.T) {
	let := make(chan struct{})
	fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpCreate && strings.HasSuffix(op.Name, ".sst") {
			<-let
		}
		return nil
	})
	db := openOn(t, fsys, engine.Options{Durability: engine.Process, MemtableBytes: 1 << 20})
	ok(t, db.Put(pksk("p", "old"), []byte("v")))
	// Longer than any pause below full pressure: a writer that gives up was really blocked.
	const long, short = engine.MaxWait(100 * time.Millisecond), engine.MaxWait(time.Millisecond)
	var err error
	for n := 0; err == nil && n < 10_000; n++ {
		err = db.Put(pksk("filler", fmt.Sprint(n)), make([]byte, 16<<10), long)
	}
	wantIs(t, err, context.DeadlineExceeded)

	b := engine.NewBatch()
	ok(t, b.Put(pksk("p", "batch"), nil))
	writes := writesOfEachKind(db, b)
	before := db.Metrics().LastVersion
	within(t, 2*time.Minute, "the end of the waits", func() {
		for name, write := range writes {
			err := write(short)
			wantIs(t, err, context.DeadlineExceeded)
			if !strings.Contains(err.Error(), "waiting for a flush") {
				t.Errorf("%s: %v", name, err)
			}
		}
		why := errors.New("the client is gone")
		canceled, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Millisecond, func() { cancel(why) })
		wantIs(t, db.Apply(canceled, b), why)
	})
	if after := db.Metrics().LastVersion; after != before {
		t.Errorf("version %d after writes that gave up, %d before", after, before)
	}
	wantValue(t, db, pksk("p", "old"), []byte("v"))
	close(let)
	for name, write := range writes {
		if err := write(0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantIs(t, db.Put(pk("k"), nil, engine.MaxWait(-1)), engine.ErrInvalid)
	mustClose(t, db)
}

// writesOfEachKind are calls of partition p, in which item old is, by name.
func writesOfEachKind(
	db *engine.DB, b *engine.Batch,
) map[string]func(engine.MaxWait) error {
	items := []engine.Item{{Key: pksk("p", "insert")}}
	return map[string]func(o engine.MaxWait) error{
		"Put": func(o engine.MaxWait) error {
			return db.Put(pksk("p", "put"), nil, o)
		},
		"PutIfAbsent": func(o engine.MaxWait) error {
			return db.PutIf(pksk("p", "absent"), nil, engine.IfAbsent(), o)
		},
		"PutIf": func(o engine.MaxWait) error {
			return db.PutIf(pksk("p", "if"), nil, engine.IfAbsent(), o)
		},
		"Delete": func(o engine.MaxWait) error {
			return db.Delete(pksk("p", "old"), o)
		},
		"DeleteIf": func(o engine.MaxWait) error {
			return db.DeleteIf(pksk("p", "none"), engine.IfAbsent(), o)
		},
		"DeleteRange": func(o engine.MaxWait) error {
			return db.DeleteRange([]byte("q"), engine.SKCondition{}, o)
		},
		"Apply": func(o engine.MaxWait) error { return db.Apply(ctx, b, o) },
		"InsertNew": func(o engine.MaxWait) error {
			_, _, err := db.InsertNew(ctx, items, nil, o)
			return err
		},
	}
}
