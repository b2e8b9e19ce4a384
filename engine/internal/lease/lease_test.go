package lease

import (
	"bytes"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

var ok = testutil.OK

// TestSlotOfThePage: the example of docs/format/leases.md is what a slot is.
//
// Promise (readers): The example bytes of a lease are those of its page, and a damaged lease keeps
// everything.
func TestSlotOfThePage(t *testing.T) {
	h := Held{Edit: manifest.Position{Manifest: 3, Record: 5}, Segment: 7}
	b := h.encode(1234, time.UnixMilli(1_750_000_000_123))
	testutil.PageShows(t, "../../../docs/format/leases.md", b)
	if got, used := decode(b); !used || got != h {
		t.Errorf("decoded %+v, %v", got, used)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if got, used := decode(bad); !used || got != (Held{}) {
			t.Fatalf("byte %d: a damaged slot holds %+v, %v, want everything", i, got, used)
		}
	}
	if _, used := decode(make([]byte, slotBytes)); used {
		t.Error("a free slot is used")
	}
}

// TestFloor: what leases keep is what the oldest of them does, and ends with them.
func TestFloor(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS(), "mem": vfs.NewMem()} {
		dir := t.TempDir()
		ok(t, fsys.MkdirAll(dir))
		table, err := Open(fsys, dir)
		ok(t, err)
		want := func(h Held, any bool) {
			t.Helper()
			if got, is := table.Floor(); got != h || is != any {
				t.Fatalf("%s: floor %+v, %v, want %+v, %v", name, got, is, h, any)
			}
		}
		want(Held{}, false)
		var all []*Lease
		for range 40 { // more than the table reads at first
			l, err := Take(fsys, dir)
			ok(t, err)
			want(Held{}, true) // everything
			ok(t, l.Hold(Held{Edit: manifest.Position{Manifest: 9, Record: 9}, Segment: 9}))
			all = append(all, l)
		}
		ok(t, all[3].Hold(Held{Edit: manifest.Position{Manifest: 2, Record: 8}, Segment: 5}))
		ok(t, all[39].Hold(Held{Edit: manifest.Position{Manifest: 3, Record: 1}, Segment: 4}))
		want(Held{Edit: manifest.Position{Manifest: 2, Record: 8}, Segment: 4}, true)
		ok(t, all[3].file.Close()) // as the death of the process does
		want(Held{Edit: manifest.Position{Manifest: 3, Record: 1}, Segment: 4}, true)
		l, err := Take(fsys, dir)
		ok(t, err)
		if l.off != all[3].off {
			t.Errorf("%s: the slot of a dead reader is not used again", name)
		}
		ok(t, l.Release())
		all[3] = nil
		for _, l := range all {
			if l != nil {
				ok(t, l.Release())
			}
		}
		want(Held{}, false)
		ok(t, table.Close())
	}
}
