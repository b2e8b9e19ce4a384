package local

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// # Changes of tables
//
// The stream of a database has rows, index entries and the catalogue as items. Here it has rows.
//
// The naive way: rows are read by the present definitions.
//
// Why it fails: a row that is read later has been written by a definition that may have been
// changed, renamed or dropped since, and one that comes next by a definition that is not there yet.
//
// The way taken: definitions are changes, too. The stream begins with those of its position, if
// versions are kept that long, else with the present ones, and takes over each one as it comes.
// Ids are never used again, so that a definition that is too new at the beginning reads a row as a
// query does: with the columns of now.

// TableChangeKind is what a change of a table is.
type TableChangeKind uint8

// The kinds of changes of tables.
const (
	RowPut       TableChangeKind = iota + 1 // the row is After; Before it was Before
	RowDeleted                              // there is no row any more
	RowsDeleted                             // the engine has deleted a range of rows: see Item
	TableDefined                            // the table is made or changed: it is Table from now on
	TableDropped                            // the table and its rows are gone
	ItemChanged                             // Item has changed, which belongs to no table
)

// String returns the kind's name.
func (k TableChangeKind) String() string {
	names := []string{"unknown", "put", "delete", "delete-range", "define", "drop",
		"item"}
	if int(k) < len(names) {
		return names[k]
	}
	return names[0]
}

// TableChange is one change of a table. It is valid in the loop body only; Clone keeps it.
type TableChange struct {
	Kind  TableChangeKind
	Table *schema.Table // as the commit has it; nil of ItemChanged
	// Key is a row in which the columns of the key alone are set, of RowPut and RowDeleted. Of a
	// deleted row, its collated texts are folded, unless Before is known.
	Key []expr.Value
	// After is the row of a RowPut, and Before the one before the commit, nil if there was none.
	// Known reports whether that is known: see engine.ChangesOptions.Before.
	After, Before []expr.Value
	Known         bool
	// Last: no other change of the commit follows that is selected.
	Last bool
	// Item is the change of the engine that it is made of, with its version and index.
	Item engine.Change

	before *engine.Position // of an Item that is not over with this change
}

// Next is the position after the change. A range delete of several tables is over with the last of
// its changes; up to there it is the position before them, with which all come again.
func (c *TableChange) Next() engine.Position {
	if c.before != nil {
		return *c.before
	}
	return c.Item.Next()
}

// Clone returns a copy that shares no memory with c.
func (c *TableChange) Clone() TableChange {
	d := *c
	for _, row := range []*[]expr.Value{&d.Key, &d.After, &d.Before} {
		if *row != nil {
			*row = exec.Clone(*row)
		}
	}
	d.Item = c.Item.Clone()
	return d
}

// ChangesOptions select changes of tables. The zero value is all of all tables, and those to come.
type ChangesOptions struct {
	Tables  []string // by their names at the time of the change; nil: all
	Items   bool     // also items that belong to no table; without Tables
	Before  bool     // as engine.ChangesOptions.Before, and so are the two that follow
	Visible bool
	Stop    bool
	// Consumer, if not nil, says where to begin. The caller acknowledges what it has used; what is
	// not selected is acknowledged with the selected change before it.
	Consumer *engine.Consumer
}

// Changes yields what commits have changed in the tables of a database: engine.DB.Changes, with
// rows in place of items. Index entries and other stored parts of tables are left out. Rows are
// read by the definition that they were written by; if versions are not kept back to the position
// (engine.Options.RetainVersions), those from before the next change of a definition by the present
// one, and rows of tables that were dropped since are left out.
func Changes(ctx context.Context, e *engine.DB, from engine.Position, o *ChangesOptions,
) iter.Seq2[TableChange, error] {
	if o == nil {
		o = &ChangesOptions{}
	}
	return func(yield func(TableChange, error) bool) {
		s := tableStream{o: o, yield: yield}
		if err := s.run(ctx, e, from); err != nil {
			yield(TableChange{}, err)
		}
	}
}

// tableStream is a call of Changes.
type tableStream struct {
	o      *ChangesOptions
	yield  func(TableChange, error) bool
	tables map[uint32]*schema.Table
	next   uint32 // all tables that are or were there have lower ids

	held    TableChange     // the last change, until it is known whether another follows
	holds   bool            //
	shown   engine.Position // after the last change that was yielded
	skipped int             // changes that were not selected since then
}

