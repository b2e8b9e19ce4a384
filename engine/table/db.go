package table

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// Lock order: schemaMu, then the fence of a table. Neither is held while rows are read for
// a query.

// DB is a set of tables in a store. It may be used by many goroutines.
type DB struct {
	store  store.Store
	reader store.Reader // store: to make one of the other is measurable in a point
	use    *use         // of the registry, nil after OpenStore
	owned  bool         // the last Close closes the store, too
	temp   func() (store.TempFile, error)
	costs  *plan.Costs
	batch  int // keys of a first lookup: see exec.Options
	opt    Options
	plans  *plan.Cache
	shapes shapes

	// schemaMu serialises changes of the catalogue. It guards head.
	schemaMu mutex
	head     catalogueHead

	refresher *refresher

	fences     int                       // Limits.Fences of the store
	noVersions bool                      // Limits.NoVersions of the store
	follows    bool                      // Limits.Follows
	name       string                    // of this DB among those of other processes
	turn       atomic.Uint32             // of nextFence
	asOf       atomic.Pointer[time.Time] // when the catalogue was last known to be the present one

	jobs mutex // is held while an index is built or something is dropped

	tables atomic.Pointer[tableList]
}

// mutex is a lock that is waited for until a context ends. Why: what holds it may wait for a store
// that does not answer.
type mutex chan struct{}

func newMutex() mutex { return make(mutex, 1) }

func (m mutex) lock(ctx context.Context) error {
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m mutex) unlock() { <-m }

// tableList is an immutable list of the tables. Every change of a definition makes another one.
type tableList struct {
	byName map[string]*tableCore // without those that are being dropped
	byID   map[uint32]*tableCore
	views  map[string]*View
}

// tableCore is what all handles of a table share.
type tableCore struct {
	handle *Table // on the DB
	// fence is held for reading from looking at state to the end of a commit, and for
	// writing while state is replaced: so a writer that began before a change has finished
	// before it, and all later ones know it.
	fence sync.RWMutex
	state atomic.Pointer[tableState]
	stats atomic.Pointer[plan.TableStats]
	fresh freshness
	watch watchers
	// numbers are those of the identity column.
	numbers numbers
	// counted is the number of rows, nil if nothing has asked for it.
	counted atomic.Pointer[rowCount]
}

// tableState is a table at one time. It is immutable.
type tableState struct {
	rowio.Rules
	raw   []byte // the item in the catalogue
	fence []byte // what its fences have, in shared storage
	gone  bool
}

func newState(t *schema.Table, raw []byte) *tableState {
	return &tableState{Rules: rowio.NewRules(t), raw: raw, gone: t.Dropping}
}

// registry has the one DB of each open storage. Why: writers of two DBs would not know of each
// other's changes of indexes.
var registry = struct {
	mu sync.Mutex
	of map[any]*use
}{of: map[any]*use{}}

// use is the use of a storage that is open, or is being opened.
type use struct {
	id      any
	refs    int   // Guarded by registry.mu
	opening mutex // is held while the catalogue is read
	db      *DB   // Guarded by opening
}

// useOf counts a use of a storage, which leave ends.
func useOf(id any) *use {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	u := registry.of[id]
	if u == nil {
		u = &use{id: id, opening: newMutex()}
		registry.of[id] = u
	}
	u.refs++
	return u
}

// leave reports whether the use was the last one.
func (u *use) leave() bool {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if u.refs--; u.refs > 0 {
		return false
	}
	if registry.of[u.id] == u {
		delete(registry.of, u.id)
	}
	return true
}

// Open opens the tables of a store, which stays the caller's; for a directory and an engine.DB, see
// package local. Of storage that is open already it returns the same DB, and o is ignored; each
// call needs a Close. A store whose catalogue has an unknown format is refused with an error that
// matches store.ErrVersion.
//
// What was interrupted before, building or dropping an index or a table, stays so until
// Resume.
func Open(ctx context.Context, s store.Store, o *Options) (*DB, error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	var id any = s
	if shared, ok := s.(store.Shared); ok {
		id = shared.Storage()
	}
	u := useOf(id)
	db, err := u.open(ctx, s, o)
	if err != nil {
		u.leave()
	}
	return db, err
}

