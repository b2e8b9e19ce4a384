package engine_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// A sync that fails once is not tried again, although a second one would succeed: by then
// the kernel may have given up what the first could not write. This holds for each kind of
// file: the log, SSTs, the manifest, and the directory.
//
// Promise (disks): A sync that failed once is not tried again. Also of the directory
// `TestDirSyncFailsForGood` in `internal/vfs`.
func TestSyncThatFailsOnceIsFinal(t *testing.T) {
	errSync := errors.New("cannot sync")
	for name, matches := range map[string]func(op vfstest.Op) bool{
		"log": func(op vfstest.Op) bool {
			return op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".log")
		},
		"sst": func(op vfstest.Op) bool {
			return op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".sst")
		},
		"manifest": func(op vfstest.Op) bool {
			return op.Kind == vfstest.OpSync && strings.HasPrefix(filepath.Base(op.Name),
				"MANIFEST")
		},
		"directory": func(op vfstest.Op) bool { return op.Kind == vfstest.OpSyncDir },
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			var failed atomic.Int64
			fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
				if matches(op) && armed.CompareAndSwap(true, false) {
					failed.Add(1)
					return errSync
				}
				if name == "directory" && matches(op) && failed.Load() > 0 {
					t.Error("the directory is synced again")
				}
				return nil
			})
			db := openOn(t, fsys, engine.Options{Durability: engine.Sync})
			ok(t, db.Put(pk("before"), []byte("v")))
			armed.Store(true)
			err := db.Put(pk("at"), []byte("v"))
			if name == "log" {
				wantIs(t, err, engine.ErrReadOnly)
				wantIs(t, err, errSync)
			} else {
				if err != nil { // the log was preparing a segment, and its directory
					wantIs(t, err, errSync)
				}
				err = db.Flush(ctx)
				if name != "directory" || err != nil { // the log may have met it after the flush
					wantIs(t, err, errSync)
				}
			}
			if failed.Load() != 1 {
				t.Fatalf("%d syncs failed, want 1", failed.Load())
			}
			for range 3 {
				wantIs(t, db.Put(pk("after"), []byte("v")), engine.ErrReadOnly)
				wantIs(t, db.Sync(ctx), engine.ErrReadOnly)
				wantIs(t, db.Flush(ctx), engine.ErrReadOnly)
			}
			wantValue(t, db, pk("before"), []byte("v"))
			wantValue(t, db, pk("after"), nil)
			_ = db.Close() // whatever could be made durable is; the error is known
		})
	}
}
