package stripe

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// ErrClosed is returned by operations on a closed stripe.
var ErrClosed = errors.New("stripe: closed")

// Env is what the stripes of a database share. All but Describe never changes.
type Env struct {
	FS    vfs.FS
	Dir   string
	DBID  [16]byte
	Seed  uint64 // of base.Hash
	Cache *cache.Cache
	Files *cache.Files
	Stats *sst.Stats

	BlockBytes int
	FileBytes  int64
	// RunFiles is about how many files of less than half of FileBytes a run may have.
	RunFiles int
	// LargeValue is the least size of values that are kept apart, in value files; 0 for none.
	LargeValue int
	FilterBits int
	PartBlocks int // see sst.WriterOptions; 0: its default
	// BottomCodec compresses the runs that merges with the oldest run write, UpperCodec
	// all others: flushes and merges of young runs.
	UpperCodec, BottomCodec sst.Codec

	// Describe, once it is set, describes what is put for the column zones of new files, see
	// sst.WriterOptions. It is called by several goroutines.
	Describe atomic.Pointer[func(items *zone.Items, b *zone.ColumnsBuilder)]

	// Memory is the memory of the memtables of all stripes. A stripe counts what
	// Freeze and Install change; a writer adds what Put and DeleteRange return,
	// so that a commit can do it once.
	Memory *atomic.Int64

	// NextFile returns a file number that was never used before.
	NextFile func() base.FileNum
	// Create makes an empty file for an SST. The file may be longer than what is
	// written to it: the writer truncates it at the end.
	Create func(name string) (vfs.File, error)
	// Obsolete is called with the name of a file that no reader needs any more and that a
	// manifest edit has removed. It deletes the file.
	Obsolete func(name string)
	// Due, if not nil, is called when the reads of a stripe have paid for a merge of its runs.
	Due func()
	// Littered, if not nil, is called by reads that find Stripe.Littered true.
	Littered func()
	// Full, if not nil, reports whether the disk is full: then only merges for the garbage of
	// values rewrite any, so that the others are small.
	Full func() bool
}

// Stripe is one LSM tree. See the package comment for who may call what.
type Stripe struct {
	id  base.StripeID
	env *Env

	write sync.Mutex // serialises writers; held by Lock

	view atomic.Pointer[View] // nil once closed

	values  *valueFiles
	rent    atomic.Int64 // see Stripe.pay
	passed  atomic.Int64 // see Stripe.pass; since the last Freeze
	install sync.Mutex   // guards replacing view
	views   uint64       // guarded by install: how many there were
	prefix  []byte       // expected common key prefix of the next memtable
	_       [16]byte     // keeps neighbours in the engine's array off this cache line
}

// Init prepares a stripe with the runs the manifest lists.
func (s *Stripe) Init(id base.StripeID, env *Env, runs []*manifest.Run) {
	s.id, s.env, s.values = id, env, &valueFiles{uses: map[base.FileNum]valueUse{}}
	v := &View{Active: s.newTable()}
	for _, r := range runs {
		v.Runs = append(v.Runs, s.openRun(r, nil))
	}
	s.publish(v)
}

// ID returns the stripe's number.
func (s *Stripe) ID() base.StripeID { return s.id }

// Lock takes the stripe's write mutex.
//
// Why: it orders the commits of one stripe in the log and in the memtable alike.
// Locks of several stripes are taken in ascending order of their numbers.
func (s *Stripe) Lock() { s.write.Lock() }

// TryLock takes the write mutex if it is free, and reports whether it has.
func (s *Stripe) TryLock() bool { return s.write.TryLock() }

// Unlock releases the write mutex.
func (s *Stripe) Unlock() { s.write.Unlock() }

// View returns the current view without a reference, nil once closed. Its memtables
// are always readable; its files may be released at any time.
func (s *Stripe) View() *View { return s.view.Load() }

// Acquire returns the current view with a reference on it, nil once closed.
func (s *Stripe) Acquire() *View {
	for {
		v := s.view.Load()
		base.Yield()
		if v == nil || v.acquire() {
			return v
		}
	}
}

// Bare reports whether there is nothing in the stripe at all: nothing for any snapshot that was
// taken before. It is false of one that is closed.
func (s *Stripe) Bare() bool {
	v := s.view.Load()
	return v != nil && len(v.Runs) == 0 && len(v.Frozen) == 0 && !v.Active.HasKeys()
}

// keys returns how many keys were put into memtables, each as often as it was new to one. As long
// as it stays the same, no key has come to the stripe that it did not have. open is false once it
// is closed.
func (s *Stripe) keys() (n uint64, open bool) {
	v := s.view.Load()
	if v == nil {
		return 0, false
	}
	base.Yield()
	return v.keysBefore + v.Active.Keys(), true
}

