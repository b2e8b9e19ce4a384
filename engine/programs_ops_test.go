package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// progActions are the operations of programs.
var progActions = map[string]func(*progRun){
	"put": (*progRun).putOne, "putTTL": (*progRun).putTTL, "delete": (*progRun).deleteOne,
	"putIfAbsent": (*progRun).putIfAbsent, "putIf": (*progRun).putIf,
	"deleteIf": (*progRun).deleteIf, "deleteRange": (*progRun).deleteRange,
	"deleteScan": (*progRun).deleteScan, "iterate": (*progRun).iterate,
	"batch": (*progRun).batch, "update": (*progRun).update, "view": (*progRun).view,
	"get": (*progRun).get, "query": (*progRun).query, "pages": (*progRun).pages,
	"scan": (*progRun).scan, "scanPages": (*progRun).scanPages,
	"segments": (*progRun).segments, "snapshot": (*progRun).snapshot,
	"readSnapshot": (*progRun).readSnapshot, "dropSnapshot": (*progRun).dropSnapshot,
	"property": (*progRun).property, "flush": (*progRun).flush, "sync": (*progRun).sync,
	"compact": (*progRun).compact, "checkpoint": (*progRun).checkpoint,
	"verify": (*progRun).verify, "reopen": (*progRun).reopen, "readOnly": (*progRun).readOnly,
	"crash": (*progRun).crash, "clock": (*progRun).advance, "metrics": (*progRun).metrics,
}

// progWeights say how often each comes.
var progWeights = map[string]int{
	"put": 40, "putTTL": 10, "delete": 12, "putIfAbsent": 5, "putIf": 8, "deleteIf": 3,
	"deleteRange": 6, "deleteScan": 2, "iterate": 5, "batch": 15, "update": 10, "view": 3,
	"get": 25, "query": 15, "pages": 4,
	"scan": 5, "scanPages": 2, "segments": 1, "snapshot": 4, "readSnapshot": 8,
	"dropSnapshot": 3, "property": 2, "flush": 3, "sync": 1, "compact": 1, "checkpoint": 1,
	"verify": 1, "reopen": 2, "readOnly": 1, "crash": 2, "clock": 6, "metrics": 2,
}

// level draws the durability of a write.
func (r *progRun) level() engine.Durability {
	d := engine.Durability(r.rnd.IntN(3))
	if d == engine.Sync || (d == 0 && r.opts.Durability != engine.Process) {
		r.unsynced = false // a write at Sync covers what came before, also if it changes nothing
	} else {
		r.unsynced = true
	}
	return d
}

func (r *progRun) putOne() {
	k, v := r.drawKey(), r.drawValue()
	r.note("%v = %d bytes", k, len(v))
	r.no(r.db.Put(k, v, r.level()))
	r.put(r.items, k, v, 0)
}

func (r *progRun) putTTL() {
	k, v, ttl := r.drawKey(), r.drawValue(), time.Duration(1+r.rnd.IntN(50))*time.Millisecond
	r.note("%v = %d bytes for %v", k, len(v), ttl)
	r.no(r.db.Put(k, v, engine.TTL(ttl), r.level()))
	r.put(r.items, k, v, ttl)
}

func (r *progRun) deleteOne() {
	k := r.drawKey()
	r.note("%v", k)
	r.no(r.db.Delete(k, r.level()))
	delete(r.items, id(k))
}

// outcome checks a conditional write and reports whether it was done.
func (r *progRun) outcome(err error, want bool) bool {
	r.note("wanted %v", want)
	if want {
		r.no(err)
	} else if !errors.Is(err, engine.ErrConditionFailed) {
		r.fail("%v, want a failed condition", err)
	}
	return want
}

func (r *progRun) putIfAbsent() {
	k, v := r.drawKey(), r.drawValue()
	r.note("%v = %d bytes", k, len(v))
	r.written()
	if r.outcome(r.db.PutIf(k, v, engine.IfAbsent()), !r.live(r.items[id(k)])) {
		r.put(r.items, k, v, 0)
	}
}

// written notes a write at the database's level, whether or not it changes something: at
// Sync it makes durable what came before in both cases.
func (r *progRun) written() { r.unsynced = r.opts.Durability == engine.Process }

