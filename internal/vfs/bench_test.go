package vfs_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/internal/vfs"
)

const (
	benchDirFiles  = 1500
	benchFileBytes = 64 << 10
	benchSyncFiles = 64
)

// BenchmarkNames measures what a file costs besides its content, in a directory of
// 1,500 files: the cost of flushes that write one file for each stripe.
func BenchmarkNames(b *testing.B) {
	fsys, dir := vfs.OS(), b.TempDir()
	name := func(kind string, n int) string {
		return filepath.Join(dir, fmt.Sprintf("%s-%d.sst", kind, n))
	}
	touch := func(b *testing.B, name string) {
		f, err := fsys.Create(name)
		ok(b, err)
		ok(b, f.Close())
	}
	for i := range benchDirFiles {
		touch(b, name("file", i))
	}
	i := 0
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			touch(b, name("new", i))
			i++
		}
	})
	from := 0
	b.Run("rename", func(b *testing.B) {
		for b.Loop() {
			err := fsys.Rename(name("file", from), name("file", from+benchDirFiles))
			ok(b, err)
			from++
		}
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			f, err := fsys.Open(name("file", from))
			ok(b, err)
			ok(b, f.Close())
		}
	})
}

// BenchmarkSyncFiles makes 64 files of 64 KiB durable, one after the other or eight at
// a time. An operation is all of them.
func BenchmarkSyncFiles(b *testing.B) {
	for _, at := range []int{1, 8} {
		b.Run(fmt.Sprintf("at_a_time=%d", at), func(b *testing.B) {
			fsys, dir := vfs.OS(), b.TempDir()
			content := make([]byte, benchFileBytes)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				files := writeFiles(b, fsys, dir, content)
				b.StartTimer()
				syncFiles(b, files, at)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchSyncFiles, "ns/file")
		})
	}
}

func writeFiles(b *testing.B, fsys vfs.FS, dir string, content []byte) []vfs.File {
	files := make([]vfs.File, benchSyncFiles)
	for i := range files {
		f, err := fsys.Create(filepath.Join(dir, fmt.Sprint(i)))
		ok(b, err)
		ok(b, second(f.Write(content)))
		files[i] = f
	}
	return files
}

// syncFiles syncs and closes the files, so many at a time.
func syncFiles(b *testing.B, files []vfs.File, at int) {
	slots := make(chan struct{}, at)
	var wg sync.WaitGroup
	for _, f := range files {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f.Sync(); err != nil {
				b.Error(err)
			}
			if err := f.Close(); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}
