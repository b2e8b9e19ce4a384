package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"sort"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Format: the file TIMES is a header, then entries, both little-endian. docs/format/history.md has
// the rules.
//
//	header                            entry
//	 0  8  magic "KSTNTIME"            0  8  seq
//	 8  4  version 1                   8  8  Unix milliseconds
//	12 16  database id                16  4  CRC-32C of database id, then bytes 0 to 16
//	28  4  CRC-32C of bytes 0 to 28
//
// An entry says that the commit seq was the newest at that time. So what has a lower or the same
// seq was made then or before, and all else after.

// On disk: never change.
const (
	timesName    = "TIMES"
	timesMagic   = "KSTNTIME"
	timesVersion = 1
	timesHeader  = 32
	timesEntry   = 20
)

// timesSyncEvery is how many entries may be lost with the power, timesForgetBytes how much of the
// file must be of commits that are forgotten before it is made shorter.
const (
	timesSyncEvery   = 16
	timesForgetBytes = 1 << 20
)

// leastLag is how long the clock must lag the time index, at least, to be believed.
const leastLag = time.Hour

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// times is the time index: which commit was the newest at a time. It is an aid: what is wrong with
// its file never fails the database.
type times struct {
	env      *Env
	file     vfs.File // or nil
	n        int64    // entries
	unsynced int
	broken   error // why the old file is not used
	last     entry
	idle     int64 // when last was still the newest, if later
	lagging  int64 // since when the clock has been earlier than last, by the clock; 0: it is not
}

// entry says that seq was the newest commit at a time.
type entry struct {
	seq base.SeqNum
	ms  int64
}

// open reads the file, or makes it. Entries of commits that a crash has undone are cut off.
func (t *times) open(env *Env) (err error) {
	t.env = env
	name := filepath.Join(env.Dir, timesName)
	if env.Store == nil {
		t.file, err = env.FS.Open(name)
	} else {
		t.file, err = env.FS.OpenReadWrite(name)
	}
	if err == nil {
		if err = t.load(); err == nil {
			return nil
		}
		t.broken = err
		err = errors.Join(err, t.close())
	}
	if env.Store == nil {
		return ignoreMissing(err)
	}
	return errors.Join(ignoreMissing(err), t.create(name, nil))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *times) load() error {
	var b [timesHeader]byte
	if _, err := t.file.ReadAt(b[:], 0); err != nil {
		return err
	}
	if want := t.header(); b != want {
		return corrupt.New(timesName, 0, "header of the time index",
			fmt.Sprintf("%x", want), fmt.Sprintf("%x", b))
	}
	size, err := t.file.Size()
	if err != nil {
		return err
	}
	// Entries are appended. Only of the last ones, which were not synced, some may be torn, or lost
	// with later ones there. Any number may be of commits that a power cut has undone.
	last := t.env.Visible()
	count := (size - timesHeader) / timesEntry
	from := count
	for whole := false; from > 0 && !whole; {
		from = max(0, from-2*timesSyncEvery)
		e, err := t.at(from)
		whole = err == nil && e.seq <= last
	}
	t.last = entry{}
	for t.n = from; t.n < count; t.n++ {
		e, err := t.at(t.n)
		if err != nil || e.seq > last || e.seq < t.last.seq || e.ms < t.last.ms {
			break
		}
		t.last = e
	}
	if t.n < count && t.env.Store != nil {
		_ = t.cut(t.n) // else they are written over, one by one
	}
	return nil
}

// cut removes the entries from one on, before others take their place.
func (t *times) cut(n int64) error {
	if err := t.file.Truncate(timesHeader + n*timesEntry); err != nil {
		return err
	}
	t.n = n
	return t.file.Sync()
}

func (t *times) header() (b [timesHeader]byte) {
	copy(b[:], timesMagic)
	binary.LittleEndian.PutUint32(b[8:], timesVersion)
	copy(b[12:], t.env.DBID[:])
	binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	return b
}