// lacks reports whether no memtable and no run has a version of a key of [lo, hi), where nil hi is
// no bound. It is false of a stripe that is closed.
func (s *Stripe) lacks(lo, hi []byte) (bool, error) {
	v := s.Acquire()
	if v == nil {
		return false, nil
	}
	defer v.Release()
	lacks := true
	v.tables(func(t *memtable.Table) {
		key, found := t.Bound(nil, lo, false)
		lacks = lacks && (!found || hi != nil && bytes.Compare(key, hi) >= 0)
	})
	for i := 0; i < len(v.Runs) && lacks; i++ {
		from, to := v.Runs[i].overlap(lo, hi)
		for _, f := range v.Runs[i].Files[from:to] {
			if has, err := f.Reader.Has(lo, hi); has || err != nil {
				return false, err
			}
		}
	}
	return lacks, nil
}

// Put adds a version to the active memtable and returns by how many bytes the
// memtable grew. Requires: Lock held, seq above all earlier ones of the stripe.
func (s *Stripe) Put(e *base.Entry, hash uint64, horizon base.SeqNum) int64 {
	t := s.view.Load().Active
	before := t.Bytes()
	t.Put(e.Key, hash, e.Seq, e.Kind, e.Expiry, e.Value, horizon)
	return t.Bytes() - before
}

// DeleteRange adds a range tombstone to the active memtable and returns by how many
// bytes the memtable grew. Requires: as for Put.
func (s *Stripe) DeleteRange(t base.RangeTombstone) int64 {
	a := s.view.Load().Active
	before := a.Bytes()
	a.DeleteRange(t)
	return a.Bytes() - before
}

// Get finds the newest version of key at or below snap: a value or a tombstone of
// any kind, expired or not. It reports false if there is none or a range tombstone
// covers it. On success e.Seq, Kind, Expiry and Value are set; Value is immutable
// and stays valid. Without success e.Seq is the number of the range tombstone, or 0.
func (s *Stripe) Get(key []byte, hash uint64, snap base.SeqNum, e *base.Entry) (bool, error) {
	return s.newest(key, hash, snap, 0, true, e)
}

// Find is Get that reads no large value: e is Large then, and has the reference to it.
func (s *Stripe) Find(key []byte, hash uint64, snap base.SeqNum, e *base.Entry) (bool, error) {
	return s.newest(key, hash, snap, 0, false, e)
}

// ChangedSince reports whether key has a version or a covering range tombstone above
// seq, and which. Requires: Lock held (else the answer is stale at once).
func (s *Stripe) ChangedSince(key []byte, hash uint64, seq base.SeqNum) (base.SeqNum, error) {
	var e base.Entry
	if _, err := s.newest(key, hash, base.MaxSeqNum, seq, false, &e); err != nil || e.Seq <= seq {
		return 0, err
	}
	return e.Seq, nil
}

// newest is Get, or Find without values, that does not read the runs that have nothing above a
// number: it may not find a version at or below that.
func (s *Stripe) newest(
	key []byte, hash uint64, snap, above base.SeqNum, values bool, e *base.Entry,
) (bool, error) {
	for {
		v := s.view.Load()
		if v == nil {
			return false, ErrClosed
		}
		base.Yield()
		found, err := v.newest(key, hash, snap, above, values, e)
		if err == nil {
			return found, nil
		}
		// The files of a view without reference may go away under us, or even belong
		// to a new file already, which checksums reveal: a newer view has their content.
		if s.view.Load() == v {
			return false, err
		}
	}
}

