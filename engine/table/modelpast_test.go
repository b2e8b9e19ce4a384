package table_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/vfs"
)

// past is what a modelRun has kept of its past.
type past struct {
	moments []moment
	// copied is what the change stream has made of its changes up to next, by the ids of tables.
	copied map[uint32]*model
	next   engine.Position
	// firsts are the rows that the commit of has changed as they were before it.
	firsts map[string]modelRow
	of     uint64
}

// moment is the table at a time.
type moment struct {
	m       *model
	at      int64
	version uint64
	tab     *table.Table
	snap    *table.Snapshot // nil: the version is to be read
}

// open opens the database.
func (r *modelRun) open() {
	if otherStorage != nil {
		r.db = openOther(r, r.clock.now, nil)
		return
	}
	if r.fs == nil {
		r.fs = vfs.NewMem()
		r.copied = map[uint32]*model{}
	}
	e, err := openFS(r.fs, "db", &engine.Options{Clock: r.clock.now, Durability: engine.Process,
		FlushRecords: 10 + r.rng.IntN(50), RetainBytes: 64 << 20, RetainAge: 1e6 * time.Hour,
		RetainVersions: 1e6 * time.Hour})
	r.must(err)
	r.e = e
	r.store = &modelStore{Store: local.New(e), less: r.rng.IntN}
	if r.rng.IntN(2) == 0 {
		r.store.ops = 3 + r.rng.IntN(30)
	}
	r.db, err = table.OpenStore(ctx, r.store, &table.Options{Clock: r.clock.now})
	r.must(err)
}

// close closes it.
func (r *modelRun) close() {
	if r.fs == nil {
		return
	}
	for _, m := range r.moments {
		if m.snap != nil {
			r.must(m.snap.Close())
		}
	}
	r.moments = slices.DeleteFunc(r.moments, func(m moment) bool { return m.snap != nil })
	r.must(errors.Join(r.db.Close(), r.e.Close()))
}

func (r *modelRun) reopen() {
	name := r.tab.Name()
	r.pending = nil
	r.close()
	r.open()
	tab, err := r.db.Table(name)
	r.must(err)
	r.tab, r.kept = tab, nil
	r.learn()
}

// aside does what writes nothing.
func (r *modelRun) aside() {
	switch r.rng.IntN(4) {
	case 0:
		r.clock.ms.Add(r.rng.Int64N(300_000))
		r.m.expire(r.now())
	case 1:
		r.follow(r.rng.IntN(20))
	case 2:
		if len(r.moments) < 10 && r.fs != nil {
			r.must(r.e.Put(engine.K("x"), nil)) // a commit of the present time
			m := moment{m: r.m.clone(), at: r.now(), tab: r.tab, version: r.e.Metrics().LastVersion}
			if r.rng.IntN(2) == 0 {
				var err error
				m.snap, err = r.db.Snapshot(ctx)
				r.must(err)
			}
			r.moments = append(r.moments, m)
		}
	case 3:
		r.flush()
	}
}

// checkPast compares some moments with what they are read as, and the rows with the change stream.
func (r *modelRun) checkPast() {
	r.Helper()
	for len(r.moments) > 3 {
		r.readMoment(&r.moments[0])
		r.moments = r.moments[1:]
	}
	r.follow(-1)
	if r.fs != nil {
		copied := r.copied[r.m.t.ID].clone()
		copied.expire(r.now())
		r.same("the copy", copied.texts(), r.m, r.now())
	}
}

func (m *model) texts() (all []string) {
	for _, row := range m.rows {
		all = append(all, m.text(row.row))
	}
	return all
}

// readMoment reads the table as it was.
func (r *modelRun) readMoment(m *moment) {
	r.Helper()
	var reader table.Reader = m.snap
	what, tab := "the snapshot", m.tab
	if m.snap == nil {
		then, _, err := r.db.AsOf(ctx, store.Moment{Version: m.version})
		r.must(err)
		defer then.Close()
		what = fmt.Sprint("version ", m.version)
		tab, err = then.Table(m.m.t.Name)
		r.must(err)
		reader = then
	}
	_, err := tab.In(reader).Verify(ctx, nil)
	r.must(err)
	sel := from(tab, nil)
	sel.From[0].Table = m.m.t
	r.same(what, all(r, reader, sel), m.m, m.at)
	if m.snap != nil {
		r.must(m.snap.Close())
	}
}

// follow reads some changes from where it has stopped before; negative is all.
func (r *modelRun) follow(most int) {
	r.Helper()
	if r.fs == nil || most == 0 {
		return
	}
	o := &local.ChangesOptions{Visible: true, Stop: true, Before: r.rng.IntN(2) == 0}
	for c, err := range local.Changes(ctx, r.e, r.next, o) {
		r.must(err)
		r.copy(&c)
		r.next = c.Next()
		if most--; most == 0 {
			break
		}
	}
}

// copy makes a change in the copy.
func (r *modelRun) copy(c *local.TableChange) {
	r.Helper()
	m := r.copied[c.Table.ID]
	switch {
	case c.Kind == local.TableDefined && m == nil:
		r.copied[c.Table.ID] = &model{c.Table, map[string]modelRow{}}
		return
	case c.Kind == local.TableDefined:
		m.learn(c.Table)
		return
	case c.Kind == local.TableDropped:
		delete(r.copied, c.Table.ID)
		return
	case c.Kind != local.RowPut && c.Kind != local.RowDeleted:
		r.Fatalf("%v", c.Kind)
	}
	key := m.key(c.Key)
	old, there := m.rows[key]
	if first, again := r.firsts[key]; r.of == c.Item.Version && again {
		old, there = first, first.row != nil // a commit may write a row more than once
	} else if r.of != c.Item.Version {
		r.of, r.firsts = c.Item.Version, map[string]modelRow{}
	}
	r.firsts[key] = old
	switch {
	case !c.Known:
	case c.Before == nil && there && !old.gone(r.now()),
		c.Before != nil && (!there || m.text(old.row) != m.text(c.Before)):
		r.Fatalf("before the change of %s is %s, want %s", key, text(c.Before), text(old.row))
	}
	if delete(m.rows, key); c.Kind == local.RowPut {
		m.rows[key] = modelRow{append([]expr.Value(nil), c.Clone().After...), c.Item.Expiry}
	}
}
