package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
)

// retaining are options of a database that retains log.
func retaining() engine.Options {
	return engine.Options{RetainBytes: 64 << 20, RetainAge: time.Hour}
}

// changeText is one line about a change.
func changeText(c *engine.Change) string {
	text := fmt.Sprintf("%d.%d/%d %s", c.Version, c.Index, c.Of, c.Kind)
	if c.Last {
		text += " last"
	}
	switch c.Kind {
	case engine.ChangeDeleteRange:
		return text + fmt.Sprintf(" %q %q", c.Start, c.End)
	case engine.ChangePutExpiring:
		text += fmt.Sprintf(" until=%d", c.Expiry)
	}
	return text + fmt.Sprintf(" %s|%s=%s", c.Key.PK, c.Key.SK, c.Value)
}

// changesOf returns the changes from a position up to the newest, one a line.
func changesOf(t testing.TB, db *engine.DB, from engine.Position, o engine.ChangesOptions) string {
	t.Helper()
	o.Stop = true
	var b strings.Builder
	for c, err := range db.Changes(ctx, from, &o) {
		ok(t, err)
		fmt.Fprintln(&b, changeText(&c))
	}
	return b.String()
}

func wantText(t testing.TB, got, want string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.ReplaceAll(strings.TrimSpace(want), "\t", "") {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func version(v uint64) engine.Position { return engine.Position{Version: v} }

// firstError returns the error of an iteration over changes.
func firstError(db *engine.DB, from engine.Position) error {
	for _, err := range db.Changes(ctx, from, &engine.ChangesOptions{Stop: true}) {
		return err
	}
	return nil
}

// writeSome makes the commits 1 to 5.
func writeSome(t testing.TB, db *engine.DB) {
	ok(t, db.Put(pksk("a", "1"), []byte("x")))
	b := new(engine.Batch)
	ok(t, b.Put(pksk("a", "2"), []byte("y")))
	ok(t, b.Put(pk("b"), []byte("z"), engine.ExpiresAt(time.UnixMilli(1_800_000_000_000))))
	ok(t, b.Delete(pksk("a", "1")))
	ok(t, db.Apply(ctx, b))
	ok(t, db.DeleteRange([]byte("a"), engine.SKBeginsWith([]byte("2"))))
	ok(t, db.Put(pk("ab"), nil))
	ok(t, db.DeleteScan(engine.Key{}, engine.Key{}))
}

const someChanges = `
	1.0/1 put last a|1=x
	2.0/3 put a|2=y
	2.1/3 put-expiring until=1800000000000 b|=z
	2.2/3 delete last a|1=
	3.0/1 delete-range last "a\x00\x002" "a\x00\x003"
	4.0/1 put last ab|=`

// Changes have all operations of all commits, whole and in order, over flushes, merges and opens,
// and of a database that is opened read-only.
//
// Promise (history): A change stream has every commit once, whole and in order, from any retained
// version on: puts, puts that expire, deletes and range deletes.
func TestChanges(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys, retaining())
	writeSome(t, db)
	all := changesOf(t, db, engine.Position{}, engine.ChangesOptions{})
	rest := "5." // the range of each stripe
	wantText(t, all[:strings.Index(all, rest)], someChanges)
	check := func() {
		t.Helper()
		if again := changesOf(t, db, engine.Position{}, engine.ChangesOptions{}); again != all {
			t.Errorf("got\n%swant\n%s", again, all)
		}
		got := changesOf(t, db, engine.Position{Version: 2, Index: 2}, engine.ChangesOptions{})
		if want := all[strings.Index(all, "2.2"):]; got != want {
			t.Errorf("from 2.2: got\n%swant\n%s", got, want)
		}
	}
	check()
	ok(t, db.Flush(ctx))
	ok(t, db.Compact(ctx))
	check()
	mustClose(t, db)
	db = openOn(t, fsys, engine.Options{}) // the database stores that it retains
	check()
	mustClose(t, db)
	db = openOn(t, fsys, engine.Options{ReadOnly: true})
	check()
	mustClose(t, db)
}

// A range delete spares what its own commit writes, also where the record has it later.
func TestChangesOfOneCommit(t *testing.T) {
	db := openOn(t, vfs.NewMem(), retaining())
	defer mustClose(t, db)
	ok(t, db.Put(pk("a"), []byte("old")))
	b := new(engine.Batch)
	ok(t, b.DeleteScan(engine.Key{}, engine.Key{}))
	ok(t, b.Put(pk("a"), []byte("new")))
	ok(t, db.Apply(ctx, b))
	m := map[string]string{}
	for c, err := range db.Changes(ctx, engine.Position{}, &engine.ChangesOptions{Stop: true}) {
		ok(t, err)
		applyChange(m, &c)
	}
	wantSame(t, m, content(t, db))
	wantValue(t, db, pk("a"), []byte("new"))
}

// Filters select by partition, sort keys in it, and the beginning of partitions; range deletes are
// selected if they may concern what is selected. Last is right whatever is selected.
func TestChangesFilters(t *testing.T) {
	db := openOn(t, vfs.NewMem(), retaining())
	defer mustClose(t, db)
	writeSome(t, db)
	for _, c := range []struct {
		o    engine.ChangesOptions
		want string
	}{
		{engine.ChangesOptions{PK: []byte("a")}, `
			1.0/1 put last a|1=x
			2.0/3 put a|2=y
			2.2/3 delete last a|1=
			3.0/1 delete-range last "a\x00\x002" "a\x00\x003"`},
		{engine.ChangesOptions{PK: []byte("a"), SKPrefix: []byte("1")}, `
			1.0/1 put last a|1=x
			2.2/3 delete last a|1=`},
		{engine.ChangesOptions{PKPrefix: []byte("a")}, `
			1.0/1 put last a|1=x
			2.0/3 put a|2=y
			2.2/3 delete last a|1=
			3.0/1 delete-range last "a\x00\x002" "a\x00\x003"
			4.0/1 put last ab|=`},
		{engine.ChangesOptions{PKPrefix: []byte("b")}, `
			2.1/3 put-expiring last until=1800000000000 b|=z`},
		{engine.ChangesOptions{PK: []byte("c")}, ``},
	} {
		got := changesOf(t, db, engine.Position{}, c.o)
		if i := strings.Index(got, "5."); i >= 0 {
			got = got[:i]
		}
		wantText(t, got, c.want)
	}
	wantIs(t, second(first(db.Changes(ctx, engine.Position{}, &engine.ChangesOptions{
		SKPrefix: []byte("a")}))), engine.ErrInvalid)
	for c, err := range db.Changes(ctx, version(3), &engine.ChangesOptions{Stop: true}) {
		ok(t, err)
		in, out := c.Covers(pksk("a", "22")), c.Covers(pksk("a", "3"))
		if c.Version == 3 && (!in || out || c.Covers(pk("a"))) {
			t.Errorf("the range covers a/22: %v, a/3: %v", in, out)
		}
	}
}

func first[T any](seq func(func(T, error) bool)) (v T, err error) {
	for v, err := range seq {
		return v, err
	}
	return v, nil
}

// Log is retained within its limits. A position before the oldest change, or beyond the newest, is
// an error that says from where on there are changes.
//
// Promise (history): Changes that are not retained any more are an ErrGone that names the oldest.
func TestChangesGone(t *testing.T) {
	db := openOn(t, vfs.NewMem(), engine.Options{
		RetainBytes: 2 << 20, RetainAge: time.Hour, LogBytes: 16 << 20})
	defer mustClose(t, db)
	wantIs(t, firstError(db, version(2)), engine.ErrGone)
	ok(t, firstError(db, version(1)))
	value := make([]byte, 100<<10)
	for range 100 {
		ok(t, db.Put(pk("a"), value))
	}
	ok(t, db.Flush(ctx))
	err := firstError(db, version(1))
	var gone *engine.GoneError
	if !errors.As(err, &gone) || gone.Oldest < 2 || gone.Newest != 100 || gone.Other {
		t.Fatalf("got %v", err)
	}
	wantIs(t, firstError(db, version(gone.Oldest-1)), engine.ErrGone)
	ok(t, firstError(db, version(gone.Oldest)))
	wantIs(t, firstError(db, version(102)), engine.ErrGone)
	if m := db.Metrics(); m.RetainedBytes == 0 || m.RetainedBytes > 2<<20 {
		t.Errorf("%d bytes are retained", m.RetainedBytes)
	}
}

// What was not chosen costs nothing and shows nothing; what was switched off and on again knows
// the history from there on.
func TestChangesOffAndOn(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys, engine.Options{})
	wantIs(t, firstError(db, version(1)), engine.ErrInvalid)
	ok(t, db.Put(pk("a"), nil))
	mustClose(t, db)
	for want := uint64(2); want < 6; want += 2 {
		db = openOn(t, fsys, retaining())
		ok(t, db.Put(pk("b"), nil))
		wantText(t, changesOf(t, db, version(want), engine.ChangesOptions{}),
			fmt.Sprintf("%d.0/1 put last b|=", want))
		wantIs(t, firstError(db, version(want-1)), engine.ErrGone)
		mustClose(t, db)
		db = openOn(t, fsys, engine.Options{RetainBytes: engine.NoRetention})
		ok(t, db.Put(pk("c"), nil))
		wantIs(t, firstError(db, version(want)), engine.ErrInvalid)
		mustClose(t, db)
	}
}

