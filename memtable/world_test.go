package memtable_test

import (
	"bytes"
	"fmt"
	"slices"
	"sort"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/memtable"
)

const seed = 0x5eed

func hashOf(key []byte) uint64 { return base.Hash(key, seed) }

// world is a table beside a model of it: for every key the list of all its versions,
// newest first. Every method does a thing to both and returns the first difference.
type world struct {
	tab     *memtable.Table
	hash    func([]byte) uint64
	seq     base.SeqNum
	model   map[string][]base.Entry
	snaps   []base.SeqNum // in use, ascending
	horizon base.SeqNum   // highest one given to a Put
	cursors []*walker
}

// walker is a cursor beside a model of it: the keys it may show, which never change,
// and where among them it stands.
type walker struct {
	cur  *memtable.Cursor
	snap base.SeqNum
	keys []string
	at   int
	on   bool
}

func newWorld(o memtable.Options) *world {
	return &world{tab: memtable.New(o), hash: hashOf, model: map[string][]base.Entry{}}
}

// lowest returns the lowest sequence number that is read at, now or later.
func (w *world) lowest() base.SeqNum {
	if len(w.snaps) > 0 {
		return w.snaps[0]
	}
	return w.seq
}

// commit starts a commit; puts until the next one share its sequence number.
func (w *world) commit() { w.seq++ }

func (w *world) put(key []byte, kind base.Kind, expiry int64, value []byte) {
	horizon := min(w.lowest(), w.seq-1) // the commit itself is not visible yet
	w.horizon = max(w.horizon, horizon)
	w.tab.Put(key, w.hash(key), w.seq, kind, expiry, value, horizon)
	e := base.Entry{Key: bytes.Clone(key), Seq: w.seq, Kind: kind}
	if kind != base.KindDelete {
		e.Value = append([]byte{}, value...)
	}
	if kind == base.KindPutTTL {
		e.Expiry = expiry
	}
	list := w.model[string(key)]
	if len(list) > 0 && list[0].Seq == w.seq {
		list = list[1:]
	}
	w.model[string(key)] = append([]base.Entry{e}, list...)
}

func (w *world) visible(key string, snap base.SeqNum) (base.Entry, bool) {
	for _, e := range w.model[key] {
		if e.Seq <= snap {
			return e, true
		}
	}
	return base.Entry{}, false
}