// condition draws a condition and whether it holds now.
func (r *progRun) condition(k engine.Key) (engine.Condition, bool) {
	it := r.items[id(k)]
	there := r.live(it)
	switch n := r.rnd.IntN(6); {
	case n == 0:
		return engine.IfAbsent(), !there
	case n == 1 && there:
		return engine.IfValue(it.value), true
	case n == 2:
		return engine.IfValue([]byte("something else")), false
	case n == 3 && there:
		now, err := r.db.GetItem(k)
		r.no(err)
		return engine.IfVersion(now.Version), true
	case n == 4:
		return engine.IfVersion(1 << 50), false
	}
	return engine.IfPresent(), there
}

func (r *progRun) putIf() {
	k, v := r.drawKey(), r.drawValue()
	r.note("%v = %d bytes", k, len(v))
	cond, holds := r.condition(k)
	r.written()
	if r.outcome(r.db.PutIf(k, v, cond), holds) {
		r.put(r.items, k, v, 0)
	}
}

func (r *progRun) deleteIf() {
	k := r.drawKey()
	r.note("%v", k)
	cond, holds := r.condition(k)
	r.written()
	if r.outcome(r.db.DeleteIf(k, cond), holds) {
		delete(r.items, id(k))
	}
}

func (r *progRun) deleteRange() {
	part := r.drawPart()
	cond, match := r.drawCondition()
	r.note("of %q", part)
	r.no(r.db.DeleteRange([]byte(part), cond, r.level()))
	r.removeRange(r.items, part, match)
}

func (r *progRun) deleteScan() {
	from, to, match := r.drawBounds()
	r.no(r.db.DeleteScan(from, to, r.level()))
	r.removeScan(r.items, match)
}

// drawBounds draws two keys, seldom one alone, and whether a key is between them.
func (r *progRun) drawBounds() (from, to engine.Key, match func(engine.Key) bool) {
	if from = r.drawKey(); !r.chance(10) {
		to = r.drawKey()
	}
	r.note("from %v to %v,", from, to)
	return from, to, func(k engine.Key) bool {
		return compareKeys(k, from) >= 0 && (to.PK == nil || compareKeys(k, to) < 0)
	}
}

func (r *progRun) removeScan(items progItems, match func(engine.Key) bool) {
	maps.DeleteFunc(items, func(_ string, it *progItem) bool { return match(it.key) })
}

// iterate moves an Iterator between two keys, forward to the end and back from there.
func (r *progRun) iterate() {
	from, to, match := r.drawBounds()
	i, err := r.db.ScanIterator(ctx, engine.Scan{From: from, To: to})
	r.no(err)
	want := r.sorted(r.items, func(it *progItem) bool { return match(it.key) }, false)
	var got []engine.Item
	for i.Next() {
		got = append(got, i.Item().Clone())
	}
	r.same("iterator forward", got, want)
	for got = nil; i.Prev(); {
		got = append(got, i.Item().Clone())
	}
	slices.Reverse(got)
	r.same("iterator backward", got, want)
	r.no(i.Close())
}

// progWriter is what a batch and a transaction have in common.
type progWriter interface {
	Put(engine.Key, []byte, ...engine.ItemOption) error
	Delete(engine.Key) error
	DeleteRange([]byte, engine.SKCondition) error
	DeleteScan(from, to engine.Key) error
}

// write does one random write.
func (r *progRun) write(to progWriter, items progItems) {
	switch r.rnd.IntN(24) {
	case 23:
		from, end, match := r.drawBounds()
		r.no(to.DeleteScan(from, end))
		r.removeScan(items, match)
	case 0, 2, 3, 4:
		k := r.drawKey()
		r.note("delete %v,", k)
		r.no(to.Delete(k))
		delete(items, id(k))
	case 1, 5, 6, 7:
		part := r.drawPart()
		cond, match := r.drawCondition()
		r.note("delete range of %q,", part)
		r.no(to.DeleteRange([]byte(part), cond))
		r.removeRange(items, part, match)
	default:
		k, v, ttl := r.drawKey(), r.drawValue(), time.Duration(0)
		if r.chance(4) {
			ttl = time.Duration(r.rnd.IntN(30)) * time.Millisecond
		}
		r.note("put %v = %d bytes for %v,", k, len(v), ttl)
		r.no(to.Put(k, v, engine.TTL(ttl)))
		r.put(items, k, v, ttl)
	}
}

