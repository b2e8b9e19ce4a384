package table

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/kstonedb/kstone/engine/store"
)

// View is a query with a name, as text: what reads text knows its language. It is immutable; a
// view that is replaced is another View with the same id.
type View struct {
	ID   uint32 `json:"id"` // given out with those of tables
	Name string `json:"name"`
	// Columns are other names for the columns of the query; nil leaves them.
	Columns []string `json:"columns,omitempty"`
	Query   string   `json:"query"`

	raw []byte // the item in the catalogue
}

// Limits of a view.
const (
	maxViewName  = 255
	maxViewQuery = 1 << 20
)

func (v *View) validate() error {
	switch {
	case v.Name == "" || len(v.Name) > maxViewName || !utf8.ValidString(v.Name):
		return invalid("the name of a view is a text of 1 to %d bytes", maxViewName)
	case v.Query == "" || len(v.Query) > maxViewQuery || !utf8.ValidString(v.Query):
		return invalid("the query of view %q is not a text of 1 to %d bytes", v.Name, maxViewQuery)
	}
	return nil
}

// parseView reads an item of the catalogue.
func parseView(id, data []byte) (*View, error) {
	v := new(View)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, damaged("view", "JSON", err)
	}
	if want := binary.BigEndian.Uint32(id); v.ID != want {
		return nil, damaged("view", want, v.ID)
	}
	if err := v.validate(); err != nil {
		return nil, damaged("view", "a view", err)
	}
	return v, nil
}

// View returns the view with that name, the same pointer until it is replaced. The error matches
// ErrNoView.
func (db *DB) View(name string) (*View, error) {
	if v := db.tables.Load().views[name]; v != nil {
		return v, nil
	}
	return nil, &NameError{name, ErrNoView}
}

// Views returns the views, by name.
func (db *DB) Views() []*View {
	list := db.tables.Load()
	var all []*View
	for _, name := range slices.Sorted(maps.Keys(list.views)) {
		all = append(all, list.views[name])
	}
	return all
}

// CreateView keeps a view; its id is given out. With replace a view of its name goes. The error
// matches ErrExists if a table has the name or, without replace, a view.
func (db *DB) CreateView(ctx context.Context, view View, replace bool) error {
	if err := view.validate(); err != nil {
		return err
	}
	return db.changing(ctx, func() error { return db.createView(ctx, view, replace) })
}

// createView is CreateView without the lock and the repetition.
func (db *DB) createView(ctx context.Context, view View, replace bool) error {
	list := db.tables.Load()
	old := list.views[view.Name]
	if list.byName[view.Name] != nil || old != nil && !replace {
		return &NameError{view.Name, ErrExists}
	}
	var set store.WriteSet
	head := db.head
	if view.ID = head.NextTable; old != nil {
		view.ID = old.ID
	} else {
		head.NextTable++
	}
	view.Columns = slices.Clone(view.Columns)
	data, err := json.Marshal(&view)
	if err != nil {
		return err
	}
	key := catalogueKey(markView, view.ID)
	if old != nil {
		set.PutIf(key, data, store.ValueIs(old.raw))
	} else {
		set.PutIf(key, data, store.Absent())
	}
	view.raw = data
	return db.save(ctx, &set, head, 0, func(list *tableList) { list.views[view.Name] = &view })
}

// DropView removes a view. The error matches ErrNoView if there is none of that name.
func (db *DB) DropView(ctx context.Context, name string) error {
	return db.changing(ctx, func() error {
		old, err := db.View(name)
		if err != nil {
			return err
		}
		var set store.WriteSet
		set.DeleteIf(catalogueKey(markView, old.ID), store.ValueIs(old.raw))
		return db.save(ctx, &set, db.head, 0, func(list *tableList) { delete(list.views, name) })
	})
}

// putHead replaces the head of the catalogue, in the commit and in what is known of it.
func (db *DB) putHead(set *store.WriteSet, head *catalogueHead) error {
	data, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("table: catalogue: %w", err)
	}
	cond := store.Absent()
	if head.raw != nil {
		cond = store.ValueIs(head.raw)
	}
	set.PutIf(catalogueKey(markHead), data, cond)
	head.raw = data
	return nil
}
