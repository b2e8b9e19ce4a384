package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/base"
)

// Shared storage: several processes, each with a DB, whose store has Limits.Fences.
//
// The naive way: each process reads the catalogue when it opens. Why it fails: another process adds
// an index, this one writes a row without its entry.
//
// Writers. Each change of a definition gives it a new number, which the same commit writes into all
// fences of the table; a commit of rows requires that one of them still has the number of the
// definition that it was made for. So a definition is exact for all writers: of two versions, one
// writes. A refused writer reads the catalogue and encodes its rows again (Table.attempt); a
// transaction reads the fence, and is run again. Any other failure of a statement counts only if
// the definition was the present one, too.
//
// Changes. All of them replace the head of the catalogue, on the condition that it is the known
// one, and increase catalogueHead.Changes: so they have an order, and the head alone says whether
// there is something to read.
//
// Readers prove nothing, which would cost a round trip. Instead a DB knows all changes of
// Options.Lease ago: it polls, and looks by itself before it reads if it has not for so long, and
// once more when its snapshot is taken later than that. What a reader of the version before relies
// on stays for twice that time: entries of an index are kept up while it is Retiring, and rows of a
// table that was dropped are there. So each state and the next are both right.

// A database of this process's engine that is written elsewhere (Limits.Follows) has no fences,
// and its writer waits for nobody. So each query compares the versions of the catalogue's items in
// its snapshot with those that are known, before it chooses the definitions and afterwards: what is
// known only goes forward, so that it was the same in between. Only rows that are read by their key
// rely on the lease.

// watches reports whether other processes change definitions.
func (db *DB) watches() bool { return db.fences > 0 || db.follows }

// defaultLease is Options.Lease.
const defaultLease = time.Second

// pollsPerLease is how often a DB looks for changes while its lease lasts.
const pollsPerLease = 2

func fenceKey(id uint32, fence int) store.Key {
	return catalogueKey(markFence, id, uint32(fence))
}

// fence gives the tables the numbers that their fences have.
//
// Requires: the list is not used yet.
func (db *DB) fence(list *tableList, fences map[uint32][]string) error {
	if db.fences == 0 {
		return nil
	}
	for id, core := range list.byID {
		all := fences[id]
		if len(all) != db.fences || slices.Min(all) != slices.Max(all) {
			return damaged("catalogue", fmt.Sprintf("%d equal fences of table %d", db.fences, id),
				fmt.Sprintf("%x", all))
		}
		core.state.Load().fence = []byte(all[0])
	}
	return nil
}

// prove adds to a commit that it is for the present definition.
func (db *DB) prove(set *store.WriteSet, st *tableState) {
	if db.fences > 0 {
		set.Require(db.nextFence(st), store.ValueIs(st.fence))
	}
}

// nextFence returns the key of a fence: of commits at a time each has another one, if there are as
// many.
func (db *DB) nextFence(st *tableState) store.Key {
	return fenceKey(st.Schema.ID, int(db.turn.Add(1)%uint32(db.fences)))
}

