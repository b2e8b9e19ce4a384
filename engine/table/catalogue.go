package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: the catalogue is the partition with the PK 00 "kstone tables". Its SKs are
//
//	00             {"format":1,"next_table":3}, in shared storage with "changes":17
//	01 id          the definition of a table, in the JSON form of package schema
//	02 id          the statistics of a table, in the JSON form of package plan
//	03 id index    where the building of an index stands
//	04 id          a view: JSON of View
//	05 id          the end of the numbers of an identity column: {"end":1001}
//	06 id fence    the number of the change that made the definition, 8 bytes, big-endian
//
// with ids as 4 bytes, big-endian. See docs/format/table.md.
const (
	catalogueFormat = 1

	markHead    = 0
	markTable   = 1
	markStats   = 2
	markJob     = 3
	markView    = 4
	markNumbers = 5
	markFence   = 6
)

var cataloguePK = []byte("\x00kstone tables")

// catalogueHead is the first item of the catalogue.
type catalogueHead struct {
	Format    int    `json:"format"`
	NextTable uint32 `json:"next_table"`
	Changes   uint64 `json:"changes,omitempty"` // of shared storage

	raw []byte // the item, nil if it is not there yet
	// versions are what catalogueVersions returns, if another process writes.
	versions []byte
}

func catalogueKey(mark byte, ids ...uint32) store.Key {
	sk := []byte{mark}
	for _, id := range ids {
		sk = binary.BigEndian.AppendUint32(sk, id)
	}
	return store.Key{PK: cataloguePK, SK: sk}
}

func damaged(what string, want, got any) error {
	return corrupt.New("", 0, what, want, got)
}

// load reads the catalogue, which makes a list of tables that is not used yet.
func (db *DB) load(ctx context.Context) (*tableList, error) {
	list := &tableList{map[string]*tableCore{}, map[uint32]*tableCore{}, map[string]*View{}}
	var versions []byte
	stats, fences := map[uint32]*plan.TableStats{}, map[uint32][]string{}
	db.head = catalogueHead{Format: catalogueFormat, NextTable: 1}
	for it, err := range db.store.Scan(ctx, store.Partition(cataloguePK)) {
		if sk := it.Key.SK; err == nil && len(sk) == 9 && sk[0] == markFence {
			id := binary.BigEndian.Uint32(sk[1:])
			fences[id] = append(fences[id], string(it.Value))
		} else if err == nil {
			err = db.loadItem(list, stats, it)
			versions = appendVersion(versions, it)
		}
		if err != nil {
			return nil, fmt.Errorf("table: catalogue: %w", err)
		}
	}
	for id, s := range stats {
		if core := list.byID[id]; core != nil {
			core.stats.Store(s)
		}
	}
	db.head.versions = versions
	return list, db.fence(list, fences)
}

// catalogueVersions returns the keys and versions of the items that define something.
func catalogueVersions(ctx context.Context, r store.Reader) (all []byte, err error) {
	for it, err := range r.Scan(ctx, store.Partition(cataloguePK)) {
		if err != nil {
			return nil, err
		}
		all = appendVersion(all, it)
	}
	return all, nil
}

// appendVersion appends key and version of an item that defines something.
func appendVersion(dst []byte, it store.Item) []byte {
	if sk := it.Key.SK; len(sk) > 0 && sk[0] != markJob && sk[0] != markNumbers {
		dst = binary.BigEndian.AppendUint64(append(dst, sk...), it.Version)
	}
	return dst
}

func (db *DB) loadItem(list *tableList, stats map[uint32]*plan.TableStats, it store.Item) error {
	sk := it.Key.SK
	switch {
	case bytes.Equal(sk, []byte{markHead}):
		head := catalogueHead{raw: bytes.Clone(it.Value)}
		if err := json.Unmarshal(it.Value, &head); err != nil {
			return damaged("catalogue", "its head", err)
		}
		if head.Format != catalogueFormat {
			return corrupt.NewVersion("", "catalogue", catalogueFormat, head.Format)
		}
		db.head = head
	case len(sk) == 5 && sk[0] == markTable:
		t, err := Defined(it.Key, it.Value)
		if err != nil {
			return err
		}
		list.add(db, t, bytes.Clone(it.Value))
	case len(sk) == 5 && sk[0] == markStats:
		s, err := parseStats(it.Value)
		if err != nil {
			return err
		}
		stats[binary.BigEndian.Uint32(sk[1:])] = s
	case len(sk) == 9 && sk[0] == markJob:
	case len(sk) == 5 && sk[0] == markView:
		v, err := parseView(sk[1:], it.Value)
		if err != nil {
			return err
		}
		v.raw = bytes.Clone(it.Value)
		list.views[v.Name] = v
	case len(sk) == 5 && sk[0] == markNumbers:
		core := list.byID[binary.BigEndian.Uint32(sk[1:])]
		if core == nil { // of a table that was dropped meanwhile
			core = new(tableCore)
		}
		return core.numbers.load(it.Value)
	default:
		return damaged("catalogue", "a known key", fmt.Sprintf("%x", sk))
	}
	return nil
}