// open returns the DB, which it opens for the first use.
func (u *use) open(ctx context.Context, s store.Store, o *Options) (*DB, error) {
	if err := u.opening.lock(ctx); err != nil {
		return nil, err
	}
	defer u.opening.unlock()
	if u.db != nil {
		return u.db, nil
	}
	db, err := OpenStore(ctx, s, o)
	if err != nil {
		return nil, err
	}
	db.use, u.db = u, db
	return db, nil
}

// OpenOwned is Open, but the last Close closes the store, too, and so does OpenOwned if it fails.
func OpenOwned(ctx context.Context, s store.Store, o *Options) (*DB, error) {
	db, err := Open(ctx, s, o)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	db.owned = true
	return db, nil
}

// OpenStore is Open over any store. The caller sees to it that no two DBs write to one
// store, unless its Limits have Fences.
func OpenStore(ctx context.Context, s store.Store, o *Options) (*DB, error) {
	opt, err := o.complete()
	if err != nil {
		return nil, err
	}
	limits := s.Limits()
	db := &DB{store: s, reader: s, opt: opt, plans: plan.NewCache(opt.PlanCache),
		refresher: newRefresher(), schemaMu: newMutex(), jobs: newMutex(), fences: limits.Fences,
		noVersions: limits.NoVersions, follows: limits.Follows, name: rand.Text()}
	db.shapes.most = opt.Shapes
	db.opt.MemoryBytes = cmp.Or(opt.MemoryBytes, limits.QueryBytes)
	if limits.Costs.RoundTrip > 0 {
		db.batch = limits.Costs.Batch
	}
	if db.costs = opt.Costs; db.costs == nil {
		db.costs = costsOf(limits.Costs)
	}
	if t, ok := s.(store.Spiller); ok {
		db.temp = t.Temp()
	}
	if db.temp == nil {
		db.temp = opt.Temp
	}
	at := db.Now()
	list, err := db.load(ctx)
	if err != nil {
		return nil, err
	}
	db.tables.Store(list)
	db.asOf.Store(&at)
	db.describe()
	if db.fences > 0 {
		db.turn.Store(mathrand.Uint32())
	}
	if db.watches() {
		db.follow()
	}
	return db, nil
}

// costsOf returns what the planner compares plans by.
func costsOf(c store.Costs) *plan.Costs {
	p := plan.DefaultCosts
	p.Seek, p.Stripe = cmp.Or(c.Seek, p.Seek), cmp.Or(c.Seek, p.Stripe)
	p.Key = cmp.Or(c.Key, p.Key)
	p.Byte, p.Fetch = cmp.Or(c.Byte, p.Byte), cmp.Or(c.Fetch, p.Fetch)
	p.Trip, p.Page, p.Batch = c.RoundTrip, float64(c.Page), float64(c.Batch)
	p.Trees = float64(c.Trees)
	return &p
}

// Close ends the use of the DB, and waits for what it does in the background. The store stays
// open, but that of OpenOwned, which is closed with the last use.
func (db *DB) Close() error {
	if db.use != nil && !db.use.leave() {
		return nil
	}
	db.refresher.close()
	if db.owned {
		return db.store.Close()
	}
	return nil
}

// AsOf opens the tables as they were at a moment: rows, definitions, indexes, views and statistics;
// and returns the moment by its version. What writes fails with store.ErrReadOnly. A store without
// a past makes it an error that matches errors.ErrUnsupported. The caller must Close the DB.
func (db *DB) AsOf(ctx context.Context, m store.Moment) (*DB, store.Moment, error) {
	s, ok := db.store.(store.Past)
	if !ok {
		return nil, m, fmt.Errorf("table: %w: the store keeps nothing of the past",
			errors.ErrUnsupported)
	}
	past, m, err := s.AsOf(ctx, m)
	if err != nil {
		return nil, m, err
	}
	o := db.opt
	then, err := OpenStore(ctx, past, &o)
	if err != nil {
		return nil, m, errors.Join(err, past.Close())
	}
	then.owned = true
	return then, m, nil
}

