package manifest_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// recorder is a file system that notes every change made through it, so that the
// disk after a power cut at any point can be built: what was synced is there, of
// everything else a random part.
type recorder struct {
	vfs.FS
	log []change
	// nodes maps names to the contents they stand for; renaming moves the content.
	nodes map[string]int
	last  int
}

type changeKind int

const (
	changeName  changeKind = iota // name stands for node; "" for node 0: removed
	changeWrite                   // data at off of node
	changeSize                    // node has size off
	changeSync                    // node is durable
	changeDir                     // all names are durable
)

type change struct {
	kind  changeKind
	names map[string]int // changed together
	node  int
	off   int64
	data  []byte
}

func newRecorder() *recorder { return &recorder{FS: vfs.NewMem(), nodes: map[string]int{}} }

func (r *recorder) Create(name string) (vfs.File, error) {
	f, err := r.FS.Create(name)
	if err != nil {
		return nil, err
	}
	r.last++
	r.nodes[name] = r.last
	r.log = append(r.log, change{kind: changeName, names: map[string]int{name: r.last}})
	return &recorderFile{f, r, r.last}, nil
}

func (r *recorder) OpenReadWrite(name string) (vfs.File, error) {
	f, err := r.FS.OpenReadWrite(name)
	return &recorderFile{f, r, r.nodes[name]}, err
}

func (r *recorder) Remove(name string) error {
	r.log = append(r.log, change{kind: changeName, names: map[string]int{name: 0}})
	delete(r.nodes, name)
	return r.FS.Remove(name)
}

func (r *recorder) Rename(from, to string) error {
	names := map[string]int{from: 0, to: r.nodes[from]}
	r.log = append(r.log, change{kind: changeName, names: names})
	r.nodes[to] = r.nodes[from]
	delete(r.nodes, from)
	return r.FS.Rename(from, to)
}

func (r *recorder) SyncDir(name string) error {
	r.log = append(r.log, change{kind: changeDir})
	return r.FS.SyncDir(name)
}

type recorderFile struct {
	vfs.File
	r    *recorder
	node int
}

func (f *recorderFile) WriteAt(p []byte, off int64) (int, error) {
	c := change{kind: changeWrite, node: f.node, off: off, data: slices.Clone(p)}
	f.r.log = append(f.r.log, c)
	return f.File.WriteAt(p, off)
}

func (f *recorderFile) Truncate(size int64) error {
	f.r.log = append(f.r.log, change{kind: changeSize, node: f.node, off: size})
	return f.File.Truncate(size)
}

func (f *recorderFile) Sync() error {
	f.r.log = append(f.r.log, change{kind: changeSync, node: f.node})
	return f.File.Sync()
}

// crash returns the disk after a power cut after the first n changes. Each
// unsynced change is kept with probability p, writes in pieces of 16 bytes.
func (r *recorder) crash(n int, p float64, rnd *rand.Rand) *recorder {
	names := map[string]int{}
	content := map[int][]byte{}
	keep := func() bool { return rnd.Float64() < p }
	for i, c := range r.log[:n] {
		switch c.kind {
		case changeName:
			if syncedLater(r.log[i+1:n], changeDir, 0) || keep() {
				for name, node := range c.names {
					names[name] = node
				}
			}
		case changeWrite:
			safe := syncedLater(r.log[i+1:n], changeSync, c.node)
			for at := 0; at < len(c.data); at += 16 {
				if safe || keep() {
					piece := c.data[at:min(at+16, len(c.data))]
					content[c.node] = writeAt(content[c.node], c.off+int64(at), piece)
				}
			}
		case changeSize:
			if syncedLater(r.log[i+1:n], changeSync, c.node) || keep() {
				content[c.node] = resize(content[c.node], c.off)
			}
		}
	}
	return image(names, content)
}

func syncedLater(log []change, kind changeKind, node int) bool {
	return slices.ContainsFunc(log, func(c change) bool { return c.kind == kind && c.node == node })
}

func resize(b []byte, size int64) []byte {
	for int64(len(b)) < size {
		b = append(b, 0)
	}
	return b[:size]
}

func writeAt(b []byte, off int64, p []byte) []byte {
	b = resize(b, max(int64(len(b)), off+int64(len(p))))
	copy(b[off:], p)
	return b
}

// image builds a recorder whose disk holds the given files, all durable.
func image(names map[string]int, content map[int][]byte) *recorder {
	r := newRecorder()
	_ = r.MkdirAll(dir)
	for name, node := range names {
		if node == 0 {
			continue
		}
		f, err := r.Create(name)
		if err == nil {
			_, err = f.WriteAt(content[node], 0)
		}
		if err != nil {
			panic(err)
		}
		_ = f.Sync()
		_ = f.Close()
	}
	_ = r.SyncDir(dir)
	return r
}

