package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// # Following a log
//
// A process reads the log while another one appends to it.
//
// The naive way: Recover, again and again.
//
// Why it fails: it reads everything each time. And it takes a record that is being written for
// damage: it searches what lies beyond, where the writer has appended meanwhile, and a valid record
// there says that what it has not found was synced.
//
// The way taken: a Follower stands at the end of the last record that was valid. What has a wrong
// checksum there is looked at again with the next call: it is being written, or is nothing yet.
// Damage that Recover has found counts only if the Follower finds no further record either: all
// records before a valid one are whole, as they are written one after the other.
//
// Where a segment ends shows in the header of the next one, which says where the records of this
// one end. Once that header is valid, all records of this segment are whole. A marker is no end:
// the next record takes its place.
//
// A segment that the follower reads may be released and recycled, if no lease keeps it. Its records
// do not pass any more, since they have another tag: ErrLost.
//
// Invariants: records come in the order of their sequence numbers, without a gap. A Follower
// changes nothing.

// ErrLost is matched by the error of a Follower whose next records have been released.
var ErrLost = errors.New("the log has gone on without its reader")

// Follower reads the records of a log that another process appends to. Its methods are not called
// concurrently.
type Follower struct {
	o     Options
	seg   SegmentNum // 0: none yet
	tag   uint32
	file  *segmentReader // nil: to be opened
	off   int64          // where the next record of seg is
	last  base.SeqNum    // of the last record
	claim base.SeqNum    // up to which records are durable, as far as the log says
	// unsynced are the segments with records above claim.
	unsynced []SegmentNum
	idle     int  // calls in a row that have found nothing
	found    bool // the call before has returned a record
	around   bool // the directory is to be looked at
	walked   []walked
}

// walked is a segment that a follower has gone on to, since the last Grow of a view.
type walked struct {
	s      *segment
	before int64 // where the records of the segment before it end
}

// listEvery is how many idle calls pass between two looks at the whole directory, for a segment
// with another number than the next: that of an Open. The first look is with the second idle call:
// beside a writer that commits, calls are not idle.
const listEvery = 4

// Follow returns a follower of the log from a Tail on. The caller closes it.
func Follow(o Options, t Tail) *Follower {
	f := &Follower{o: o, seg: t.Segment, off: t.records, last: t.LastSeq, claim: t.synced}
	for _, s := range t.keep {
		f.tag = s.tag
		if s.last > f.claim {
			f.unsynced = append(f.unsynced, s.num)
		}
	}
	if t.Segment != 0 && !slices.Contains(f.unsynced, f.seg) {
		f.unsynced = append(f.unsynced, f.seg)
	}
	return f
}

// LastSeq returns the sequence number of the last record that was read.
func (f *Follower) LastSeq() base.SeqNum { return f.last }

// Segment returns the segment of the next record, 0 if there is no segment yet.
func (f *Follower) Segment() SegmentNum { return f.seg }

// SyncedSeq returns the sequence number up to which records are durable, as far as is known.
func (f *Follower) SyncedSeq() base.SeqNum { return min(f.claim, f.last) }

// Durable says that records up to a sequence number are.
func (f *Follower) Durable(seq base.SeqNum) { f.claim = max(f.claim, seq) }

// LookAround makes Next look at the next segment, and at the whole directory, before it finds
// nothing: what another process has begun since is not missed.
func (f *Follower) LookAround() { f.around = true }

// followBytes is the first read of a look at what was appended: about what a busy writer appends
// between two looks.
const followBytes = 4 << 10

// Next returns the next record; ok is false if there is none by now. The error matches ErrLost if
// there never will be one here. After records, only the call that follows a false ok, or
// LookAround, finds a segment that has begun meanwhile: most looks at a log that is written find
// records, and need not open another file.
func (f *Follower) Next() (rec Record, ok bool, err error) {
	for {
		h, payload, ok, err := f.look()
		if err != nil {
			return rec, false, err
		}
		if ok {
			f.claim = max(f.claim, h.synced())
		}
		if ok && !h.marker() {
			if h.seq != f.last+1 {
				return rec, false, fmt.Errorf("%w: commit %d follows %d", ErrLost, h.seq, f.last)
			}
			f.off += recordBytes(h.payloadBytes())
			f.last, f.idle, f.found = h.seq, 0, true
			return Record{Seq: h.seq, Payload: payload}, true, nil
		}
		found := f.found
		f.found = false
		if found && !f.around {
			return rec, false, nil
		}
		if more, err := f.advance(); err != nil || !more {
			return rec, false, err
		}
	}
}

// look returns what is at the next record's place, if it is valid.
func (f *Follower) look() (h recordHead, payload []byte, ok bool, err error) {
	if f.seg == 0 {
		return h, nil, false, nil
	}
	if f.file == nil {
		f.file, err = openReader(f.o.FS, f.o.path(f.seg), nil)
		if errors.Is(err, fs.ErrNotExist) {
			return h, nil, false, fmt.Errorf("%w: %w", ErrLost, err)
		}
		if err != nil {
			return h, nil, false, err
		}
	}
	if f.file.holds(f.off, recordHeader) {
		h, payload, ok, err = f.file.record(f.off, f.tag)
		if ok && !h.marker() || err != nil {
			return h, payload, ok, err
		}
	}
	if f.file.size, err = f.file.file.Size(); err != nil {
		return h, nil, false, err
	}
	f.file.buf = f.file.buf[:0] // it is older than the file
	h, payload, ok, err = f.file.record(f.off, f.tag)
	if !ok || h.marker() {
		f.file.most = followBytes
	}
	return h, payload, ok, err
}