// proven returns an error that matches ErrConflict if a transaction does not see the definition.
func (db *DB) proven(ctx context.Context, r store.Reader, st *tableState) error {
	key, want := catalogueKey(markTable, st.Schema.ID), st.raw
	if db.fences > 0 {
		key, want = db.nextFence(st), st.fence
	}
	value, err := r.Get(ctx, nil, key)
	if absent(err) != nil || err == nil && bytes.Equal(value, want) {
		return err
	}
	if db.fences > 0 {
		if err := db.catchUp(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("table: the definition of %s is changing: %w", st.Schema.Name, ErrConflict)
}

// saveShared commits a change of the catalogue, if no other process has changed it, and takes
// note of it. Id is the table with another definition, or 0.
//
// Requires: schemaMu is held.
func (db *DB) saveShared(ctx context.Context, set *store.WriteSet, head catalogueHead,
	id uint32) error {
	head.Changes++
	if err := db.putHead(set, &head); err != nil {
		return err
	}
	number := binary.BigEndian.AppendUint64(nil, head.Changes)
	for i := 0; id != 0 && i < db.fences; i++ {
		set.Put(fenceKey(id, i), number)
	}
	if err := db.saveCatalogue(ctx, set); err != nil {
		return err
	}
	if err := db.reload(ctx); err != nil {
		return fmt.Errorf("%w: the change was written, and not read: %w", store.ErrUnknown, err)
	}
	return nil
}

// changing holds schemaMu and calls f, which changes the catalogue, with what it is at present:
// again if another process comes first.
func (db *DB) changing(ctx context.Context, f func() error) error {
	if err := db.schemaMu.lock(ctx); err != nil {
		return err
	}
	defer db.schemaMu.unlock()
	if db.fences == 0 {
		return f()
	}
	for attempt := 0; ; attempt++ {
		if err := db.reload(ctx); err != nil {
			return err
		}
		known := db.head.raw
		err := f()
		lost := errors.Is(err, store.ErrConditionFailed) || errors.Is(err, ErrConflict)
		if !lost {
			return err
		}
		if e := db.reload(ctx); e != nil || bytes.Equal(known, db.head.raw) && !errors.Is(err,
			ErrConflict) {
			return errors.Join(err, e)
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}

// catchUp reads the catalogue if another process has changed it.
func (db *DB) catchUp(ctx context.Context) error {
	if err := db.schemaMu.lock(ctx); err != nil {
		return err
	}
	defer db.schemaMu.unlock()
	return db.reload(ctx)
}

// reload is catchUp.
//
// Requires: schemaMu is held.
func (db *DB) reload(ctx context.Context) error {
	at := db.Now()
	same, err := db.knows(ctx, db.store)
	if err != nil {
		return fmt.Errorf("table: catalogue: %w", err)
	}
	if !same {
		known := db.head
		list, err := db.load(ctx)
		if err != nil {
			db.head = known
			return err
		}
		db.merge(list)
	}
	db.asOf.Store(&at)
	return nil
}

// knows reports whether what is read has the catalogue that is known.
//
// Requires: schemaMu is held.
func (db *DB) knows(ctx context.Context, r store.Reader) (bool, error) {
	if db.follows {
		versions, err := catalogueVersions(ctx, r)
		return bytes.Equal(versions, db.head.versions), err
	}
	raw, err := r.Get(ctx, nil, catalogueKey(markHead))
	return err != nil || bytes.Equal(raw, db.head.raw), absent(err)
}

// merge replaces the list of tables. What has not changed stays the same.
func (db *DB) merge(list *tableList) {
	old := db.tables.Load()
	for id, core := range old.byID {
		now := list.byID[id]
		if now == nil {
			gone := *core.state.Load()
			gone.gone = true
			core.become(&gone)
			continue
		}
		if st, was := now.state.Load(), core.state.Load(); !bytes.Equal(st.raw, was.raw) ||
			!bytes.Equal(st.fence, was.fence) {
			core.become(st)
		}
		core.learn(now.stats.Load())
		list.byID[id] = core
		if name := core.state.Load().Schema.Name; list.byName[name] == now {
			list.byName[name] = core
		}
	}
	for name, v := range list.views {
		if was := old.views[name]; was != nil && bytes.Equal(was.raw, v.raw) {
			list.views[name] = was
		}
	}
	db.tables.Store(list)
}

// become replaces the definition when nobody writes by the old one.
func (c *tableCore) become(st *tableState) {
	c.fence.Lock()
	defer c.fence.Unlock()
	c.state.Store(st)
}

// learn takes statistics that another process has stored, if they are newer.
func (c *tableCore) learn(s *plan.TableStats) {
	if old := c.stats.Load(); s != nil && (old == nil || s.At.After(old.At)) {
		c.stats.CompareAndSwap(old, s)
	}
}

// leased reports whether the definitions that are known may be read by.
func (db *DB) leased() bool {
	return !db.watches() || db.Now().Sub(*db.asOf.Load()) < db.opt.Lease
}

// renew makes leased true.
func (db *DB) renew(ctx context.Context) error {
	if db.leased() {
		return nil
	}
	return db.catchUp(ctx)
}

// outdated reports whether a definition is not the present one any more.
func (db *DB) outdated(ctx context.Context, core *tableCore, st *tableState) (bool, error) {
	if db.watches() {
		if err := db.catchUp(ctx); err != nil {
			return false, err
		}
	}
	return core.state.Load() != st, nil
}

// sees reports whether a snapshot has the catalogue that is known, and reads it again if not.
func (db *DB) sees(ctx context.Context, snap store.Reader) (bool, error) {
	if !db.watches() {
		return true, nil
	}
	if err := db.schemaMu.lock(ctx); err != nil {
		return false, err
	}
	defer db.schemaMu.unlock()
	if same, err := db.knows(ctx, snap); same || err != nil {
		return same, err
	}
	return false, db.reload(ctx)
}

// settle waits until no process reads by a definition that was replaced before.
func (db *DB) settle(ctx context.Context) error {
	if db.fences == 0 {
		return nil
	}
	return base.Sleep(ctx, 2*db.opt.Lease)
}

// follow polls for changes until Close.
func (db *DB) follow() {
	r := db.refresher
	r.active.Go(func() {
		for base.Sleep(r.ctx, db.opt.Lease/pollsPerLease) == nil {
			if err := db.catchUp(r.ctx); err != nil && r.ctx.Err() == nil {
				db.opt.Logger.Debug("the catalogue was not read", slog.Any("error", err))
			}
		}
	})
}