func (r *progRun) batch() {
	b := engine.NewBatch()
	for range 1 + r.rnd.IntN(20) {
		r.write(b, r.items)
	}
	r.no(r.db.Apply(ctx, b, r.level()))
}

var errOnPurpose = errors.New("on purpose")

func (r *progRun) update() {
	items, rollback, seed := r.items.clone(), r.chance(4), r.rnd.Uint64()
	f := func(tx *engine.Tx) error {
		items = r.items.clone()
		r.rnd = rand.New(rand.NewPCG(seed, 0))
		for range 1 + r.rnd.IntN(10) {
			switch r.rnd.IntN(6) {
			case 0:
				r.getKey(items, tx, true)
			case 1:
				r.txReads(tx, items)
			case 2:
				k, v := r.drawKey(), r.drawValue()
				r.note("put if absent %v,", k)
				if r.outcome(tx.PutIf(k, v, engine.IfAbsent()), !r.live(items[id(k)])) {
					r.put(items, k, v, 0)
				}
			default:
				r.write(tx, items)
			}
		}
		if rollback {
			return errOnPurpose
		}
		return nil
	}
	do := r.db.Update
	if r.chance(2) {
		do = r.db.UpdateRetry
	}
	err := do(ctx, f)
	if rollback {
		if !errors.Is(err, errOnPurpose) {
			r.fail("rolled back: %v", err)
		}
		return
	}
	r.no(err)
	for _, it := range items {
		if r.items[id(it.key)] != it {
			it.version = 0 // versions seen inside were not final
		}
	}
	r.items = items
	r.written()
}

// txReads reads a range in a transaction: what it has itself written is among it.
func (r *progRun) txReads(tx *engine.Tx, items progItems) {
	q, want := r.drawQuery(items)
	r.sameBut("query in a transaction", r.collect(tx.Query(ctx, q)), want)
	if r.chance(3) {
		all := r.collect(tx.Scan(ctx, engine.Scan{}))
		r.sameBut("scan in a transaction", all, r.sorted(items, nil, false))
	}
}

// sameBut is same without versions, which a transaction's own items do not have yet.
func (r *progRun) sameBut(what string, got []engine.Item, want []*progItem) {
	plain := make([]*progItem, len(want))
	for i, it := range want {
		plain[i] = &progItem{key: it.key, value: it.value, expiry: it.expiry}
	}
	r.same(what, got, plain)
}

func (r *progRun) view() {
	r.no(r.db.View(ctx, func(tx *engine.Tx) error {
		r.getKey(r.items, tx, false)
		q, want := r.drawQuery(r.items)
		r.same("query in a view", r.collect(tx.Query(ctx, q)), want)
		if err := tx.Put(r.drawKey(), nil); !errors.Is(err, engine.ErrReadOnly) {
			r.fail("put in a view: %v", err)
		}
		return nil
	}))
}

func (r *progRun) get() {
	for range 1 + r.rnd.IntN(4) {
		r.getKey(r.items, r.db, false)
	}
}

// drawQuery draws a query and what it should return.
func (r *progRun) drawQuery(items progItems) (engine.Query, []*progItem) {
	part := r.drawPart()
	q := engine.Query{PK: []byte(part), Reverse: r.chance(2)}
	cond, match := r.drawCondition()
	q.SK = cond
	pass := func([]byte) bool { return true }
	if r.chance(4) {
		pass = func(v []byte) bool { return len(v)%2 == 0 }
		q.Filter = func(it engine.Item) bool { return pass(it.Value) }
	}
	want := r.sorted(items, func(it *progItem) bool {
		return string(it.key.PK) == part && match(it.key.SK) && pass(it.value)
	}, q.Reverse)
	if r.chance(3) {
		q.Limit = 1 + r.rnd.IntN(6)
		want = want[:min(q.Limit, len(want))]
	}
	r.note("query of %q reverse %v limit %d filter %v", part, q.Reverse, q.Limit, q.Filter != nil)
	return q, want
}

func (r *progRun) queryOf(items progItems, from engine.Reader) {
	q, want := r.drawQuery(items)
	r.same("query", r.collect(from.Query(ctx, q)), want)
	if n, err := from.Count(ctx, q); err != nil || n != int64(len(want)) {
		r.fail("count %d, %v; want %d", n, err, len(want))
	}
}