// program commits with everything that may happen in between: failed writes that
// make the log move on, failed syncs after which the process ends and starts again,
// a clean close. note is called after each step with the acknowledged and the
// newest attempted number.
func program(t *testing.T, r *recorder, note func(acked, tried base.SeqNum)) {
	fail := map[vfstest.OpKind]int{} // which of the coming operations of a kind fails
	f := vfstest.NewFault(r, func(op vfstest.Op) error {
		if fail[op.Kind]--; fail[op.Kind] != 0 {
			return nil
		}
		if op.Kind == vfstest.OpWriteAt {
			return &vfstest.ShortWriteError{N: int(op.Len) - 1, Err: errIO}
		}
		return errIO
	})
	note(0, 0)
	l, err := makeAndCreate(f, dir, initState())
	ok(t, err)
	acked := base.SeqNum(0)
	for i := 1; i <= 9; i++ {
		note(acked, base.SeqNum(10*i))
		clear(fail)
		switch i {
		case 3, 6:
			fail[vfstest.OpWriteAt] = 1
		case 5:
			fail[vfstest.OpSync] = 1
		case 7:
			fail[vfstest.OpSyncDir] = 2 // after the rename of CURRENT
		}
		s, err := l.Commit(flush(i))
		if i == 5 || i == 7 || i == 8 {
			if cerr := l.Close(); err == nil && cerr != nil {
				t.Fatal(cerr)
			}
			// What is found is what a new process builds upon.
			l, s, err = manifest.Open(f, dir)
		}
		if err == nil {
			acked = s.LastSeq
		}
		if want := base.SeqNum(10 * i); acked != want && i != 3 && i != 6 {
			t.Fatalf("the program is at %d, want %d", acked, want)
		}
		note(acked, acked)
	}
}

// A power cut after any change to the disk leaves a database that can be opened
// with the state of the last acknowledged commit or of the one that was under way,
// and that can be used from there, also if recovery is cut short in turn.
//
// Promise (durability): The manifest survives a power cut at every change of the disk, also
// during recovery.
func TestPowerCutAnywhere(t *testing.T) {
	type promise struct {
		acked, tried base.SeqNum
		exists       bool
	}
	r := newRecorder()
	var promises []promise // by number of changes on disk
	now := promise{}
	program(t, r, func(acked, tried base.SeqNum) {
		for len(promises) < len(r.log) {
			promises = append(promises, now)
		}
		now = promise{acked, tried, tried > 0}
	})
	promises = append(promises, now)

	for n := range len(r.log) + 1 {
		for seed := range uint64(40) {
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			p := []float64{0, 1, 0.5, 0.9}[seed%4]
			name := fmt.Sprintf("cut after %d of %d changes, seed %d", n, len(r.log), seed)
			disk := r.crash(n, p, rnd)
			before := len(disk.log)
			want := promises[n]
			got, created := recoverAndUse(t, name, disk, !want.exists)
			if got != want.acked && got != want.tried {
				t.Fatalf("%s: found %d, want %d or %d", name, got, want.acked, want.tried)
			}
			disk = disk.crash(before+rnd.IntN(len(disk.log)-before+1), p, rnd)
			again, _ := recoverAndUse(t, name+", twice", disk, created)
			if again != got && again != 1000 {
				t.Fatalf("%s: after the second cut found %d, before %d", name, again, got)
			}
		}
	}
}

// recoverAndUse opens what a crash left and commits once more. It returns the
// LastSeq found, and whether it had to create the database.
func recoverAndUse(t *testing.T, name string, r *recorder, mayBeMissing bool,
) (found base.SeqNum, created bool) {
	t.Helper()
	exists, err := manifest.Exists(r, dir)
	if err != nil || (!exists && !mayBeMissing) {
		t.Fatalf("%s: exists %t, %v", name, exists, err)
	}
	var l *manifest.Log
	s := initState()
	if exists {
		l, s, err = manifest.Open(r, dir)
	} else {
		l, err = makeAndCreate(r, dir, s)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if s.LastSeq < 1000 {
		e := flush(99)
		e.LastSeq = 1000
		mustCommit(t, l, e)
	}
	check, _, err := manifest.Load(r, dir)
	if err != nil || check.LastSeq != 1000 {
		t.Fatalf("%s: after another commit: %v", name, err)
	}
	names, err := r.List(dir)
	ok(t, err)
	for _, o := range manifest.Orphans(check, l.Manifest(), names) {
		ok(t, r.Remove(filepath.Join(dir, o)))
	}
	return s.LastSeq, !exists
}
