package cache_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/cache"
)

// disk is a set of fake files; each file's content is its name.
type disk struct {
	open, most, opened atomic.Int64
	fail               atomic.Bool
}

type diskFile struct {
	d      *disk
	name   string
	closed atomic.Bool
}

func (d *disk) Open(name string) (cache.File, error) {
	if d.fail.Load() {
		return nil, errors.New("too many open files")
	}
	d.opened.Add(1)
	n := d.open.Add(1)
	for {
		most := d.most.Load()
		if n <= most || d.most.CompareAndSwap(most, n) {
			break
		}
	}
	return &diskFile{d: d, name: name}, nil
}

func (f *diskFile) ReadAt(p []byte, off int64) (int, error) {
	if f.closed.Load() {
		return 0, fmt.Errorf("read %s: %w", f.name, fs.ErrClosed)
	}
	return copy(p, f.name[off:]), nil
}

func (f *diskFile) Close() error {
	if f.closed.Swap(true) {
		return fs.ErrClosed
	}
	f.d.open.Add(-1)
	return nil
}

// TestFilesLimit: any number of files is readable through a few open ones.
func TestFilesLimit(t *testing.T) {
	d := &disk{}
	files := cache.NewFiles(d.Open, 5)
	handles := make([]*cache.Handle, 40)
	for i := range handles {
		handles[i] = files.Handle(fmt.Sprintf("file-%02d", i))
	}
	if d.open.Load() != 0 {
		t.Error("a handle opens its file before it is read")
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	buf := make([]byte, 7)
	for range 2000 {
		i := rnd.IntN(len(handles))
		_, err := handles[i].ReadAt(buf, 0)
		if err != nil || string(buf) != fmt.Sprintf("file-%02d", i) {
			t.Fatalf("file %d: %q, %v", i, buf, err)
		}
	}
	if d.most.Load() > 5 || files.Open() != 5 || d.opened.Load() <= 40 {
		t.Errorf("%d files were open at once, %d in the end, opened %d times", d.most.Load(),
			files.Open(), d.opened.Load())
	}
	for _, h := range handles {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if _, err := h.ReadAt(buf, 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
		if err := h.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
	if d.open.Load() != 0 || files.Open() != 0 {
		t.Errorf("%d files stay open", d.open.Load())
	}
}

// TestFilesOpenFails: a failed open costs no place and heals.
func TestFilesOpenFails(t *testing.T) {
	d := &disk{}
	files := cache.NewFiles(d.Open, 2)
	h := files.Handle("name")
	d.fail.Store(true)
	buf := make([]byte, 4)
	for range 10 {
		if _, err := h.ReadAt(buf, 0); err == nil {
			t.Fatal("read without a file")
		}
	}
	if files.Open() != 0 {
		t.Errorf("%d files are open", files.Open())
	}
	d.fail.Store(false)
	if _, err := h.ReadAt(buf, 0); err != nil || string(buf) != "name" {
		t.Error(err)
	}
}

// TestFilesConcurrent: reads that race with eviction of their file succeed.
func TestFilesConcurrent(t *testing.T) {
	d := &disk{}
	files := cache.NewFiles(d.Open, 3)
	handles := make([]*cache.Handle, 20)
	for i := range handles {
		handles[i] = files.Handle(fmt.Sprintf("file-%02d", i))
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 2))
			buf := make([]byte, 7)
			for range 3000 {
				i := rnd.IntN(len(handles))
				_, err := handles[i].ReadAt(buf, 0)
				if want := fmt.Sprintf("file-%02d", i); err != nil || string(buf) != want {
					t.Errorf("file %d: %q, %v", i, buf, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, h := range handles {
		h.Close()
	}
	// Three places, and one file per goroutine beyond them at the very worst.
	if d.open.Load() != 0 || d.most.Load() > 3+8 {
		t.Errorf("%d files stay open, %d were at once", d.open.Load(), d.most.Load())
	}
}

// TestFilesCloseRace: Close while others read and open; nothing stays open.
func TestFilesCloseRace(t *testing.T) {
	d := &disk{}
	files := cache.NewFiles(d.Open, 2)
	for range 200 {
		h := files.Handle("name")
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				buf := make([]byte, 4)
				if _, err := h.ReadAt(buf, 0); err != nil && !errors.Is(err, fs.ErrClosed) {
					t.Error(err)
				}
			})
		}
		wg.Go(func() { h.Close() })
		wg.Wait()
	}
	if d.open.Load() != 0 || files.Open() != 0 {
		t.Errorf("%d files stay open, %d are known", d.open.Load(), files.Open())
	}
}

// TestEvict: files are closed on demand and read again.
func TestEvict(t *testing.T) {
	d := &disk{}
	files := cache.NewFiles(d.Open, 50)
	if files.Evict() {
		t.Error("closed a file when none is open")
	}
	var handles []*cache.Handle
	for i := range 40 {
		h := files.Handle(fmt.Sprint("file", i))
		if _, err := h.ReadAt(make([]byte, 1), 0); err != nil {
			t.Fatal(err)
		}
		handles = append(handles, h)
	}
	for want := int64(35); files.Evict(); want -= max(1, want/8) {
		if got := d.open.Load(); got != want {
			t.Fatalf("%d open files, want %d", got, want)
		}
	}
	if n := d.open.Load(); n != 0 {
		t.Errorf("%d open files after the last", n)
	}
	for _, h := range handles {
		if _, err := h.ReadAt(make([]byte, 1), 0); err != nil {
			t.Fatal(err)
		}
	}
}
