package ship_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/internal/testutil"
)

// BenchmarkRestore restores a database of 200 MB of values that cannot be compressed, in turns with
// a write of the same bytes to one file, which is synced, and reports how fast that is.
func BenchmarkRestore(b *testing.B) {
	dir := b.TempDir()
	db, err := engine.Open(filepath.Join(dir, "db"), &engine.Options{Durability: engine.Process,
		RetainBytes: 1 << 30})
	ok(b, err)
	random := testutil.Rand(b)
	value := make([]byte, 1000)
	for i := range testutil.Effort(200_000, 2_000_000) {
		for j := range value {
			value[j] = byte(random.Uint32())
		}
		ok(b, db.Put(engine.Key{PK: fmt.Append(nil, i)}, value))
	}
	ok(b, db.Compact(ctx))
	dest := ship.Directory(filepath.Join(dir, "dest"))
	s, err := ship.Start(db, dest, nil)
	ok(b, err)
	ok(b, s.Close(ctx))
	ok(b, db.Close())
	var restored, copied time.Duration
	var size int64
	to := filepath.Join(dir, "restored")
	for b.Loop() {
		begin := time.Now()
		_, err := ship.Restore(ctx, dest, to, nil)
		ok(b, err)
		restored += time.Since(begin)
		begin = time.Now()
		size += copyAll(b, to, to+".copy")
		copied += time.Since(begin)
		ok(b, os.RemoveAll(to))
		ok(b, os.Remove(to+".copy"))
	}
	b.ReportMetric(float64(size)/1e6/restored.Seconds(), "MB/s")
	b.ReportMetric(float64(size)/1e6/copied.Seconds(), "MB/s-of-the-disk")
	b.ReportMetric(copied.Seconds()/restored.Seconds(), "of-the-disk")
}

// copyAll writes the content of all files of a directory to one, in large pieces, and syncs it: as
// fast as the disk goes.
func copyAll(b *testing.B, from, to string) (size int64) {
	entries, err := os.ReadDir(from)
	ok(b, err)
	out, err := os.Create(to)
	ok(b, err)
	buf := make([]byte, 1<<20)
	for _, e := range entries {
		in, err := os.Open(filepath.Join(from, e.Name()))
		ok(b, err)
		// Why not as files: the system would share the blocks.
		n, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, buf)
		ok(b, err)
		ok(b, in.Close())
		size += n
	}
	ok(b, out.Sync())
	ok(b, out.Close())
	return size
}