// run reads the stream to its end.
func (s *tableStream) run(ctx context.Context, e *engine.DB, from engine.Position) (err error) {
	if s.o.Consumer != nil {
		if from, err = s.o.Consumer.Position(); err != nil {
			return err
		}
	}
	s.shown = from
	if err = s.definitionsAt(ctx, e, from); err != nil {
		return err
	}
	items := &engine.ChangesOptions{Before: s.o.Before, Visible: s.o.Visible, Stop: s.o.Stop}
	for c, err := range e.Changes(ctx, from, items) {
		if err != nil {
			return err
		}
		more, err := s.change(&c)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// definitionsAt begins with the tables that were there before a change, or are there if that is not
// kept.
func (s *tableStream) definitionsAt(ctx context.Context, e *engine.DB,
	from engine.Position) (err error) {
	version := from.Version
	if from.Index == 0 { // else it is after the definition: that is the first one of its commit
		version = max(version, 1) - 1
	}
	snap, err := e.SnapshotAt(version)
	if errors.Is(err, engine.ErrGone) {
		snap, err = e.Snapshot()
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	db, err := Past(ctx, e, snap, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s.tables, s.next = map[uint32]*schema.Table{}, db.NextID()
	for _, t := range db.Tables() {
		s.tables[t.Schema().ID] = t.Schema()
	}
	return nil
}

// change shows what a change of the engine means for tables.
func (s *tableStream) change(c *engine.Change) (more bool, err error) {
	more = true
	switch id, row := schema.RowTable(c.Key.PK); {
	case c.Kind == engine.ChangeDeleteRange:
		for _, t := range s.tables {
			if s.wants(t) && concerns(c, t) {
				more = more && s.show(&TableChange{Kind: RowsDeleted, Table: t}, c)
			}
		}
		more = more && s.item(c)
	case row && s.tables[id] != nil:
		if t := s.tables[id]; s.wants(t) {
			more, err = s.row(t, c)
		}
	case table.InCatalogue(c.Key.PK):
		more, err = s.defined(c)
	default:
		more = s.item(c)
	}
	if err != nil || !more {
		return false, err
	}
	if c.Last {
		if !s.flush(true) {
			return false, nil
		}
		s.pass(c)
	}
	return true, nil
}

// wants reports whether a table is selected.
func (s *tableStream) wants(t *schema.Table) bool {
	return s.o.Tables == nil || slices.Contains(s.o.Tables, t.Name)
}

// concerns reports whether a range delete may be about rows of a table.
func concerns(c *engine.Change, t *schema.Table) bool {
	low := keycodec.AppendOrderedPK(nil, t.AppendRowPrefix(nil))
	low = low[:len(low)-2] // without its end
	high, _ := keycodec.PrefixEnd(nil, low)
	return bytes.Compare(low, c.End) < 0 && bytes.Compare(c.Start, high) < 0
}

// defined takes over a definition.
func (s *tableStream) defined(c *engine.Change) (more bool, err error) {
	id, ok := table.DefinedID(c.Key)
	if !ok {
		return true, nil
	}
	before := s.tables[id]
	out := TableChange{Kind: TableDropped, Table: before}
	if c.Kind != engine.ChangeDelete {
		if out.Table, err = table.Defined(c.Key, c.Value); err != nil {
			return false, err
		}
		out.Kind = TableDefined
	}
	if out.Kind == TableDropped || out.Table.Dropping {
		out.Kind = TableDropped
		delete(s.tables, id)
		if before == nil { // known already
			return true, nil
		}
	} else {
		s.tables[id], s.next = out.Table, max(s.next, id+1)
	}
	if !s.wants(out.Table) && (before == nil || !s.wants(before)) {
		return true, nil
	}
	return s.show(&out, c), nil
}

// item shows a change of an item that belongs to no table.
func (s *tableStream) item(c *engine.Change) bool {
	if !s.o.Items || s.o.Tables != nil {
		return true
	}
	pk := c.Key.PK
	if c.Kind == engine.ChangeDeleteRange {
		n, _ := keycodec.OrderedPKLen(c.Start)
		k, _, err := keycodec.DecodeOrdered(c.Start[:n], nil)
		if pk = k.PK; err != nil {
			return true // not reachable: the record's checksum is right
		}
	}
	row, isRow := schema.RowTable(pk)
	entry, isEntry := schema.EntryTable(pk)
	if isRow && row < s.next || isEntry && entry < s.next || table.InCatalogue(pk) {
		return true
	}
	return s.show(&TableChange{Kind: ItemChanged, Known: c.Known}, c)
}

// row shows the change of a row.
func (s *tableStream) row(t *schema.Table, c *engine.Change) (more bool, err error) {
	out := TableChange{Kind: RowDeleted, Table: t, Known: c.Known, Key: t.Row()}
	key, err := t.KeyValues(c.Key)
	if err != nil {
		return false, err
	}
	for i, o := range t.KeyOrdinals() {
		out.Key[o] = key[i]
	}
	if c.Kind != engine.ChangeDelete {
		out.Kind, out.After = RowPut, t.Row()
		if err := t.Decode(out.After, c.Key, c.Value, nil); err != nil {
			return false, err
		}
		for _, i := range t.KeyOrdinals() { // also collated texts, which the key has folded
			out.Key[i] = out.After[i]
		}
	}
	if c.Before != nil {
		out.Before = t.Row()
		if err := t.Decode(out.Before, c.Before.Key, c.Before.Value, nil); err != nil {
			return false, err
		}
		if out.After == nil {
			for _, i := range t.KeyOrdinals() {
				out.Key[i] = out.Before[i]
			}
		}
	}
	return s.show(&out, c), nil
}

// show yields the change before, and holds this one.
func (s *tableStream) show(out *TableChange, c *engine.Change) bool {
	if s.holds && s.held.Item.Version == c.Version && s.held.Item.Index == c.Index {
		before := s.shown
		s.held.before = &before
	}
	if !s.flush(false) {
		return false
	}
	out.Item = *c
	if s.held, s.holds = *out, true; !c.Last {
		s.held = out.Clone() // the next change takes its memory
	}
	return true
}

// flush yields the change that is held.
func (s *tableStream) flush(last bool) bool {
	if !s.holds {
		return true
	}
	s.holds, s.held.Last = false, last
	s.shown, s.skipped = s.held.Next(), 0
	return s.yield(s.held, nil)
}

// ackEvery is how many commits without a selected change are passed before they are acknowledged.
const ackEvery = 256

// pass acknowledges what was not selected up to the end of a commit.
func (s *tableStream) pass(c *engine.Change) {
	if s.skipped++; s.o.Consumer == nil || s.skipped < ackEvery {
		return
	}
	s.skipped = 0
	if at, err := s.o.Consumer.Position(); err == nil && at == s.shown {
		s.shown = c.Next()
		_ = s.o.Consumer.Ack(s.shown)
	}
}
