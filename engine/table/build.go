package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// Progress is how far something is that takes a while.
type Progress struct {
	Table, Index string // Index is the name of the check of "check"
	What         string // "build", "check", "drop index", "drop table", "verify" or "analyze"
	Done         int64  // rows or entries
	Total        int64  // estimated; 0 is not known
}

// Rows of a chunk of a build, which is one commit.
const (
	buildRows  = 512
	buildBytes = 1 << 20
)

// buildJob is how far the building of an index is. It is stored in the same commit as the
// entries it speaks of.
type buildJob struct {
	PK   []byte `json:"pk,omitempty"` // the last row that has its entries
	SK   []byte `json:"sk,omitempty"`
	Done int64  `json:"done"`
	// Holder is the DB that builds, in shared storage: see builder.hold.
	Holder string `json:"holder,omitempty"`
}

// errStopped: the index is not being built any more.
var errStopped = errors.New("table: the index was dropped while it was being built")

// job runs f while no other build or drop runs.
func (db *DB) job(ctx context.Context, f func() error) error {
	if err := db.jobs.lock(ctx); err != nil {
		return err
	}
	defer db.jobs.unlock()
	return f()
}

// CreateIndex adds an index and builds it while writers write; queries use it when
// CreateIndex returns. Progress, if not nil, is called now and then. If rows are in conflict
// with a unique index, the error is a *UniqueError, and if a row can have no entry, it is a
// *schema.EntryError; the index is removed again. A condition whose operators do not take
// the types of its columns is refused; the error matches ErrInvalid. If ctx ends, the index
// stays as it is: see Resume and DropIndex. While it is being built, an index of that name
// can be created again, which goes on with it. Otherwise the error matches ErrExists.
func (db *DB) CreateIndex(ctx context.Context, table string, def schema.Index,
	progress func(Progress)) error {
	t, err := db.Table(table)
	if err != nil {
		return err
	}
	return t.CreateIndex(ctx, def, progress)
}

// CreateIndex is DB.CreateIndex of this table, whatever it is called by now.
func (t *Table) CreateIndex(ctx context.Context, def schema.Index,
	progress func(Progress)) error {
	db := t.db
	return db.job(ctx, func() error {
		var id uint32
		err := db.change(ctx, t.core, nil, func(s *schema.Table) (*schema.Table, error) {
			x, next := s.Index(def.Name), s
			switch {
			case s.Dropping:
				return nil, &NameError{s.Name, ErrNoTable}
			case x == nil:
				own, err := def, error(nil)
				own.State = schema.Building
				if next, err = s.AddIndex(own); err != nil {
					return nil, err
				}
				x = next.Index(def.Name)
			case x.State != schema.Building || !sameDefinition(s, x, def):
				return nil, &NameError{s.Name + "." + def.Name, ErrExists}
			}
			id = x.ID
			return next, nil
		})
		if err != nil {
			return err
		}
		return db.build(ctx, t.core, id, progress)
	})
}

// sameDefinition reports whether an index of the table is as defined.
func sameDefinition(t *schema.Table, x *schema.Index, def schema.Index) bool {
	removed, err := t.RemoveIndex(x.Name)
	if err != nil {
		return false
	}
	def.State, def.ID = schema.Building, 0
	wanted, err := removed.AddIndex(def)
	if err != nil {
		return false
	}
	changes, err := schema.Migrate(t, wanted)
	return err == nil && len(changes) == 0
}

// build adds the entries of the rows from before the index and makes it ready.
//
// Invariant: since the index is in the catalogue, every commit that writes a row writes all
// its entries in the index. A row that the snapshot has and that has not changed since gets
// its entries here, on the condition that it has not; one that has changed has them from
// the writer.
func (db *DB) build(ctx context.Context, core *tableCore, id uint32,
	progress func(Progress)) error {
	err := errOvertaken
	for errors.Is(err, errOvertaken) {
		b := &builder{db: db, core: core, id: id, progress: progress}
		err = b.run(ctx)
	}
	var conflict *UniqueError
	var unfit *schema.EntryError
	if errors.As(err, &conflict) || errors.As(err, &unfit) {
		t := core.state.Load().Schema
		if x := t.IndexByID(id); x != nil {
			db.opt.Logger.LogAttrs(ctx, slog.LevelWarn, "index not built",
				slog.String("table", t.Name), slog.String("index", x.Name))
		}
		return errors.Join(err, db.dropIndex(context.WithoutCancel(ctx), core, id, nil))
	}
	return err
}

// builder builds one index.
type builder struct {
	db       *DB
	core     *tableCore
	id       uint32
	progress func(Progress)
	job      buildJob
	held     []byte // the job as it is stored, in shared storage
	total    int64

	items []store.Item
	bytes int
	most  int // rows of a commit, half of those that were too many; 0: not known
	// own are entries of items in a unique index that are there already: their values.
	own map[string][]byte
}

