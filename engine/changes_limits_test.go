package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// At RetainBytes a consumer that has not gone on is dropped, or writers wait for it, as chosen.
//
// Promise (history): RetainBytes is not exceeded: what gives way is chosen, and typed.
func TestRetainLimit(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	value := make([]byte, 64<<10)
	for _, limit := range []engine.RetainLimit{engine.DropConsumers, engine.WaitForConsumers} {
		db := openOn(t, vfs.NewMem(), engine.Options{RetainBytes: 4 << 20, RetainLimit: limit,
			MemtableBytes: 4 << 20, LogBytes: 16 << 20, Durability: engine.Process})
		c, err := db.Consumer("slow", engine.Position{})
		ok(t, err)
		n := 0
		for slow := false; n < 800 && (err == nil || slow); n++ {
			err = db.Put(pk(fmt.Sprint(n%300)), value, engine.MaxWait(200*time.Millisecond))
			slow = errors.Is(err, context.DeadlineExceeded) &&
				!strings.Contains(err.Error(), "the consumer")
			if slow { // the machine is: it waits for flushes and merges
				n--
			}
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
	testutil.SlowUnderRace(t, "one goroutine")
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

// oldestVersion returns the version of the oldest commit whose changes are retained.
func oldestVersion(t testing.TB, db *engine.DB) uint64 {
	t.Helper()
	var gone *engine.GoneError
	err := firstError(db, version(db.Metrics().LastVersion+2))
	if !errors.As(err, &gone) {
		t.Fatalf("got %v", err)
	}
	return gone.Oldest
}

// Exactly the segments go that nothing keeps: for a consumer, by age, and by size. Each commit is
// in a segment of its own, since each Open begins one.
//
// Promise (history): Of the retained log nothing goes that a consumer, RetainAge or RetainBytes
// keeps, and nothing stays that none of them does.
func TestRetainedExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		open := func(o engine.Options) *engine.DB {
			db := openOn(t, fsys, o)
			ok(t, db.Put(pk("a"), nil))
			ok(t, db.Flush(ctx))
			return db
		}
		keep := engine.Options{RetainBytes: 1 << 30}
		db := open(keep)
		defer func() { _ = db.Close() }() // if the test has failed
		ok(t, second(db.Consumer("c", engine.Position{})))
		for v := uint64(2); v <= 20; v++ {
			mustClose(t, db)
			db = open(keep)
			c, err := db.Consumer("c", engine.Position{})
			if ok(t, err); v > 8 {
				ok(t, c.Ack(version(v-6)))
			}
			time.Sleep(2 * time.Second)                           // the position is durable
			if got := oldestVersion(t, db); v > 8 && got != v-7 { // the proof of the position
				t.Fatalf("the consumer wants version %d, %d is the oldest", v-6, got)
			}
		}
		ok(t, db.DropConsumer("c"))
		keep.RetainAge = time.Hour
		for v := uint64(21); v <= 60; v++ {
			mustClose(t, db)
			db = open(keep)
			time.Sleep(10 * time.Minute)
			ok(t, db.Flush(ctx))
			if got := oldestVersion(t, db); v > 40 && (got < v-6 || got > v-4) {
				t.Fatalf("version %d of ten minutes each, %d is the oldest", v, got)
			}
		}
		mustClose(t, db)
	})
	db := openOn(t, vfs.NewMem(), engine.Options{RetainBytes: 16 << 20, RetainAge: time.Hour,
		LogBytes: 8 << 20, Durability: engine.Process})
	defer mustClose(t, db)
	value := make([]byte, 100<<10)
	for range 400 {
		ok(t, db.Put(pk("a"), value))
	}
	ok(t, db.Flush(ctx))
	if held := db.Metrics().RetainedBytes; held > 16<<20 || held <= 15<<20 { // a segment has 1 MiB
		t.Errorf("%d bytes are retained", held)
	}
}

// What is older than ConsumerAge is not retained for a consumer, or writers wait for it.
//
// Promise (history): A consumer that stands still for longer than ConsumerAge is dropped with
// ErrGone, or writers wait for it, as chosen.
func TestConsumerAge(t *testing.T) {
	for _, limit := range []engine.RetainLimit{engine.DropConsumers, engine.WaitForConsumers} {
		synctest.Test(t, func(t *testing.T) {
			fsys := vfs.NewMem()
			o := engine.Options{RetainBytes: 1 << 30, ConsumerAge: time.Hour, RetainLimit: limit}
			db := openOn(t, fsys, o)
			defer func() { _ = db.Close() }() // if the test has failed
			ok(t, second(db.Consumer("slow", engine.Position{})))
			var err error
			for v := 1; v <= 12 && err == nil; v++ { // one segment each
				err = db.Put(pk("a"), nil, engine.MaxWait(time.Second))
				mustClose(t, db)
				db = openOn(t, fsys, o)
				ok(t, db.Flush(ctx))
				time.Sleep(10 * time.Minute)
				oldest := oldestVersion(t, db)
				if drop := limit == engine.DropConsumers; drop && v > 8 && int(oldest) < v-7 ||
					(!drop || v < 6) && oldest != 1 {
					t.Errorf("limit %d, after %d puts: the oldest is %d", limit, v, oldest)
				}
			}
			c, cerr := db.Consumer("slow", engine.Position{})
			ok(t, cerr)
			_, gone := first(c.Changes(ctx, &engine.ChangesOptions{Stop: true}))
			if limit == engine.DropConsumers {
				ok(t, err)
				wantIs(t, gone, engine.ErrGone)
			} else if ok(t, gone); err == nil ||
				!strings.Contains(err.Error(), `the consumer "slow" of changes`) {
				t.Errorf("got %v", err)
			}
			mustClose(t, db)
		})
	}
}