// Store returns where the tables are stored.
func (db *DB) Store() store.Store { return db.store }

// Plans returns the cache of prepared queries. Layers that have queries in forms of their own
// keep theirs there, too.
func (db *DB) Plans() *plan.Cache { return db.plans }

// Now returns the time, by Options.Clock.
func (db *DB) Now() time.Time { return db.opt.Clock() }

// Definitions stands for the names and definitions of all tables at one time. It is compared: if
// it is equal before and after, none of them has changed in between.
type Definitions struct{ list *tableList }

// Definitions returns the present definitions. Of a store that another process writes it reads
// them again; if that fails, a read of rows returns the error.
func (db *DB) Definitions() Definitions {
	if db.follows {
		_ = db.catchUp(db.refresher.ctx)
	}
	return Definitions{db.tables.Load()}
}

// Tables returns the tables, by name.
func (db *DB) Tables() []*Table {
	list := db.tables.Load()
	var all []*Table
	for _, name := range slices.Sorted(maps.Keys(list.byName)) {
		all = append(all, list.byName[name].handle)
	}
	return all
}

// Table returns the table with that name, the same handle each time. The error matches
// ErrNoTable.
func (db *DB) Table(name string) (*Table, error) {
	core := db.tables.Load().byName[name]
	if core == nil && db.watches() && db.catchUp(db.refresher.ctx) == nil {
		core = db.tables.Load().byName[name]
	}
	if core == nil {
		return nil, &NameError{name, ErrNoTable}
	}
	return core.handle, nil
}

// Table is a handle of a table, on the DB or, from In, on a transaction. It follows
// changes of the table, renames included.
type Table struct {
	db   *DB
	core *tableCore
	tx   *Tx // nil: every call is a transaction of its own
	snap *Snapshot
	only *schema.Table // the definition that is written by; nil: the present one
}

// Bound returns the table that a definition is of, whatever it is called by now: for rows
// and expressions that were made for this definition. What writes through the handle fails
// with an error that matches ErrChanged if the table has another definition by then. The
// error matches ErrNoTable if it has been dropped, also if there is another one of its name.
func (db *DB) Bound(def *schema.Table) (*Table, error) {
	core := db.tables.Load().byID[def.ID]
	if core == nil || core.state.Load().gone {
		return nil, &NameError{def.Name, ErrNoTable}
	}
	return &Table{db: db, core: core, only: def}, nil
}

// DB returns the database of the table.
func (t *Table) DB() *DB { return t.db }

// Schema returns the present definition. It is immutable; a changed table has another one.
func (t *Table) Schema() *schema.Table { return t.core.state.Load().Schema }

// Name returns the name of the table.
func (t *Table) Name() string { return t.Schema().Name }

// In returns the table as a reader sees it. Of a transaction, writes belong to it, too; of a
// snapshot, there are none; of the DB, every call is a transaction of its own.
func (t *Table) In(r Reader) *Table {
	switch r := r.(type) {
	case *Tx:
		return &Table{db: t.db, core: t.core, only: t.only, tx: r}
	case *Snapshot:
		return &Table{db: t.db, core: t.core, only: t.only, snap: r}
	}
	if t.tx == nil && t.snap == nil {
		return t
	}
	return &Table{db: t.db, core: t.core, only: t.only}
}

// Stats returns the statistics of Analyze or of a later sample, see Options.SampleRows; nil if
// there are none yet.
func (t *Table) Stats() *plan.TableStats { return t.core.stats.Load() }

// statsOf implements plan.Stats.
type statsOf struct{ db *DB }

// Table returns the statistics of a table.
func (s statsOf) Table(t *schema.Table) *plan.TableStats {
	core := s.db.tables.Load().byID[t.ID]
	if core == nil {
		return nil
	}
	return core.stats.Load()
}
