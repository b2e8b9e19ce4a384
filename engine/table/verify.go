package table

import (
	"bytes"
	"context"
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// Report is what Verify has counted.
type Report struct {
	Rows    int64
	Entries map[string]int64 // of each index that is ready or being built
	// Damages are the first 100 that were found, and Damaged is how many there are.
	Damages []Damage
	Damaged int64
}

// Damage is one thing that is wrong with a row or an entry.
type Damage struct {
	Index string    // plan.PrimaryIndex for rows
	Key   store.Key // of the row or entry in the store
	What  string
}

// DamageError says that Verify has found damage. It matches engine.ErrCorrupt.
type DamageError struct {
	Table   string
	Damaged int64
	First   Damage
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("table: %s has %d damages; the first one, in %s at %x/%x: %s", e.Table,
		e.Damaged, e.First.Index, e.First.Key.PK, e.First.Key.SK, e.First.What)
}

// Is makes errors.Is(err, engine.ErrCorrupt) true.
func (e *DamageError) Is(target error) bool { return target == store.ErrCorrupt }

const (
	verifyRows = 512
	maxDamages = 100
)

// Verify reads a table and its indexes in one snapshot and checks that every row has its
// entries and every entry its row, byte by byte. An index that is being built may lack
// entries. It goes on after damage, in constant memory; the error is a *DamageError then,
// and the report is complete, too. Progress, if not nil, is called now and then.
func (t *Table) Verify(ctx context.Context, progress func(Progress)) (*Report, error) {
	snap := t.snap
	if snap == nil {
		var err error
		if snap, err = t.db.Snapshot(ctx); err != nil {
			return nil, err
		}
		defer snap.Close()
	}
	st, err := snap.stateOf(ctx, t.core)
	if err != nil {
		return nil, err
	}
	v := &verifier{db: t.db, t: st.Schema, r: snap.snap, progress: progress,
		report: &Report{Entries: map[string]int64{}}}
	if s := t.core.stats.Load(); s != nil {
		v.total = int64(s.Rows) * int64(1+len(st.Schema.Indexes))
	}
	if err := v.scan(ctx, rowio.Rows(v.t), v.rows); err != nil {
		return nil, err
	}
	for _, x := range v.t.Indexes {
		if x.State == schema.Dropping {
			continue
		}
		v.index = x
		v.report.Entries[x.Name] = 0
		if err := v.scan(ctx, rowio.Entries(x), v.entries); err != nil {
			return nil, err
		}
	}
	if v.report.Damaged > 0 {
		return v.report, &DamageError{v.t.Name, v.report.Damaged, v.report.Damages[0]}
	}
	return v.report, nil
}

// verifier verifies one table.
type verifier struct {
	db       *DB
	t        *schema.Table
	r        store.Reader
	progress func(Progress)
	report   *Report
	index    *schema.Index // nil: rows
	total    int64

	items []store.Item
	all   schema.Entries
}

func (v *verifier) damage(x *schema.Index, key store.Key, format string, a ...any) {
	d := Damage{plan.PrimaryIndex, store.Item{Key: key}.Clone().Key, fmt.Sprintf(format, a...)}
	if x != nil {
		d.Index = x.Name
	}
	v.report.Damaged++
	if len(v.report.Damages) < maxDamages {
		v.report.Damages = append(v.report.Damages, d)
	}
}

// gone reports whether an item may be missing because it has expired since it was read.
func (v *verifier) gone(expiry int64) bool {
	return expiry != 0 && expiry <= v.db.opt.Clock().UnixMilli()
}

// scan calls check for some items of a range at a time.
func (v *verifier) scan(ctx context.Context, rg store.Range,
	check func(context.Context) error) error {
	rg.Unordered = true
	v.items = v.items[:0]
	bytes := 0
	for it, err := range v.r.Scan(ctx, rg) {
		if err != nil {
			return err
		}
		v.items = append(v.items, it.Clone())
		bytes += len(it.Value)
		if len(v.items) < verifyRows && bytes < buildBytes {
			continue
		}
		if err := check(ctx); err != nil {
			return err
		}
		clear(v.items) // they are large
		v.items, bytes = v.items[:0], 0
		v.report.tell(v)
	}
	return check(ctx)
}

func (r *Report) tell(v *verifier) {
	if v.progress == nil {
		return
	}
	p := Progress{Table: v.t.Name, What: "verify", Done: r.Rows, Total: v.total}
	for _, n := range r.Entries {
		p.Done += n
	}
	if v.index != nil {
		p.Index = v.index.Name
	}
	v.progress(p)
}

// rows checks the rows in items: what they are, and that their entries are there.
func (v *verifier) rows(ctx context.Context) error {
	v.all.Reset()
	var owners []int
	row := v.t.Row()
	for i := range v.items {
		it := &v.items[i]
		v.report.Rows++
		if !v.row(row, it) {
			continue
		}
		for _, x := range v.t.Indexes {
			if x.State != schema.Ready {
				continue
			}
			if err := x.AppendEntries(&v.all, it.Key, row); err != nil {
				v.damage(nil, it.Key, "its entry in %s: %v", x.Name, err)
			}
			for len(owners) < len(v.all.List) {
				owners = append(owners, i)
			}
		}
	}
	keys := make([]store.Key, len(v.all.List))
	for i, e := range v.all.List {
		keys[i] = store.Key{PK: e.PK, SK: e.SK}
	}
	found := make([]bool, len(keys))
	err := v.r.MultiGet(ctx, keys, func(i int, entry store.Item) {
		found[i] = true
		e, it := &v.all.List[i], &v.items[owners[i]]
		switch {
		case !bytes.Equal(entry.Value, e.Value):
			v.damage(e.Index, keys[i], "the value is %x, by the row it is %x", entry.Value, e.Value)
		case entry.Expiry != it.Expiry:
			v.damage(e.Index, keys[i], "it expires at %d, the row at %d", entry.Expiry, it.Expiry)
		}
	})
	for i := range found {
		if it := &v.items[owners[i]]; err == nil && !found[i] && !v.gone(it.Expiry) {
			v.damage(v.all.List[i].Index, keys[i], "the entry of row %x/%x is missing", it.Key.PK,
				it.Key.SK)
		}
	}
	return err
}

// row decodes a row and checks that its key is that of its columns, and that it satisfies the
// checks.
func (v *verifier) row(row []expr.Value, it *store.Item) bool {
	if err := v.t.Decode(row, it.Key, it.Value, nil); err != nil {
		v.damage(nil, it.Key, "%v", err)
		return false
	}
	pk, sk, err := v.t.AppendRowKey(nil, nil, row)
	if err != nil || !bytes.Equal(pk, it.Key.PK) || !bytes.Equal(sk, it.Key.SK) {
		v.damage(nil, it.Key, "its columns make the key %x/%x (%v)", pk, sk, err)
		return false
	}
	for i := range v.t.Checks {
		if c := &v.t.Checks[i]; !c.Unverified {
			if err := v.t.CheckRowBy(c.Name, row); err != nil {
				v.damage(nil, it.Key, "%v", err)
			}
		}
	}
	return true
}

// entries checks that the entries in items are those of their rows.
func (v *verifier) entries(ctx context.Context) error {
	x := v.index
	var keys []store.Key
	var owners []int
	for i := range v.items {
		it := &v.items[i]
		v.report.Entries[x.Name]++
		key, _, err := x.RowKey(nil, it.Key.SK, it.Value)
		if err != nil {
			v.damage(x, it.Key, "%v", err)
			continue
		}
		keys, owners = append(keys, key), append(owners, i)
	}
	row, found := v.t.Row(), make([]bool, len(keys))
	err := v.r.MultiGet(ctx, keys, func(i int, it store.Item) {
		found[i] = true
		v.all.Reset()
		entry := &v.items[owners[i]]
		err := v.t.Decode(row, it.Key, it.Value, nil)
		if err == nil {
			err = x.AppendEntries(&v.all, it.Key, row)
		}
		if err != nil {
			v.damage(x, entry.Key, "its row %x/%x: %v", it.Key.PK, it.Key.SK, err)
			return
		}
		for _, e := range v.all.List {
			if rowio.SameKey(store.Key{PK: e.PK, SK: e.SK}, entry.Key) {
				return
			}
		}
		v.damage(x, entry.Key, "the row %x/%x has no such entry", it.Key.PK, it.Key.SK)
	})
	for i := range found {
		if it := &v.items[owners[i]]; err == nil && !found[i] && !v.gone(it.Expiry) {
			v.damage(x, it.Key, "there is no row %x/%x", keys[i].PK, keys[i].SK)
		}
	}
	return err
}