func (r *progRun) query() { r.queryOf(r.items, r.db) }

func (r *progRun) pages() {
	q, _ := r.drawQuery(r.items)
	q.Limit = 0
	want := r.collect(r.db.Query(ctx, q))
	var got []engine.Item
	for q.Limit = 1 + r.rnd.IntN(5); ; {
		page := r.collect(r.db.Query(ctx, q))
		got = append(got, page...)
		if len(page) < q.Limit {
			break
		}
		c, err := engine.ParseCursor(q.CursorAfter(page[len(page)-1]).String())
		r.no(err)
		q.After = c
	}
	r.same("pages", got, asWanted(want))
}

func asWanted(items []engine.Item) (out []*progItem) {
	for _, it := range items {
		out = append(out, &progItem{it.Key, it.Value, it.Expiry, it.Version})
	}
	return out
}

func (r *progRun) scan() {
	r.scanAll(r.items, r.db)
	from := r.drawKey()
	s := engine.Scan{StartAfter: from, Reverse: r.chance(2)}
	if r.chance(3) {
		s.Filter = func(it engine.Item) bool { return it.Key.SK != nil }
	}
	want := r.sorted(r.items, func(it *progItem) bool {
		c := compareKeys(it.key, from)
		return c != 0 && (c > 0) != s.Reverse && (s.Filter == nil || it.key.SK != nil)
	}, s.Reverse)
	if r.chance(2) {
		s.Limit = 1 + r.rnd.IntN(9)
		want = want[:min(s.Limit, len(want))]
	}
	r.note("start after %v reverse %v limit %d", from, s.Reverse, s.Limit)
	r.same("start after", r.collect(r.db.Scan(ctx, s)), want)
}

func (r *progRun) scanPages() {
	s := engine.Scan{Reverse: r.chance(2), Unordered: r.chance(2)}
	r.note("reverse %v unordered %v", s.Reverse, s.Unordered)
	want := r.collect(r.db.Scan(ctx, s))
	var got []engine.Item
	for s.Limit = 5 + r.rnd.IntN(20); ; {
		page := r.collect(r.db.Scan(ctx, s))
		got = append(got, page...)
		if len(page) < s.Limit {
			break
		}
		s.After = s.CursorAfter(page[len(page)-1])
	}
	r.same("pages of a scan", got, asWanted(want))
}

func (r *progRun) segments() {
	n := []int{1, 2, 3, 7, 256}[r.rnd.IntN(5)]
	r.note("%d", n)
	var got []engine.Item
	for i := range n {
		s := engine.Scan{Segment: i, Segments: n, Unordered: i%2 == 0}
		got = append(got, r.collect(r.db.Scan(ctx, s))...)
	}
	sortItems(got)
	r.same("segments", got, r.sorted(r.items, nil, false))
}

func (r *progRun) snapshot() {
	if len(r.snaps) < 4 {
		s, err := r.db.Snapshot()
		r.no(err)
		r.snaps = append(r.snaps, progSnapshot{s, r.items.clone()})
	}
}

func (r *progRun) readSnapshot() {
	if len(r.snaps) == 0 {
		return
	}
	s := r.snaps[r.rnd.IntN(len(r.snaps))]
	r.getKey(s.items, s.snap, false)
	r.queryOf(s.items, s.snap)
	if r.chance(4) {
		r.scanAll(s.items, s.snap)
	}
}

func (r *progRun) dropSnapshot() {
	if n := len(r.snaps); n > 0 {
		i := r.rnd.IntN(n)
		r.no(r.snaps[i].snap.Close())
		r.snaps[i] = r.snaps[n-1]
		r.snaps = r.snaps[:n-1]
	}
}

func (r *progRun) property() {
	name := fmt.Sprintf("property %d", r.rnd.IntN(4))
	if r.chance(4) {
		r.no(r.db.SetProperty(name, nil))
		delete(r.props, name)
	} else {
		v := fmt.Appendf([]byte{}, "%d", r.rnd.Uint32())
		r.no(r.db.SetProperty(name, v))
		r.props[name] = string(v)
	}
	r.sameProperties(r.db)
}

