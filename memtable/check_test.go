//go:build invariants

package memtable_test

import (
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
)

// TestChecks makes the mistakes that builds with the invariants tag catch.
func TestChecks(t *testing.T) {
	key := []byte("k")
	for name, mistake := range map[string]func(*memtable.Table){
		"put after freeze": func(tab *memtable.Table) {
			tab.Freeze()
			put(tab, "k", 9, "")
		},
		"range delete after freeze": func(tab *memtable.Table) {
			tab.Freeze()
			tab.DeleteRange(base.RangeTombstone{Start: key, End: []byte("l"), Seq: 9})
		},
		"wrong hash": func(tab *memtable.Table) {
			tab.Put(key, 1, 9, base.KindPut, 0, nil, 0)
		},
		"sequence number goes back": func(tab *memtable.Table) { put(tab, "k", 4, "") },
	} {
		tab := memtable.New(memtable.Options{Seed: seed})
		put(tab, "k", 5, "")
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: not caught", name)
				}
			}()
			mistake(tab)
		}()
	}
}
