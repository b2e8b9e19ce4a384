package engine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Properties are there after a reopen, in checkpoints and in a read-only database; nil
// removes one, an empty value is a value.
func TestPropertiesLast(t *testing.T) {
	fsys := vfs.NewMem()
	db := openOn(t, fsys, engine.Options{})
	binary := []byte{0, 1, 0xff, 0xfe, '"', '\\'}
	ok(t, db.SetProperty("binary", binary))
	ok(t, db.SetProperty("empty", []byte{}))
	ok(t, db.SetProperty("gone", []byte("x")))
	ok(t, db.SetProperty("gone", nil))
	ok(t, db.SetProperty("never there", nil))
	ok(t, db.SetProperty("名前 \"\n", []byte("odd names too")))
	ok(t, db.Checkpoint(ctx, "copy", nil))
	check := func(db *engine.DB) {
		t.Helper()
		for name, want := range map[string][]byte{
			"binary": binary, "empty": {}, "名前 \"\n": []byte("odd names too"),
			"gone": nil, "": nil, "never there": nil,
		} {
			got, there := db.Property(name)
			if there != (want != nil) || !bytes.Equal(got, want) || there && got == nil {
				t.Errorf("property %q is %q, %v", name, got, there)
			}
		}
	}
	check(db)
	mustClose(t, db)
	for _, o := range []engine.Options{{}, {ReadOnly: true}} {
		for _, dir := range []string{"db", "copy"} {
			db, err := engine.OpenFS(fsys, dir, &o)
			ok(t, err)
			check(db)
			mustClose(t, db)
		}
	}
}

// Properties are small: beyond the limit of all together nothing changes, below it many
// changes do not make the manifest grow for ever.
func TestPropertyLimits(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	fsys := vfs.NewMem()
	db := openOn(t, fsys, engine.Options{})
	ok(t, db.SetProperty("a", bytes.Repeat([]byte("a"), engine.MaxPropertyBytes/2)))
	for name, bytes := range map[string]int{
		"b": engine.MaxPropertyBytes / 2, "c": 64 << 20,
		strings.Repeat("n", engine.MaxPropertyBytes): 1,
	} {
		wantIs(t, db.SetProperty(name, make([]byte, bytes)), engine.ErrTooLarge)
		if _, there := db.Property(name); there {
			t.Error("a refused property is there")
		}
	}
	for i := range 200 {
		ok(t, db.SetProperty("a", bytes.Repeat([]byte{byte(i)}, 100<<10)))
	}
	if used := manifestBytes(t, fsys); used > 4<<20 {
		t.Errorf("the manifest has %d bytes", used)
	}
	mustClose(t, db)
	db = openOn(t, fsys, engine.Options{})
	if v, _ := db.Property("a"); len(v) != 100<<10 || v[0] != 199 {
		t.Errorf("%d bytes of %d", len(v), v[0])
	}
	mustClose(t, db)
}

func manifestBytes(t *testing.T, fsys vfs.FS) (n int64) {
	for name, content := range snapshotFiles(t, fsys, "db") {
		if strings.HasPrefix(name, "MANIFEST") {
			n += int64(len(content))
		}
	}
	return n
}

// Many goroutines set properties while flushes and merges change the manifest, too.
func TestPropertiesConcurrently(t *testing.T) {
	db := openMemory(t, engine.Options{FlushRecords: 3, MaxRuns: 2, Durability: engine.Process})
	done := make(chan struct{})
	for w := range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 50 {
				if err := db.SetProperty(fmt.Sprint(w), fmt.Append(nil, i)); err != nil {
					t.Error(err)
				}
				if err := db.Put(pksk(fmt.Sprint(w), fmt.Sprint(i)), nil); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
	for w := range 4 {
		if v, there := db.Property(fmt.Sprint(w)); !there || string(v) != "49" {
			t.Errorf("property %d is %q", w, v)
		}
	}
}