func (r *progRun) sameProperties(db *engine.DB) {
	for i := range 4 {
		name := fmt.Sprintf("property %d", i)
		want, there := r.props[name]
		if v, ok := db.Property(name); ok != there || string(v) != want {
			r.fail("%s is %q, %v; want %q, %v", name, v, ok, want, there)
		}
	}
}

func (r *progRun) flush() { r.no(r.db.Flush(ctx)); r.unsynced = false }

func (r *progRun) sync() { r.no(r.db.Sync(ctx)); r.unsynced = false }

func (r *progRun) compact() {
	r.no(r.db.Compact(ctx))
	r.unsynced = false
	if m := r.db.Metrics().Total; len(r.snaps) == 0 {
		if want := len(r.sorted(r.items, nil, false)); int(m.Records) != want || m.Tombstones > 0 {
			r.fail("after Compact %d records, %d tombstones; want %d and 0", m.Records,
				m.Tombstones, want)
		}
	}
}

func (r *progRun) checkpoint() {
	if r.fs == nil {
		return
	}
	r.copies++
	dir := filepath.Join(filepath.Dir(r.dir), fmt.Sprintf("copy-%d", r.copies))
	r.no(r.db.Checkpoint(ctx, dir, nil))
	o := r.opts
	o.ReadOnly = r.chance(2)
	db, err := engine.OpenFS(r.fs, dir, &o)
	r.no(err)
	r.same("copy", r.collect(db.Scan(ctx, engine.Scan{})), r.sorted(r.items, nil, false))
	r.sameProperties(db)
	if !o.ReadOnly { // what is written to the copy is not in the original
		r.no(db.Put(r.drawKey(), []byte("only in the copy")))
		r.no(db.Compact(ctx))
	}
	r.no(db.Close())
	names, err := r.fs.List(dir)
	r.no(err)
	for _, name := range names {
		r.no(r.fs.Remove(filepath.Join(dir, name)))
	}
	if r.set.on == "disk" {
		r.no(os.Remove(dir))
	}
	r.scanAll(r.items, r.db)
}

func (r *progRun) verify() {
	_, err := r.db.Verify(ctx, nil)
	r.no(err)
}

func (r *progRun) reopen() {
	r.close()
	r.open()
	if r.fs == nil {
		r.items, r.props = progItems{}, map[string]string{}
	}
	r.sameProperties(r.db)
	r.scanAll(r.items, r.db)
}

func (r *progRun) readOnly() {
	if r.fs == nil {
		return
	}
	r.close()
	o := r.opts
	o.ReadOnly = true
	db, err := engine.OpenFS(r.fs, r.dir, &o)
	r.no(err)
	r.scanAll(r.items, db)
	r.sameProperties(db)
	r.getKey(r.items, db, false)
	r.queryOf(r.items, db)
	if err := db.Put(r.drawKey(), nil); !errors.Is(err, engine.ErrReadOnly) {
		r.fail("put on a read-only database: %v", err)
	}
	r.no(db.Close())
	r.open()
}

// crash goes on with what a kill has left or, if everything is durable, a power cut.
func (r *progRun) crash() {
	disk, there := r.fs.(*vfstest.CrashFS)
	if !there {
		return
	}
	kill := r.unsynced || r.chance(3)
	r.note("killed %v", kill)
	after := disk.Kill()
	if !kill {
		after = vfstest.CrashOf(disk.PowerCut(r.rnd, r.rnd.Float64()))
	}
	r.close() // on the old disk, which nobody looks at any more
	r.fs, r.unsynced = after, kill && r.unsynced
	r.open()
	r.sameProperties(r.db)
	r.scanAll(r.items, r.db)
}

func (r *progRun) advance() { r.clock.Add(int64(1 + r.rnd.IntN(40))) }

func (r *progRun) metrics() {
	m := r.db.Metrics()
	if want := len(r.sorted(r.items, nil, false)); int(m.Total.Records) < want {
		r.fail("metrics count %d records, %d items are there", m.Total.Records, want)
	}
	if m.OpenSnapshots != len(r.snaps) {
		r.fail("metrics count %d snapshots, %d are open", m.OpenSnapshots, len(r.snaps))
	}
	if !bytes.Contains([]byte(m.String()), []byte("records")) {
		r.fail("metrics print %q", m.String())
	}
}
