package table

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// dropPartitions is how many partitions are removed by one commit.
const dropPartitions = 512

// DropIndex removes an index and its entries, also one that is being built. Queries and
// writers do not use it any more from the beginning. If ctx ends, Resume goes on. The error
// matches ErrNoIndex if there is none of that name.
func (db *DB) DropIndex(ctx context.Context, table, index string,
	progress func(Progress)) error {
	t, err := db.Table(table)
	if err != nil {
		return err
	}
	x := t.Schema().Index(index)
	if x == nil {
		return &NameError{table + "." + index, ErrNoIndex}
	}
	// What is being built ends by itself when it sees this.
	if err := db.markDropping(ctx, t.core, x.ID); err != nil {
		return err
	}
	return db.job(ctx, func() error { return db.dropIndex(ctx, t.core, x.ID, progress) })
}

// markDropping ends the use of an index.
func (db *DB) markDropping(ctx context.Context, core *tableCore, id uint32) error {
	if x := core.state.Load().Schema.IndexByID(id); x == nil || x.State == schema.Dropping {
		return nil
	}
	if err := db.retire(ctx, core, id); err != nil {
		return err
	}
	return db.change(ctx, core, func(set *store.WriteSet) {
		set.Delete(catalogueKey(markJob, core.state.Load().Schema.ID, id))
	}, func(t *schema.Table) (*schema.Table, error) {
		x := t.IndexByID(id)
		if x == nil || x.State == schema.Dropping { // another process was faster
			return t, nil
		}
		return t.SetIndexState(x.Name, schema.Dropping)
	})
}

// retire has all processes stop reading an index that a drop begins with; writers keep it up
// meanwhile.
func (db *DB) retire(ctx context.Context, core *tableCore, id uint32) error {
	x := core.state.Load().Schema.IndexByID(id)
	if db.fences == 0 || x == nil {
		return nil
	}
	if x.State == schema.Ready {
		err := db.change(ctx, core, nil, func(t *schema.Table) (*schema.Table, error) {
			if x = t.IndexByID(id); x == nil || x.State != schema.Ready {
				return t, nil
			}
			return t.SetIndexState(x.Name, schema.Retiring)
		})
		if err != nil || x == nil {
			return err
		}
	} else if x.State != schema.Retiring {
		return nil
	}
	return db.settle(ctx)
}

// dropIndex removes the entries of an index, and then the index.
func (db *DB) dropIndex(ctx context.Context, core *tableCore, id uint32,
	progress func(Progress)) error {
	if err := db.markDropping(ctx, core, id); err != nil {
		return err
	}
	t := core.state.Load().Schema
	x := t.IndexByID(id)
	if x == nil { // somebody else was faster
		return nil
	}
	if err := db.removeEntries(ctx, t, x, progress); err != nil {
		return err
	}
	return db.change(ctx, core, nil, func(t *schema.Table) (*schema.Table, error) {
		if x = t.IndexByID(id); x == nil {
			return t, nil
		}
		return t.RemoveIndex(x.Name)
	})
}

// removeEntries removes all entries of an index that is out of use.
func (db *DB) removeEntries(ctx context.Context, t *schema.Table, x *schema.Index,
	progress func(Progress)) error {
	n := x.Buckets()
	var pks [][]byte
	for bucket := range n {
		pks = append(pks, x.BucketPK(nil, bucket))
		if len(pks) < dropPartitions && bucket < n-1 {
			continue
		}
		if err := db.removePartitions(ctx, pks); err != nil {
			return err
		}
		pks = pks[:0]
		if progress != nil {
			progress(Progress{t.Name, x.Name, "drop index", int64(bucket + 1), int64(n)})
		}
	}
	return nil
}

// removePartitions removes everything in some partitions.
func (db *DB) removePartitions(ctx context.Context, pks [][]byte) error {
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	if d, ok := db.store.(store.RangeDeleter); ok {
		return d.DeletePartitions(ctx, pks)
	}
	for _, pk := range pks {
		if err := db.removeItems(ctx, pk); err != nil {
			return err
		}
	}
	return nil
}

// removeItems removes the items of a partition one by one.
func (db *DB) removeItems(ctx context.Context, pk []byte) error {
	for most := min(buildRows, db.commitOps()); ; {
		var set store.WriteSet
		rg := store.Partition(pk)
		rg.Limit = most
		for it, err := range db.store.Scan(ctx, rg) {
			if err != nil {
				return err
			}
			set.Delete(it.Clone().Key)
		}
		if set.Len() == 0 {
			return nil
		}
		err := db.store.Commit(ctx, &set)
		if errors.Is(err, ErrTooLarge) && set.Len() > 1 { // of long keys
			most = set.Len() / 2
		} else if err != nil {
			return err
		}
	}
}