// A consumer goes on where it was, over opens; what it has not acknowledged is retained for it,
// without an age.
//
// Promise (history): Changes are retained for a named consumer until it has acknowledged them,
// within RetainBytes; its position survives Close, and a crash but for a second.
func TestConsumers(t *testing.T) {
	fsys := vfs.NewMem()
	o := engine.Options{RetainBytes: 64 << 20}
	db := openOn(t, fsys, o)
	c, err := db.Consumer("index", engine.Position{})
	ok(t, err)
	writeSome(t, db)
	for ch, err := range c.Changes(ctx, nil) {
		ok(t, err)
		if ch.Version == 2 && ch.Index == 1 {
			ok(t, c.Ack(ch.Next()))
			break
		}
	}
	ok(t, db.Flush(ctx))
	mustClose(t, db)
	db = openOn(t, fsys, o)
	ok(t, db.Flush(ctx))
	c, err = db.Consumer("index", engine.Position{})
	ok(t, err)
	ch, err := first(c.Changes(ctx, nil))
	ok(t, err)
	if got := changeText(&ch); got != "2.2/3 delete last a|1=" {
		t.Errorf("goes on with %s", got)
	}
	if all := db.Consumers(); len(all) != 1 || all[0].Name != "index" || all[0].Behind != 4 {
		t.Errorf("consumers %+v", all)
	}
	ok(t, db.DropConsumer("index"))
	wantIs(t, db.DropConsumer("index"), engine.ErrNotFound)
	wantIs(t, c.Ack(version(1)), engine.ErrNotFound)
	ok(t, db.Put(pk("c"), nil)) // in another segment
	ok(t, db.Flush(ctx))
	wantIs(t, firstError(db, version(1)), engine.ErrGone) // nobody wants it
	wantIs(t, second(db.Consumer("", version(1))), engine.ErrInvalid)
	wantIs(t, second(db.Consumer(strings.Repeat("x", 65), version(1))), engine.ErrInvalid)
	mustClose(t, db)
}