func parseStats(data []byte) (*plan.TableStats, error) {
	s := new(plan.TableStats)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, damaged("statistics", "JSON", err)
	}
	return s, s.Validate()
}

func (l *tableList) add(db *DB, t *schema.Table, raw []byte) *tableCore {
	core := &tableCore{numbers: numbers{mu: newMutex()}}
	core.handle = &Table{db: db, core: core}
	core.state.Store(newState(t, raw))
	l.byID[t.ID] = core
	if !t.Dropping {
		l.byName[t.Name] = core
	}
	return core
}

func (l *tableList) clone() *tableList {
	return &tableList{maps.Clone(l.byName), maps.Clone(l.byID), maps.Clone(l.views)}
}

// taken reports whether a table or a view has the name.
func (l *tableList) taken(name string) bool {
	return l.byName[name] != nil || l.views[name] != nil
}

// saveCatalogue commits a change of the catalogue, durably.
func (db *DB) saveCatalogue(ctx context.Context, set *store.WriteSet) error {
	set.Durability = store.Sync
	err := db.store.Commit(ctx, set)
	if errors.Is(err, store.ErrConditionFailed) {
		return fmt.Errorf("table: the catalogue was changed by somebody else: %w", err)
	}
	return err
}

// change replaces the definition of a table, in the catalogue and then in memory, while no
// writer is between the two. more adds to the commit, and may be nil. The same definition changes
// nothing.
func (db *DB) change(ctx context.Context, core *tableCore, more func(*store.WriteSet),
	f func(*schema.Table) (*schema.Table, error)) error {
	return db.changing(ctx, func() error { return db.replace(ctx, core, more, f) })
}

// replace is change without the lock and the repetition.
func (db *DB) replace(ctx context.Context, core *tableCore, more func(*store.WriteSet),
	f func(*schema.Table) (*schema.Table, error)) error {
	old := core.state.Load()
	next, err := f(old.Schema)
	if err == nil {
		err = checkNew(old.Schema, next)
	}
	if err != nil {
		return err
	}
	if next == old.Schema {
		return nil
	}
	if next.Name != old.Schema.Name && db.tables.Load().taken(next.Name) {
		return &NameError{next.Name, ErrExists}
	}
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	key := catalogueKey(markTable, next.ID)
	var set store.WriteSet
	set.PutIf(key, data, store.ValueIs(old.raw))
	if more != nil {
		more(&set)
	}
	if db.fences == 0 { // else it becomes known when the catalogue is read again
		core.fence.Lock()
		defer core.fence.Unlock()
	}
	return db.save(ctx, &set, db.head, next.ID, func(list *tableList) {
		core.state.Store(newState(next, data))
		if list.byName[old.Schema.Name] == core {
			delete(list.byName, old.Schema.Name)
		}
		if !next.Dropping {
			list.byName[next.Name] = core
		}
	})
}

// save commits a change of the catalogue, and then makes it in what is known of that: in a copy of
// the list or, in shared storage, by reading it again. Id is the table with another definition, or
// 0.
//
// Requires: schemaMu is held.
func (db *DB) save(ctx context.Context, set *store.WriteSet, head catalogueHead, id uint32,
	change func(*tableList)) error {
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	if db.fences > 0 {
		return db.saveShared(ctx, set, head, id)
	}
	// From here on the catalogue and what is known of it must not come apart.
	ctx = context.WithoutCancel(ctx)
	if head.NextTable != db.head.NextTable {
		if err := db.putHead(set, &head); err != nil {
			return err
		}
	}
	if err := db.saveCatalogue(ctx, set); err != nil {
		return err
	}
	list := db.tables.Load().clone()
	change(list)
	db.head = head
	db.tables.Store(list)
	return nil
}

// NextID returns the id of the table that is made next. Those that were dropped had lower ones.
func (db *DB) NextID() uint32 {
	_ = db.schemaMu.lock(context.Background()) // which does not end
	defer db.schemaMu.unlock()
	return db.head.NextTable
}

// Defined returns the table that an item of the catalogue defines. Requires: DefinedID knows it.
func Defined(key store.Key, value []byte) (*schema.Table, error) {
	id, _ := DefinedID(key)
	t, err := schema.Parse(value)
	if err == nil && t.ID != id {
		err = damaged("catalogue", id, t.ID)
	}
	return t, err
}

// InCatalogue reports whether a partition is the one with the definitions of tables.
func InCatalogue(pk []byte) bool { return bytes.Equal(pk, cataloguePK) }

// DefinedID returns the id of the table whose definition is stored under a key.
func DefinedID(key store.Key) (id uint32, ok bool) {
	if !InCatalogue(key.PK) || len(key.SK) != 5 || key.SK[0] != markTable {
		return 0, false
	}
	return binary.BigEndian.Uint32(key.SK[1:]), true
}