// DropTable removes a table, its rows and all entries. The name is free from the
// beginning. If ctx ends, Resume goes on. The error matches ErrNoTable if there is none of
// that name.
func (db *DB) DropTable(ctx context.Context, table string, progress func(Progress)) error {
	t, err := db.Table(table)
	if err != nil {
		return err
	}
	err = db.change(ctx, t.core, nil, func(s *schema.Table) (*schema.Table, error) {
		if s.Dropping {
			return nil, &NameError{table, ErrNoTable}
		}
		return s.Drop()
	})
	if err != nil {
		return err
	}
	return db.job(ctx, func() error { return db.dropTable(ctx, t.core, progress) })
}

// dropTable removes what is left of a table that is being dropped.
func (db *DB) dropTable(ctx context.Context, core *tableCore, progress func(Progress)) error {
	if err := db.settle(ctx); err != nil {
		return err
	}
	t := core.state.Load().Schema
	for _, x := range t.Indexes {
		if err := db.removeEntries(ctx, t, x, progress); err != nil {
			return err
		}
	}
	if err := db.removeRows(ctx, t, progress); err != nil {
		return err
	}
	return db.changing(ctx, func() error { return db.forget(ctx, core, t) })
}

// forget removes a table from the catalogue.
//
// Requires: schemaMu is held.
func (db *DB) forget(ctx context.Context, core *tableCore, t *schema.Table) error {
	if db.tables.Load().byID[t.ID] != core { // somebody else was faster
		return nil
	}
	var set store.WriteSet
	set.Delete(catalogueKey(markTable, t.ID))
	set.Delete(catalogueKey(markStats, t.ID))
	set.Delete(catalogueKey(markNumbers, t.ID))
	for _, x := range t.Indexes {
		set.Delete(catalogueKey(markJob, t.ID, x.ID))
	}
	for i := range db.fences {
		set.Delete(fenceKey(t.ID, i))
	}
	return db.save(ctx, &set, db.head, 0, func(list *tableList) { delete(list.byID, t.ID) })
}

// removeRows removes the rows of a table, some partitions at a time.
func (db *DB) removeRows(ctx context.Context, t *schema.Table, progress func(Progress)) error {
	done := int64(0)
	var pks [][]byte
	for it, err := range db.store.Scan(ctx, rowio.Rows(t)) {
		if err != nil {
			return err
		}
		done++
		if n := len(pks); n > 0 && bytes.Equal(pks[n-1], it.Key.PK) {
			continue
		}
		if len(pks) == dropPartitions {
			if err := db.removePartitions(ctx, pks); err != nil {
				return err
			}
			pks = pks[:0]
			if progress != nil {
				progress(Progress{t.Name, "", "drop table", done, 0})
			}
		}
		pks = append(pks, bytes.Clone(it.Key.PK))
	}
	if len(pks) == 0 {
		return nil
	}
	return db.removePartitions(ctx, pks)
}

// Resume finishes what was interrupted: indexes that are being built or dropped, checks whose rows
// have not all been looked at, and tables that are being dropped. It goes on after an error with
// the others.
func (db *DB) Resume(ctx context.Context, progress func(Progress)) error {
	return db.job(ctx, func() error {
		var errs []error
		list := db.tables.Load()
		for _, id := range slices.Sorted(maps.Keys(list.byID)) {
			core := list.byID[id]
			t := core.state.Load().Schema
			if t.Dropping {
				errs = append(errs, db.dropTable(ctx, core, progress))
				continue
			}
			for _, x := range t.Indexes {
				switch x.State {
				case schema.Building:
					errs = append(errs, db.build(ctx, core, x.ID, progress))
				case schema.Dropping, schema.Retiring:
					errs = append(errs, db.dropIndex(ctx, core, x.ID, progress))
				}
			}
			for i := range t.Checks {
				if c := &t.Checks[i]; c.Unverified {
					errs = append(errs, db.verifyCheck(ctx, core, c.Name, progress))
				}
			}
		}
		return errors.Join(errs...)
	})
}

// Unfinished reports whether there is anything for Resume to do.
func (db *DB) Unfinished() bool {
	for _, core := range db.tables.Load().byID {
		t := core.state.Load().Schema
		if t.Dropping || slices.ContainsFunc(t.Indexes, func(x *schema.Index) bool {
			return x.State != schema.Ready
		}) || slices.ContainsFunc(t.Checks, func(c schema.Check) bool { return c.Unverified }) {
			return true
		}
	}
	return false
}