// What is refused leaves a database that can be written and opened again.
func TestConsumersRefuse(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys, retaining())
	c, err := db.Consumer("0", version(1))
	ok(t, err)
	for _, p := range []engine.Position{{Version: math.MaxUint64}, {Version: 1, Index: -1}} {
		wantIs(t, second(db.Consumer("1", p)), engine.ErrInvalid)
		wantIs(t, c.Ack(p), engine.ErrInvalid)
		wantIs(t, firstError(db, p), engine.ErrInvalid)
	}
	for i := range 63 {
		ok(t, second(db.Consumer(fmt.Sprint("c", i), version(1))))
	}
	wantIs(t, second(db.Consumer("one too many", version(1))), engine.ErrInvalid)
	_, _, err = db.SnapshotChanges(ctx, "one too many")
	wantIs(t, err, engine.ErrInvalid)
	ok(t, db.Put(pk("a"), nil))
	mustClose(t, db)
	mustClose(t, openOn(t, fsys, engine.Options{}))
}

// A consumer of little goes on past what it has not selected.
func TestConsumerOfLittle(t *testing.T) {
	db := openOn(t, vfs.NewMem(), retaining())
	defer mustClose(t, db)
	c, err := db.Consumer("few", engine.Position{})
	ok(t, err)
	writeSome(t, db)
	for ch, err := range c.Changes(ctx, &engine.ChangesOptions{PK: []byte("ab"), Stop: true}) {
		ok(t, err)
		if ch.Kind == engine.ChangePut {
			ok(t, c.Ack(ch.Next()))
		}
	}
	for range c.Changes(ctx, &engine.ChangesOptions{PK: []byte("none"), Stop: true}) {
		t.Error("a change")
	}
	p, err := c.Position()
	ok(t, err)
	if p.Version != 6 {
		t.Errorf("position %s", p)
	}
}