func (b *builder) run(ctx context.Context) error {
	t := b.core.state.Load().Schema
	key := catalogueKey(markJob, t.ID, b.id)
	value, err := b.db.store.Get(ctx, nil, key)
	if err == nil {
		err = json.Unmarshal(value, &b.job)
	}
	if absent(err) != nil {
		return fmt.Errorf("table: state of the build: %w", err)
	}
	if ready, err := b.hold(ctx, value); ready || err != nil {
		return err
	}
	if s := b.core.stats.Load(); s != nil {
		b.total = int64(s.Rows)
	}
	snap, err := b.db.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	rg := rowio.Rows(t)
	if b.job.PK != nil {
		rg.After = store.Key{PK: b.job.PK, SK: b.job.SK}
	}
	for it, err := range snap.Scan(ctx, rg) {
		if err != nil {
			return err
		}
		b.items = append(b.items, it.Clone())
		b.bytes += len(it.Value) + len(it.Key.PK) + len(it.Key.SK)
		if len(b.items) < buildRows && b.bytes < buildBytes {
			continue
		}
		if err := b.chunk(ctx); err != nil {
			return err
		}
	}
	if err := b.chunk(ctx); err != nil {
		return err
	}
	return b.db.change(ctx, b.core, func(set *store.WriteSet) { set.Delete(key) },
		func(t *schema.Table) (*schema.Table, error) {
			switch x := t.IndexByID(b.id); {
			case x != nil && x.State == schema.Ready: // another process was faster
				return t, nil
			case x == nil || x.State != schema.Building || t.Dropping:
				return nil, errStopped
			}
			return t.SetIndexState(t.IndexByID(b.id).Name, schema.Ready)
		})
}

