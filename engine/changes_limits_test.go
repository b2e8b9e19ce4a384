package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// At RetainBytes a consumer that has not gone on is dropped, or writers wait for it, as chosen.
//
// Promise (history): RetainBytes is not exceeded: what gives way is chosen, and typed.
func TestRetainLimit(t *testing.T) {
	value := make([]byte, 64<<10)
	for _, limit := range []engine.RetainLimit{engine.DropConsumers, engine.WaitForConsumers} {
		db := openOn(t, vfs.NewMem(), engine.Options{RetainBytes: 4 << 20, RetainLimit: limit,
			MemtableBytes: 4 << 20, LogBytes: 16 << 20, Durability: engine.Process})
		c, err := db.Consumer("slow", engine.Position{})
		ok(t, err)
		n := 0
		for ; n < 800 && err == nil; n++ {
			err = db.Put(pk(fmt.Sprint(n%300)), value, engine.MaxWait(200*time.Millisecond))
		}
		held := db.Metrics().RetainedBytes
		if held > 4<<20+db.Metrics().LogBudgetBytes {
			t.Errorf("limit %d: %d bytes are retained", limit, held)
		}
		if limit == engine.DropConsumers {
			ok(t, err)
			_, err = first(c.Changes(ctx, nil))
			wantIs(t, err, engine.ErrGone)
			mustClose(t, db)
			continue
		}
		if err == nil || !strings.Contains(err.Error(), `the consumer "slow" of changes`) {
			t.Fatalf("after %d puts: %v", n, err)
		}
		seen := uint64(0)
		for ch, err := range c.Changes(ctx, &engine.ChangesOptions{Stop: true}) {
			ok(t, err)
			if seen++; ch.Version != seen {
				t.Fatalf("version %d after %d", ch.Version, seen-1)
			}
			ok(t, c.Ack(ch.Next()))
		}
		within(t, time.Minute, "a put after the consumer has gone on", func() {
			ok(t, db.Put(pk("a"), value))
		})
		mustClose(t, db)
	}
}

// On a full disk retained log gives way, oldest first: deletes go on, and puts come back, without
// anything else being freed.
func TestRetainedLogOnAFullDisk(t *testing.T) {
	fsys := vfs.NewMem()
	fsys.SetCapacity(48 << 20)
	o := engine.Options{RetainBytes: 1 << 30, RetainAge: time.Hour,
		MemtableBytes: 2 << 20, LogBytes: 8 << 20, Durability: engine.Process}
	db := openOn(t, fsys, o)
	value := make([]byte, 64<<10)
	full := 0
	for i := range 1500 { // of few keys: without the log they are small
		key := pk(fmt.Sprint(i % 60))
		err := db.Put(key, value)
		if errors.Is(err, engine.ErrDiskFull) {
			full++
			ok(t, db.Delete(key))
			eventually(t, "puts come back", func() bool { return db.Put(key, value) == nil })
			continue
		}
		ok(t, err)
	}
	if full == 0 {
		t.Error("the disk was never full")
	}
	wantIs(t, firstError(db, version(1)), engine.ErrGone)
	ok(t, firstError(db, version(db.Metrics().LastVersion)))
	mustClose(t, db)
}

// A program that does not know that log is retained refuses the database: it would remove it.
func TestRetentionIsRequired(t *testing.T) {
	fsys := vfs.NewMem()
	mustClose(t, openOn(t, fsys, retaining()))
	state, _, err := manifest.Load(fsys, "db")
	ok(t, err)
	var s struct {
		Properties map[string][]byte `json:"properties"`
	}
	ok(t, json.Unmarshal(state.Settings, &s))
	if text := string(s.Properties[""]); !strings.Contains(text, `"!retain-bytes":"64MiB"`) {
		t.Errorf("stored settings %s", text)
	}
	mustClose(t, openOn(t, fsys, engine.Options{RetainBytes: engine.NoRetention}))
	state, _, err = manifest.Load(fsys, "db")
	ok(t, err)
	ok(t, json.Unmarshal(state.Settings, &s))
	if text := string(s.Properties[""]); strings.Contains(text, "!") {
		t.Errorf("stored settings %s", text)
	}
}

// A consumer that was dropped while it reads, and a context that ends, end it.
func TestChangesEnd(t *testing.T) {
	db := openOn(t, vfs.NewMem(), retaining())
	defer mustClose(t, db)
	writeSome(t, db)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	why := errors.New("why")
	n := 0
	for _, err := range db.Changes(ctx, engine.Position{}, nil) {
		if n++; n == 3 {
			cancel(why)
		}
		if err != nil {
			wantIs(t, err, why)
			break
		}
	}
	if n < 3 {
		t.Errorf("%d changes", n)
	}
	wantIs(t, second(db.Consumer("x", engine.Position{Version: 9})), nil)
}