// A copy begins with a snapshot, and misses nothing of what comes after.
//
// Promise (history): A snapshot and the changes after it are the present, with nothing between.
func TestSnapshotChanges(t *testing.T) {
	db := openOn(t, vfs.NewMem(), retaining())
	defer mustClose(t, db)
	rnd := testutil.Rand(t)
	done := make(chan error, 1)
	go func() { done <- writeRandomly(db, rnd, testutil.Effort(1000, 50_000)) }()
	eventually(t, "a commit", func() bool { return db.Metrics().LastVersion > 500 })
	s, c, err := db.SnapshotChanges(ctx, "copy")
	ok(t, err)
	m := map[string]string{}
	for it, err := range s.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		m[id(it.Key)] = string(it.Value)
	}
	ok(t, s.Close())
	ok(t, <-done)
	for ch, err := range c.Changes(ctx, &engine.ChangesOptions{Stop: true}) {
		ok(t, err)
		applyChange(m, &ch)
	}
	wantSame(t, m, content(t, db))
}

// applyChange does to a copy what a commit did.
func applyChange(m map[string]string, c *engine.Change) {
	switch c.Kind {
	case engine.ChangePut, engine.ChangePutExpiring:
		m[id(c.Key)] = string(c.Value)
	case engine.ChangeDelete:
		delete(m, id(c.Key))
	case engine.ChangeDeleteRange:
		for key := range m {
			if k, _, err := keycodec.DecodeOrdered([]byte(key), nil); err == nil && c.Covers(k) {
				delete(m, key)
			}
		}
	}
}

func wantSame(t testing.TB, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d items, want %d", len(got), len(want))
	}
	for k, v := range want {
		if got[k] != v {
			t.Fatalf("%q is %.20q, want %.20q", k, got[k], v)
		}
	}
}

// writeRandomly makes n commits of all kinds on a few keys.
func writeRandomly(db *engine.DB, rnd *rand.Rand, n int) error {
	key := func() engine.Key {
		return pksk(fmt.Sprint("p", rnd.IntN(20)), fmt.Sprint("s", rnd.IntN(30)))
	}
	for i := range n {
		b := new(engine.Batch)
		for range 1 + rnd.IntN(4) {
			var err error
			switch r := rnd.IntN(1000); {
			case r < 750:
				err = b.Put(key(), fmt.Appendf(nil, "%d.%d", i, r))
			case r < 950:
				err = b.Delete(key())
			case r < 998:
				k := key()
				err = b.DeleteRange(k.PK, engine.SKGreater(k.SK))
			default:
				err = b.DeleteScan(key(), engine.Key{})
			}
			if err != nil {
				return err
			}
		}
		level := engine.Process
		if rnd.IntN(50) == 0 {
			level = engine.Sync
		}
		if err := db.Apply(ctx, b, level); err != nil {
			return err
		}
	}
	return nil
}