// chunk writes the entries of the collected rows.
func (b *builder) chunk(ctx context.Context) error {
	if len(b.items) == 0 {
		return nil
	}
	last := b.items[len(b.items)-1].Key
	b.job.PK, b.job.SK, b.job.Done = last.PK, last.SK, b.job.Done+int64(len(b.items))
	for attempt := 0; ; attempt++ {
		again, err := b.attempt(ctx)
		if err != nil {
			return err
		}
		if !again {
			break
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
	if b.progress != nil {
		t := b.core.state.Load().Schema
		name := ""
		if x := t.IndexByID(b.id); x != nil {
			name = x.Name
		}
		b.progress(Progress{t.Name, name, "build", b.job.Done, b.total})
	}
	b.items, b.bytes, b.own = nil, 0, nil
	return nil
}

// commitOps returns how many operations of a commit there may be beside those that shared storage
// adds: see builder.commit.
func (db *DB) commitOps() int {
	if n := db.store.Limits().CommitOps; n > 0 {
		return max(1, n-2)
	}
	return math.MaxInt
}

// buildOp says what an operation of a chunk is about.
type buildOp struct {
	item  int
	row   []expr.Value
	entry bool
}

// attempt commits the chunk. again says that it has to be called again, with the items
// that are left: some rows have changed, have their entries already, or come later because
// they want what another one of the chunk has.
func (b *builder) attempt(ctx context.Context) (again bool, err error) {
	b.core.fence.RLock()
	defer b.core.fence.RUnlock()
	st := b.core.state.Load()
	t := st.Schema
	x := t.IndexByID(b.id)
	if x == nil || x.State != schema.Building || t.Dropping {
		return false, errStopped
	}
	c := buildChunk{t: t, x: x, builder: b}
	left, most := len(b.items), b.db.commitOps()
	for i := range b.items {
		ops := len(c.set.Ops)
		ok, err := c.add(i)
		if err != nil {
			return false, err
		}
		full := i > 0 && (len(c.set.Ops) > most || i == b.most)
		if !ok || full {
			c.set.Ops, c.ops = c.set.Ops[:ops], c.ops[:ops]
			left = i
			break
		}
	}
	var job []byte
	if left == len(b.items) {
		if job, err = json.Marshal(b.job); err != nil {
			return false, err
		}
	}
	err = b.commit(ctx, &c.set, st, job)
	var failed *store.ConditionError
	switch {
	case errors.As(err, &failed) && failed.Op < len(c.ops):
		if c.ops[failed.Op].entry {
			return c.taken(ctx, failed.Op)
		}
		return true, b.dropChanged(ctx)
	case errors.Is(err, ErrTooLarge) && left > 1: // Limits do not say what conditions take
		b.most = left / 2
		return true, nil
	case errors.Is(err, ErrConflict):
		return true, nil
	case err != nil:
		return false, err
	}
	b.items = b.items[left:]
	return len(b.items) > 0, nil
}

// buildChunk is the commit of one attempt.
type buildChunk struct {
	*builder
	t       *schema.Table
	x       *schema.Index
	set     store.WriteSet
	ops     []buildOp // of set
	entries schema.Entries
	seen    map[string]bool // keys of entries in a unique index
}

// add adds the entries of an item. It is false if another item has one with the same key.
func (c *buildChunk) add(i int) (bool, error) {
	it, row := &c.items[i], c.t.Row()
	if err := c.t.Decode(row, it.Key, it.Value, nil); err != nil {
		return false, err
	}
	start := len(c.entries.List)
	if err := c.x.AppendEntries(&c.entries, it.Key, row); err != nil {
		return false, err
	}
	own := c.entries.List[start:]
	for _, e := range own {
		if e.Unique && c.seen[uniqueKey(store.Key{PK: e.PK, SK: e.SK})] {
			return false, nil
		}
	}
	if len(own) == 0 {
		return true, nil
	}
	c.set.Require(it.Key, c.unchanged(it))
	c.ops = append(c.ops, buildOp{item: i})
	for _, e := range own {
		op := store.Op{Key: store.Key{PK: e.PK, SK: e.SK}, Value: e.Value, Expiry: it.Expiry}
		if e.Unique {
			if c.seen == nil {
				c.seen = map[string]bool{}
			}
			name := uniqueKey(op.Key)
			c.seen[name] = true
			if value, there := c.own[name]; there {
				op.Cond = store.ValueIs(value)
			} else {
				op.Cond = store.Absent()
			}
		}
		c.set.Ops = append(c.set.Ops, op)
		c.ops = append(c.ops, buildOp{i, row, true})
	}
	return true, nil
}

// uniqueKey is the key of an entry in a unique index as one text.
func uniqueKey(key store.Key) string { return string(key.PK) + string(key.SK) }

// unchanged is the condition that a row is as the snapshot has it.
func (b *builder) unchanged(it *store.Item) store.Condition {
	if b.db.noVersions {
		return store.ValueIs(it.Value)
	}
	return store.VersionIs(it.Version)
}

// dropChanged takes the rows that have changed from the chunk: their writers have seen to
// their entries.
func (b *builder) dropChanged(ctx context.Context) error {
	keys := make([]store.Key, len(b.items))
	for i := range b.items {
		keys[i] = b.items[i].Key
	}
	same := make([]bool, len(keys))
	err := b.db.store.MultiGet(ctx, keys, func(i int, it store.Item) {
		same[i] = b.unchanged(&b.items[i]).Holds(it, true)
	})
	if err != nil {
		return err
	}
	kept := b.items[:0]
	for i, it := range b.items {
		if same[i] {
			kept = append(kept, it)
		}
	}
	b.items = kept
	return nil
}

// taken finds out whose the entry is that a row should have in a unique index: its own,
// from a build that was interrupted; that of a row that is gone; or that of another row, with which
// it is in conflict.
func (c *buildChunk) taken(ctx context.Context, i int) (again bool, err error) {
	b, op, info := c.builder, &c.set.Ops[i], c.ops[i]
	delete(b.own, uniqueKey(op.Key)) // it may be gone since
	it, err := store.GetItem(ctx, b.db.store, op.Key)
	if err != nil {
		return true, absent(err)
	}
	owner, _, err := c.x.RowKey(nil, it.Key.SK, it.Value)
	if err != nil {
		return false, err
	}
	row := b.items[info.item]
	if rowio.SameKey(owner, row.Key) {
		return true, c.findOwn(ctx)
	}
	// Both at one moment: only then it is a conflict.
	var both store.WriteSet
	both.Require(row.Key, b.unchanged(&row))
	both.Require(op.Key, store.ValueIs(it.Value))
	err = b.commit(ctx, &both, b.core.state.Load(), nil)
	if errors.Is(err, store.ErrConditionFailed) || errors.Is(err, ErrConflict) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, uniqueError(c.t, c.x, info.row, owner)
}

// findOwn looks up which rows of the chunk have entries already.
func (c *buildChunk) findOwn(ctx context.Context) error {
	var keys, rows []store.Key // of entries, and of their rows
	for i, op := range c.ops {
		if op.entry {
			keys = append(keys, c.set.Ops[i].Key)
			rows = append(rows, c.items[op.item].Key)
		}
	}
	c.own = map[string][]byte{}
	var failed error
	err := c.db.store.MultiGet(ctx, keys, func(i int, it store.Item) {
		owner, _, err := c.x.RowKey(nil, it.Key.SK, it.Value)
		if failed = errors.Join(failed, err); err == nil && rowio.SameKey(owner, rows[i]) {
			c.own[uniqueKey(keys[i])] = bytes.Clone(it.Value)
		}
	})
	return errors.Join(err, failed)
}