// create makes the file with the entries given, as they are in it.
func (t *times) create(name string, entries []byte) error {
	f, err := t.env.FS.Create(name)
	if err != nil {
		return err
	}
	h := t.header()
	if _, err = f.Write(append(h[:], entries...)); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = t.env.FS.SyncDir(t.env.Dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	t.file, t.n = f, int64(len(entries)/timesEntry)
	return nil
}

func (t *times) encode(e entry) (b [timesEntry]byte) {
	binary.LittleEndian.PutUint64(b[:], uint64(e.seq))
	binary.LittleEndian.PutUint64(b[8:], uint64(e.ms))
	crc := crc32.Update(crc32.Checksum(t.env.DBID[:], castagnoli), castagnoli, b[:16])
	binary.LittleEndian.PutUint32(b[16:], crc)
	return b
}

// at returns entry i.
func (t *times) at(i int64) (e entry, err error) {
	var b [timesEntry]byte
	if _, err := t.file.ReadAt(b[:], timesHeader+i*timesEntry); err != nil {
		return e, err
	}
	e.seq = base.SeqNum(binary.LittleEndian.Uint64(b[:]))
	e.ms = int64(binary.LittleEndian.Uint64(b[8:]))
	if t.encode(e) != b {
		return entry{}, corrupt.New(timesName, timesHeader+i*timesEntry, "entry of the time index",
			"a right checksum", "another")
	}
	return e, nil
}

// note adds an entry if there are commits after the last one. A clock that goes back does not,
// unless it lags for age: then it was ahead before, and what it said then is forgotten.
// Otherwise nothing would become old until the clock is there again, and would be kept for ever.
// Why not at once: it may be now that the clock is wrong, and all would be old when it is right.
func (t *times) note(seq base.SeqNum, ms int64, age time.Duration) {
	if t.file == nil {
		return
	}
	switch newest := max(t.last.ms, t.idle); {
	case ms >= newest:
		t.lagging = 0
	case t.lagging == 0 || ms < t.lagging:
		t.lagging = ms
	case ms-t.lagging >= age.Milliseconds():
		t.goBack(t.lagging)
	}
	ms = max(ms, t.last.ms, t.idle)
	if seq == t.last.seq {
		t.idle = ms
		return
	}
	if t.idle > t.last.ms && t.n > 0 {
		t.append(entry{t.last.seq, t.idle}) // the commits that follow are not older
	}
	t.append(entry{seq, ms})
}

// goBack removes the entries of after a time.
func (t *times) goBack(ms int64) {
	n := int64(sort.Search(int(t.n), func(i int) bool {
		e, err := t.at(int64(i))
		return err != nil || e.ms > ms
	}))
	if t.cut(n) != nil {
		return // the next note tries again
	}
	t.last, t.lagging = entry{}, 0
	if n > 0 {
		t.last, _ = t.at(n - 1)
	}
	t.idle = t.last.ms
}

func (t *times) append(e entry) {
	b := t.encode(e)
	if _, err := t.file.WriteAt(b[:], timesHeader+t.n*timesEntry); err != nil {
		return // the next entry takes its place
	}
	t.last, t.idle = e, e.ms
	t.n++
	if t.unsynced++; t.unsynced >= timesSyncEvery {
		_ = t.file.Sync()
		t.unsynced = 0
	}
}

// of returns a time at which a commit was there, as early as is known, or unknown.
func (t *times) of(seq base.SeqNum, unknown int64) int64 {
	if t.file == nil {
		return unknown
	}
	i := sort.Search(int(t.n), func(i int) bool {
		e, err := t.at(int64(i))
		return err != nil || e.seq >= seq
	})
	if e, err := t.at(int64(i)); int64(i) < t.n && err == nil {
		return e.ms
	}
	return unknown
}

// seqAt returns the newest commit that was there at a time for certain, and the time of the entry
// that says so; 0 if none is known.
func (t *times) seqAt(ms int64) (e entry) {
	if t.file == nil {
		return e
	}
	i := sort.Search(int(t.n), func(i int) bool {
		e, err := t.at(int64(i))
		return err != nil || e.ms > ms
	})
	if i > 0 {
		e, _ = t.at(int64(i - 1))
	}
	return e
}

// Moment says that a commit was the newest at a time, in Unix milliseconds.
type Moment struct {
	Seq base.SeqNum
	Ms  int64
}

// Latest returns the latest time that the clock or the time index says. What is later was said by a
// clock that was ahead, and is forgotten: see note.
func (h *History) Latest() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lookLocked()
	if h.times.n == 0 {
		return math.MaxInt64 // nothing is known
	}
	return max(h.env.NowMs(), h.times.last.ms, h.times.idle)
}

// Moments returns what is known of the times of commits: of those above one, up to another.
func (h *History) Moments(above, upTo base.SeqNum) (known []Moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &h.times
	if t.file == nil {
		return nil
	}
	i := sort.Search(int(t.n), func(i int) bool {
		e, err := t.at(int64(i))
		return err != nil || e.seq > above
	})
	for ; int64(i) < t.n; i++ {
		e, err := t.at(int64(i))
		if err != nil || e.seq > upTo {
			break
		}
		known = append(known, Moment{e.seq, e.ms})
	}
	return known
}

// forget makes the file shorter if much of it is of commits before oldest.
func (t *times) forget(oldest base.SeqNum) {
	if t.file == nil || t.n*timesEntry < 2*timesForgetBytes {
		return
	}
	drop := int64(sort.Search(int(t.n), func(i int) bool {
		e, err := t.at(int64(i))
		return err != nil || e.seq >= oldest
	}))
	if drop*timesEntry < timesForgetBytes || drop*2 < t.n {
		return
	}
	rest := make([]byte, (t.n-drop)*timesEntry)
	if n, err := t.file.ReadAt(rest, timesHeader+drop*timesEntry); n < len(rest) &&
		err != nil && !errors.Is(err, io.EOF) {
		return
	}
	name := filepath.Join(t.env.Dir, timesName)
	old, n := t.file, t.n
	if err := t.create(name+".tmp", rest); err != nil {
		return
	}
	if err := t.env.FS.Rename(name+".tmp", name); err != nil {
		_ = t.file.Close()
		t.file, t.n = old, n
		return
	}
	_ = old.Close()
}

func (t *times) close() error {
	if t.file == nil {
		return nil
	}
	var err error
	if t.unsynced > 0 {
		err = t.file.Sync()
	}
	err = errors.Join(err, t.file.Close())
	t.file = nil
	return err
}