// keys returns the keys visible at snap, in order.
func (w *world) keys(snap base.SeqNum) []string {
	var keys []string
	for k := range w.model {
		if _, ok := w.visible(k, snap); ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func (w *world) get(key []byte, snap base.SeqNum) error {
	var got base.Entry
	found := w.tab.Get(key, w.hash(key), snap, &got)
	want, ok := w.visible(string(key), snap)
	if found != ok {
		return fmt.Errorf("get %q at %d: found %v, want %v", key, snap, found, ok)
	}
	if got.Key = want.Key; found {
		if err := equal(&got, &want); err != nil {
			return fmt.Errorf("get %q at %d: %w", key, snap, err)
		}
	}
	return w.getBatch(key, snap)
}

// bounds looks for the neighbours of a key.
func (w *world) bounds(key []byte) error {
	var next, last *string
	for k := range w.model {
		switch {
		case k >= string(key) && (next == nil || k < *next):
			next = &k
		case k < string(key) && (last == nil || k > *last):
			last = &k
		}
	}
	for reverse, want := range map[bool]*string{false: next, true: last} {
		got, ok := w.tab.Bound([]byte("dst"), key, reverse)
		if ok != (want != nil) || ok && string(got) != "dst"+*want {
			return fmt.Errorf("bound of %q, reverse %v: got %q, %v", key, reverse, got, ok)
		}
	}
	return nil
}

// getBatch looks a key up with others, and without.
func (w *world) getBatch(key []byte, snap base.SeqNum) error {
	var ls []base.Lookup
	for _, k := range [][]byte{key, append([]byte("no such key "), key...), key, key} {
		ls = append(ls, base.Lookup{Key: k, Hash: w.hash(k)})
	}
	w.tab.GetBatch(ls, []uint32{2, 1}, snap)
	w.tab.GetBatch(ls, []uint32{0}, snap)
	for i := range ls {
		l := &ls[i]
		want, ok := w.visible(string(l.Key), snap)
		if ok = ok && i < 3; l.Done != ok {
			return fmt.Errorf("get %q at %d in a batch: found %v, want %v", l.Key, snap, l.Done, ok)
		}
		got := base.Entry{
			Key: want.Key, Value: l.Value, Seq: l.Seq, Expiry: l.Expiry, Kind: l.Kind,
		}
		if err := equal(&got, &want); ok && err != nil {
			return fmt.Errorf("get %q at %d in a batch: %w", l.Key, snap, err)
		}
	}
	return nil
}

func equal(got, want *base.Entry) error {
	if !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) ||
		(got.Value == nil) != (want.Value == nil) || got.Seq != want.Seq ||
		got.Kind != want.Kind || got.Expiry != want.Expiry {
		return fmt.Errorf("got %v, want %v", brief(got), brief(want))
	}
	return nil
}

func brief(e *base.Entry) string {
	return fmt.Sprintf("%.40q@%d %v %d %.20q (%d bytes)",
		e.Key, e.Seq, e.Kind, e.Expiry, e.Value, len(e.Value))
}

// snapshot registers the present state to be read at.
func (w *world) snapshot() { w.snaps = append(w.snaps, w.seq) }

// forget lets go of one snapshot and its cursors.
func (w *world) forget(i int) {
	gone := w.snaps[i]
	w.snaps = slices.Delete(w.snaps, i, i+1)
	if slices.Contains(w.snaps, gone) {
		return
	}
	w.cursors = slices.DeleteFunc(w.cursors, func(c *walker) bool { return c.snap == gone })
}

func (w *world) openCursor(snap base.SeqNum) *walker {
	return &walker{cur: w.tab.NewCursor(snap), snap: snap, keys: w.keys(snap)}
}

// The moves of a cursor.
const (
	moveFirst = iota
	moveLast
	moveSeekGE
	moveSeekLT
	moveNext
	movePrev
	numMoves
)

// move moves a cursor; Next and Prev do nothing if it stands nowhere.
func (w *world) move(c *walker, how int, key string) error {
	if !c.on && how >= moveNext {
		return nil
	}
	at, ok := c.at, false
	switch how {
	case moveFirst:
		at, ok = 0, c.cur.First()
	case moveLast:
		at, ok = len(c.keys)-1, c.cur.Last()
	case moveSeekGE:
		at, ok = sort.SearchStrings(c.keys, key), c.cur.SeekGE([]byte(key))
	case moveSeekLT:
		at, ok = sort.SearchStrings(c.keys, key)-1, c.cur.SeekLT([]byte(key))
	case moveNext:
		at, ok = at+1, c.cur.Next()
	case movePrev:
		at, ok = at-1, c.cur.Prev()
	}
	was := c.at
	c.on, c.at = at >= 0 && at < len(c.keys), at
	if ok != c.on {
		return fmt.Errorf("move %d %q from %d at %d: %v, want %v", how, key, was, c.snap, ok, c.on)
	}
	if err := c.cur.Err(); err != nil || !ok {
		return err
	}
	want, _ := w.visible(c.keys[at], c.snap)
	if err := equal(c.cur.Entry(), &want); err != nil {
		return fmt.Errorf("move %d %q from %d at %d: %w", how, key, was, c.snap, err)
	}
	return nil
}

// scan runs a fresh cursor over everything, both ways.
func (w *world) scan(snap base.SeqNum) error {
	c := w.openCursor(snap)
	for _, how := range [][2]int{{moveFirst, moveNext}, {moveLast, movePrev}} {
		if err := w.move(c, how[0], ""); err != nil {
			return err
		}
		for c.on {
			if err := w.move(c, how[1], ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// freeze freezes the table and compares what a flush would see.
func (w *world) freeze() error {
	w.tab.Freeze()
	src := w.tab.NewSource()
	shown := map[string][]base.Entry{}
	var last base.Entry
	var versions, tombstones int
	for row := range cursor.All(src) {
		e := *row
		if versions > 0 {
			c := bytes.Compare(last.Key, e.Key)
			if c > 0 || (c == 0 && last.Seq <= e.Seq) {
				return fmt.Errorf("source: %s after %s", brief(&e), brief(&last))
			}
		}
		list := w.model[string(e.Key)]
		i := slices.IndexFunc(list, func(m base.Entry) bool { return m.Seq == e.Seq })
		if i < 0 {
			return fmt.Errorf("source: %s was never put", brief(&e))
		}
		if err := equal(&e, &list[i]); err != nil {
			return fmt.Errorf("source: %w", err)
		}
		shown[string(e.Key)] = append(shown[string(e.Key)], e)
		last = e
		versions++
		if e.Kind == base.KindDelete {
			tombstones++
		}
	}
	if err := src.Err(); err != nil {
		return err
	}
	if got := [...]int{w.tab.Len(), w.tab.Versions(), w.tab.Tombstones()}; got !=
		[...]int{len(w.model), versions, tombstones} {
		return fmt.Errorf("keys, versions, tombstones %v, the source has %v",
			got, [...]int{len(shown), versions, tombstones})
	}
	return w.nothingMissing(shown)
}

// nothingMissing wants every version that a read at the horizon or above can see.
func (w *world) nothingMissing(shown map[string][]base.Entry) error {
	for key, list := range w.model {
		need := slices.IndexFunc(list, func(e base.Entry) bool { return e.Seq <= w.horizon })
		if need < 0 {
			need = len(list) - 1
		}
		if len(shown[key]) <= need {
			return fmt.Errorf("source: %.40q has %d versions, at least %d are needed (horizon %d)",
				key, len(shown[key]), need+1, w.horizon)
		}
	}
	return nil
}
