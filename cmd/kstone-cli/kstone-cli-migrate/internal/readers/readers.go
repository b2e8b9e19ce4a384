// Package readers reads what other engines have stored, for the command migrate.
package readers

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/migrate"
)

// Register makes all readers known to the command.
func Register() {
	migrate.Register("bbolt", pairs(openBbolt))
	migrate.Register("badger", pairs(openBadger))
	migrate.Register("leveldb", pairs(openLevelDB))
	migrate.Register("pebble", pairs(openPebble))
	migrate.Register("sqlite", func(path string) (migrate.Pairs, migrate.Tables, error) {
		t, err := openSQLite(path)
		return nil, t, err
	})
}

// pairs makes an Opener of a function that opens a store of pairs.
func pairs(open func(path string) (migrate.Pairs, error)) migrate.Opener {
	return func(path string) (p migrate.Pairs, _ migrate.Tables, err error) {
		err = guard(func() (err error) {
			p, err = open(path)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		return &guarded{p}, nil, nil
	}
}

// guarded is a store of pairs whose engine may panic over damaged files.
type guarded struct{ migrate.Pairs }

// All implements migrate.Pairs.
func (g *guarded) All(ctx context.Context) iter.Seq2[migrate.Pair, error] {
	return func(yield func(migrate.Pair, error) bool) {
		more := true
		err := guard(func() error {
			for p, err := range g.Pairs.All(ctx) {
				if err != nil {
					return err
				}
				if more = outside(func() bool { return yield(p, nil) }); !more {
					return nil
				}
			}
			return nil
		})
		if err != nil && more {
			yield(migrate.Pair{}, err)
		}
	}
}

// Left implements migrate.Pairs.
func (g *guarded) Left() (list []string) {
	err := guard(func() error {
		list = g.Pairs.Left()
		return nil
	})
	if err != nil {
		list = []string{err.Error()}
	}
	return list
}

// Close implements migrate.Pairs.
func (g *guarded) Close() error { return guard(g.Pairs.Close) }

// ownPanic is a panic of the code that gets the pairs, not of the engine.
type ownPanic struct{ value any }

// outside calls code that is not the engine's.
func outside(fn func() bool) (more bool) {
	defer func() {
		if v := recover(); v != nil {
			panic(ownPanic{v})
		}
	}()
	return fn()
}

// guard calls code of an engine. Panics become errors, and so do reads of mapped memory that a
// file does not have.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch v := recover().(type) {
		case nil:
		case ownPanic:
			panic(v.value)
		default:
			err = fmt.Errorf("the files are damaged: its engine fails with: %v", v)
		}
	}()
	return fn()
}

// sorted returns what is noted, in order.
func sorted(notes map[string]bool) []string { return slices.Sorted(maps.Keys(notes)) }