// # Range deletes
//
// A range tombstone and a version of a key are ordered by their sequence numbers. A batch has one
// number for all its operations, and tombstones and versions of a memtable lie in two structures.
//
// The naive way: insert the operations of a batch one by one, freeze the memtable when it is full,
// and let a tombstone delete every version up to its number, or every version below it.
//
// Why it fails: one number does not order the operations of a batch. If a tombstone deletes its
// own number, {delete [a,z), put k} loses k. If it spares it, {put k, delete [a,z)} keeps k. And a
// number must not be split between two memtables:
//
//	F: freezes the active memtable for a flush, releases the lock
//	C: commit 7 inserts its tombstone; the memtable is full and is frozen, too
//	F: writes all frozen memtables; the edit says that the stripe is flushed up to 7
//	C: puts k@7 into the next memtable
//	   the process is killed; replay skips commit 7 in this stripe; k is lost
//
// The way taken: a tombstone spares its own number (uncovered). The engine's seal drops operations
// that a later range delete of the same batch covers, before the log has them, so that replay
// needs no rule. The engine freezes before a commit has its number (FreezeBeneath, makeRoom) or
// after all of it is inserted (limitRanges, limitRecords), always under Lock.
//
// A lookup walks the sources from the newest to the oldest, and asks the tombstones of a source
// before its versions. It keeps the highest number of a tombstone over the key, cover. The first
// version it finds is the newest, and counts unless it is below cover. Cover above the MaxSeq of
// the next run ends the walk, since everything from there on is deleted.
//
// The two looks at an active memtable are two moments. At a snapshot nothing changes between them
// that the reader may see; under Lock nothing changes at all. At base.MaxSeqNum a writer may come
// between. The engine accepts an answer only if its number, of version or tombstone, was complete
// before the lookup; then both looks have seen it, and what came later is not in the answer.
//
// Invariants: a number is in one source of a stripe, or in none. A tombstone covers nothing in a
// newer source. Of equal numbers the version wins, here as in merges (rangedel, compaction.Merge).

func (v *View) newest(
	key []byte, hash uint64, snap, above base.SeqNum, values bool, e *base.Entry,
) (bool, error) {
	var cover base.SeqNum
	e.Seq, e.Large = 0, false
	if found, done := getTable(v.Active, key, hash, snap, e, &cover); done {
		return found, nil
	}
	for _, t := range v.Frozen {
		if found, done := getTable(t, key, hash, snap, e, &cover); done {
			return found, nil
		}
	}
	for _, r := range v.Runs {
		if r.MaxSeq <= above { // so have all from here on
			break
		}
		if r.HasRanges {
			c, err := r.coverSeq(key, snap)
			if err != nil {
				return false, err
			}
			cover = max(cover, c)
		}
		if cover > r.MaxSeq {
			break // everything from here on is deleted
		}
		i := r.find(key)
		if i == len(r.Files) {
			continue
		}
		base.Yield()
		found, err := r.Files[i].Reader.Find(key, hash, snap, e)
		if err != nil {
			return false, err
		}
		if !found {
			continue
		}
		if found = uncovered(e, cover); found && e.Large && values {
			e.Large = false
			e.Value, err = r.Files[i].Reader.CachedValue(e.Value)
		}
		return found, err
	}
	e.Seq = cover
	return false, nil
}

// uncovered reports whether the version e is newer than the range tombstone over its
// key; if not, e takes the tombstone's number.
func uncovered(e *base.Entry, cover base.SeqNum) bool {
	if e.Seq >= cover {
		return true
	}
	e.Seq = cover
	return false
}

// getTable looks the key up in one memtable; done means that the search is over.
func getTable(t *memtable.Table, key []byte, hash uint64, snap base.SeqNum, e *base.Entry,
	cover *base.SeqNum,
) (found, done bool) {
	if t.HasRanges() {
		*cover = max(*cover, t.CoverSeq(key, snap))
	}
	base.Yield()
	if t.Get(key, hash, snap, e) {
		return uncovered(e, *cover), true
	}
	return false, false
}

// Close makes every later operation fail with ErrClosed and gives up the current
// view; files close when the last cursor on them does.
func (s *Stripe) Close() {
	s.install.Lock()
	defer s.install.Unlock()
	if v := s.view.Swap(nil); v != nil {
		v.Release()
	}
}

// publish makes v the current view. Requires: install held, or s is not in use yet.
func (s *Stripe) publish(v *View) {
	v.refs.Store(1)
	s.views++
	v.number = s.views
	v.sumValues()
	for _, r := range v.Runs {
		r.refs.Add(1)
	}
	if old := s.view.Swap(v); old != nil {
		old.Release()
	}
}

func (s *Stripe) newTable() *memtable.Table {
	return memtable.New(memtable.Options{Prefix: s.prefix, Seed: s.env.Seed})
}

func (s *Stripe) openFile(m *base.FileMeta) *File {
	return &File{
		Meta: m,
		Reader: sst.NewReader(sst.ReaderOptions{
			FS:    s.env.FS,
			Dir:   s.env.Dir,
			Meta:  m,
			Cache: s.env.Cache,
			Files: s.env.Files,
			Seed:  s.env.Seed,
			DBID:  s.env.DBID,
			Stats: s.env.Stats,

			ValueFile: s.values.open,
		}),
		env: s.env, values: s.values,
	}
}

// String identifies the stripe in messages.
func (s *Stripe) String() string { return fmt.Sprintf("stripe %03d", s.id) }
