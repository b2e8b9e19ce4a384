package engine_test

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Each kind of file can be described on its own, without the rest of the database; of a
// damaged one as much as can be read.
//
// Promise (manners): Every file can be described by itself.
func TestInspectFile(t *testing.T) {
	mem := vfs.NewMem()
	fixture(t, mem)
	db := openOn(t, mem, engine.Options{LargeValue: 1})
	ok(t, db.Put(pk("large"), []byte("value in a file of its own")))
	ok(t, db.Flush(ctx))
	mustClose(t, db)
	files := snapshotFiles(t, mem, "db")
	dir := t.TempDir()
	words := map[string]string{
		"CURRENT": "MANIFEST-00000", "MANIFEST": "run", "wal": "record", "sst": "entries",
		"val": "values ",
	}
	for name, content := range files {
		if name == "LOCK" || name == "RESERVE" {
			continue
		}
		writeFiles(t, dir, map[string]string{name: content})
		var out bytes.Buffer
		ok(t, engine.InspectFile(filepath.Join(dir, name), &out))
		if isPrepared(content) {
			if !strings.Contains(out.String(), "not used yet") {
				t.Errorf("%s: %s", name, &out)
			}
			continue
		}
		for kind, word := range words {
			if strings.Contains(name, kind) && !strings.Contains(out.String(), word) {
				t.Errorf("%s: the description lacks %q:\n%s", name, word, &out)
			}
		}
		for _, at := range []int{0, 10, len(content) / 3, len(content) - 1} {
			b := []byte(content)
			b[at] ^= 0x55
			writeFiles(t, dir, map[string]string{name: string(b)})
			err := engine.InspectFile(filepath.Join(dir, name), io.Discard)
			if err != nil && !errors.Is(err, engine.ErrCorrupt) &&
				!errors.Is(err, engine.ErrNotDatabase) {
				t.Errorf("%s with byte %d changed: %v", name, at, err)
			}
		}
		writeFiles(t, dir, map[string]string{name: ""})
		err := engine.InspectFile(filepath.Join(dir, name), io.Discard)
		if err == nil && len(content) > 0 {
			t.Errorf("%s: nothing is wrong with an empty file", name)
		}
	}
	wantIs(t, engine.InspectFile(filepath.Join(dir, "LOCK"), io.Discard), engine.ErrInvalid)
	wantIs(t, engine.InspectFile("/etc/hostname", io.Discard), engine.ErrInvalid)
}