// advance goes on to the next segment, and reports whether there may be a record now.
func (f *Follower) advance() (more bool, err error) {
	h, ok, err := f.next()
	if err != nil || !ok {
		return false, err
	}
	if f.seg != 0 && h.prevEnd != f.off {
		rec, _, ok, err := f.look() // what was appended before the next segment was begun
		switch {
		case err != nil:
			return false, err
		case ok && !rec.marker():
			return true, nil
		case !ok || h.prevEnd != f.off+recordHeader:
			return false, fmt.Errorf("%w: segment %d ends at %d, its records at %d", ErrLost, f.seg,
				h.prevEnd, f.off)
		}
	}
	if h.base != f.last+1 {
		return false, fmt.Errorf("%w: segment %d begins with commit %d, after %d", ErrLost, h.num,
			h.base, f.last)
	}
	if err := f.Close(); err != nil {
		return false, err
	}
	if f.claim >= f.last {
		f.unsynced = f.unsynced[:0]
	}
	f.walked = append(f.walked, walked{&segment{num: h.num, path: f.o.path(h.num),
		useID: h.useID, tag: h.tag(), base: h.base, durable: true}, h.prevEnd})
	f.seg, f.tag, f.off, f.idle = h.num, h.tag(), segmentHeader, 0
	f.unsynced = append(f.unsynced, f.seg)
	return true, nil
}

// next returns the header of the segment that follows, if there is one.
func (f *Follower) next() (h header, ok bool, err error) {
	if f.seg != 0 {
		if h, ok, err = f.follows(f.seg + 1); err != nil || ok {
			return h, ok, err
		}
	}
	f.idle++
	if f.idle%listEvery != 2 && f.seg != 0 && !f.around {
		return h, false, nil
	}
	names, err := f.o.FS.List(f.o.Dir)
	if err != nil {
		return h, false, err
	}
	own, later := f.seg == 0, false
	for _, name := range names {
		n, is := ParseFileName(name)
		own = own || is && n == f.seg
		if is && n > f.seg {
			if h, ok, err = f.follows(n); err != nil || ok {
				return h, ok, err
			}
			later = true
		}
	}
	f.around = false
	if !own && later {
		err = fmt.Errorf("%w: segment %d was removed", ErrLost, f.seg)
	}
	return h, false, err
}

// follows returns the header of a segment if it is valid and names the present one before it.
func (f *Follower) follows(n SegmentNum) (h header, ok bool, err error) {
	file, err := f.o.FS.Open(f.o.path(n))
	if errors.Is(err, fs.ErrNotExist) {
		return h, false, nil
	}
	if err != nil {
		return h, false, err
	}
	var b [segmentHeader]byte
	got, err := file.ReadAt(b[:], 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, file.Close()); err != nil || got < segmentHeader {
		return h, false, err
	}
	h, bad := decodeHeader(b[:])
	return h, bad == nil && h.checkPlace(f.o.DBID, n) == nil && h.prev == f.seg, nil
}

// Sync makes durable what was read: a writer at a lower level may never do it. It does what a sync
// of the writer does, for the blocks that the system has not written yet.
func (f *Follower) Sync() error {
	upTo := f.last
	for _, n := range f.unsynced {
		file, err := f.o.FS.OpenReadWrite(f.o.path(n)) // some systems sync only what may be written
		if errors.Is(err, fs.ErrPermission) {
			file, err = f.o.FS.Open(f.o.path(n))
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // released, hence synced
		}
		if err == nil {
			err = errors.Join(file.Sync(), file.Close())
		}
		if err != nil {
			return fmt.Errorf("sync log segment: %w", err)
		}
	}
	f.Durable(upTo)
	if f.unsynced = f.unsynced[:0]; f.seg != 0 {
		f.unsynced = append(f.unsynced, f.seg)
	}
	return nil
}

// Pin returns the log from a segment on up to the last record that was read, to be copied. The
// caller keeps the files by a lease, until it calls Unpin.
func (f *Follower) Pin(from SegmentNum) (*Pinned, error) {
	names, err := f.o.FS.List(f.o.Dir)
	if err != nil {
		return nil, err
	}
	p := &Pinned{log: &Log{o: f.o}, last: f.last}
	for _, name := range names {
		n, is := ParseFileName(name)
		if !is || n < from || n > f.seg {
			continue
		}
		end := f.off
		if n < f.seg { // all of its records are there
			info, err := f.o.FS.Stat(f.o.path(n))
			if err != nil {
				return nil, err
			}
			end = info.SizeBytes
		}
		p.parts = append(p.parts, part{&segment{num: n, pins: 1}, end})
	}
	return p, nil
}

// Close closes what the follower has open.
func (f *Follower) Close() error {
	if f.file == nil {
		return nil
	}
	_, err := f.file.close()
	f.file = nil
	return err
}