// Streams follow writers: each has every commit once, whole and in order, whatever is flushed,
// released and forgotten. A consumer that never goes on holds up nobody.
//
// Promise (history): No consumer delays a writer, except by WaitForConsumers.
func TestChangesFollow(t *testing.T) {
	db := openOn(t, vfs.NewMem(), retaining())
	commits := testutil.Effort(500, 20_000)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	copies := make([]map[string]string, 3)
	stuck := make(chan struct{})
	var readers, writers sync.WaitGroup
	for i := range copies {
		readers.Go(func() {
			m := map[string]string{}
			copies[i] = m
			next := uint64(1)
			o := &engine.ChangesOptions{Visible: i == 0}
			for c, err := range db.Changes(ctx, engine.Position{}, o) {
				if err != nil {
					t.Error(err)
					return
				}
				if c.Version != next || c.Index >= c.Of {
					t.Errorf("%s follows version %d", changeText(&c), next-1)
					return
				}
				if i == 2 && next == 10 {
					<-stuck // the consumer that never goes on, as far as writers see
				}
				applyChange(m, &c)
				if c.Last {
					if next++; next > uint64(2*commits) {
						return
					}
				}
			}
		})
	}
	for range 2 {
		rnd := rand.New(rand.NewPCG(testutil.Rand(t).Uint64(), 0))
		writers.Go(func() {
			for range 10 {
				if err := writeRandomly(db, rnd, commits/10); err != nil {
					t.Error(err)
				}
				if err := db.Flush(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	within(t, 2*time.Minute, "writers beside a consumer that stands still", writers.Wait)
	close(stuck)
	within(t, 2*time.Minute, "consumers", readers.Wait)
	want := content(t, db)
	for _, m := range copies {
		wantSame(t, m, want)
	}
	mustClose(t, db)
}

// Close ends streams that wait, with ErrClosed.
func TestCloseEndsChanges(t *testing.T) {
	db := openOn(t, vfs.NewMem(), retaining())
	ended := make(chan error, 1)
	go func() {
		for _, err := range db.Changes(ctx, engine.Position{}, nil) {
			ended <- err
		}
	}()
	mustClose(t, db)
	wantIs(t, <-ended, engine.ErrClosed)
	wantIs(t, firstError(db, version(1)), engine.ErrClosed)
}

// What a stream shows by default is there after a power cut, at once.
//
// Promise (history): A change stream without Visible shows nothing that a power cut takes back.
func TestChangesAreDurable(t *testing.T) {
	fsys := vfstest.NewCrash()
	o := retaining()
	o.Durability = engine.Process // nobody but the stream syncs
	db := openOn(t, fsys, o)
	next, stop := iter.Pull2(db.Changes(ctx, engine.Position{}, nil))
	cuts := testutil.Rand(t)
	for v := uint64(1); v <= 50; v++ {
		ok(t, db.Put(pk("a"), nil))
		c, err, _ := next()
		ok(t, err)
		after := openOn(t, fsys.PowerCut(cuts, 0), engine.Options{ReadOnly: true})
		if last := after.Metrics().LastVersion; c.Version != v || last < v {
			t.Fatalf("version %d was shown, and version %d is there after a power cut",
				c.Version, last)
		}
		ok(t, firstError(after, c.Next()))
		mustClose(t, after)
	}
	stop()
	mustClose(t, db)
}

// Two databases that go on from one copy have histories of their own: a position of one, or what
// it has retained, never passes for the other's.
//
// Promise (history): A position of another history of a database is an ErrGone, whatever was made
// of the copy: a restored older directory, a checkpoint, a repaired database.
func TestHistoriesPart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	older, checkpoint, repaired := dir+"-older", dir+"-checkpoint", dir+"-repaired"
	o := retaining()
	open := func(dir string) *engine.DB {
		t.Helper()
		db := openDir(t, dir, &o)
		return db
	}
	db := open(dir)
	for range 10 {
		ok(t, db.Put(pk("a"), []byte("same")))
	}
	_, err := db.Consumer("one", engine.Position{})
	ok(t, err)
	mustClose(t, db)
	ok(t, os.Mkdir(older, 0o700))
	copyDir(t, dir, older)
	db = open(dir)
	ok(t, db.Checkpoint(ctx, checkpoint, nil))
	var positions []engine.Position
	for range 10 {
		ok(t, db.Put(pk("a"), []byte("same")))
	}
	for c, err := range db.Changes(ctx, engine.Position{}, &engine.ChangesOptions{Stop: true}) {
		ok(t, err)
		positions = append(positions, c.Next())
	}
	mustClose(t, db)
	_, err = engine.Repair(ctx, dir, repaired, nil, nil)
	ok(t, err)
	source := dir
	for _, dir := range []string{source, older, checkpoint, repaired} {
		db := open(dir)
		for db.Metrics().LastVersion < 30 {
			ok(t, db.Put(pk("a"), []byte("same")))
		}
		if n := len(db.Consumers()); n > 0 != (dir == older || dir == source) {
			t.Errorf("%s: %d consumers", dir, n)
		}
		for _, p := range positions {
			err := firstError(db, p)
			mine := dir == source || dir == older && p.Version <= 10
			if mine {
				ok(t, err)
				continue
			}
			if p.Version > 10 || dir == repaired {
				wantIs(t, err, engine.ErrGone)
			}
		}
		mustClose(t, db)
	}
}
