package local

import (
	"context"
	"strings"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
)

// Options are how OpenDir opens a database and its tables. Nil means the defaults.
type Options struct {
	table.Options
	// Engine is what the engine is opened with; nil means its defaults.
	Engine *engine.Options
}

// OpenDir opens the database in a directory, creating it if there is none, and its tables:
// engine.Open, and Open. Close closes both.
//
//	db, err := local.OpenDir(ctx, "shop.db", nil)
//	…
//	defer db.Close()
func OpenDir(ctx context.Context, dir string, o *Options) (*table.DB, error) {
	if o == nil {
		o = &Options{}
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil { // before there is a directory
		return nil, err
	}
	s, err := openStore(dir, o.Engine)
	if err != nil {
		return nil, err
	}
	return table.OpenOwned(ctx, s, &o.Options)
}

// Open opens the tables of a database, which stays the caller's: see table.Open.
func Open(ctx context.Context, e *engine.DB, o *table.Options) (*table.DB, error) {
	return table.Open(ctx, New(e), o)
}

// Engine returns the database that tables are in, nil if it is another store's.
func Engine(db *table.DB) *engine.DB {
	if s, ok := db.Store().(*Store); ok {
		return s.Engine()
	}
	return nil
}

func init() { store.Register("file", openURL) }

// openURL opens the directory of a URL.
func openURL(_ context.Context, url string) (store.Store, error) {
	return openStore(strings.TrimPrefix(url, "file://"), nil)
}

// openStore opens the database in a directory, which the store closes.
func openStore(dir string, o *engine.Options) (store.Store, error) {
	e, err := engine.Open(dir, o)
	if err != nil {
		return nil, err
	}
	s := New(e)
	s.owned = true
	return s, nil
}
