package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// The rules of recovery. "Valid" for a header: magic, checksum, version, database
// and number (from the file name) are right. "Valid" for a record: tag, length and
// checksum are right.
//
//  1. Segments below `from` are ignored.
//  2. The walk starts at the highest segment with a valid header whose base is not
//     above fromSeq. If there is none, what is needed is missing: an error, unless
//     nothing was needed (from = 0) and rule 7 finds nothing.
//  3. In a segment, records are read until the first that is not valid or does not
//     have the next sequence number; it starts at Y.
//  4. The walk continues in the first later segment with a valid header that says:
//     the previous segment is this one, it ended at Y, and my base is the next
//     sequence number. A marker right before Y may be left out of it. If there is no
//     such segment, the log ends at (this segment, Y).
//  5. A log that ends below fromSeq-1 is damaged: those records were synced before
//     the manifest said so.
//  6. Everything beyond the end is searched at every 8th byte: the rest of the last
//     segment and all later ones, whatever state their headers are in.
//  7. A valid record there that says "synced up to C", with C above the last good
//     sequence number, proves that synced records are lost: an error that names
//     the file and the offset of the end. Nothing has been changed.
//  8. Otherwise what follows the end was never synced: a torn tail, which Open cuts
//     before it appends.
//
// Why rule 2 does not simply start at `from`: segments are removed one by one, and
// a crash may undo or lose any of the removals.
//
// The limit: the last records before a crash, which no later record, marker or
// manifest edit speaks of, look like unsynced ones if they are damaged.
// Open, Close and syncs write a marker for that reason.

// Tail says where the valid log ends. The zero Tail is the end of a log that has
// never been opened.
type Tail struct {
	Segment   SegmentNum  // last segment, or 0
	Offset    int64       // where its records end, with the marker after the last
	LastSeq   base.SeqNum // of the last record
	TornBytes int64       // of recognisable records beyond the end; 0 after a clean end
	Records   int64       // records that were given to apply

	recovered bool
	keep      []*segment   // the chain that was walked, oldest first
	drop      []SegmentNum // files that are not part of it
	highest   SegmentNum   // number of any file seen
	synced    base.SeqNum  // highest sequence number that the log says was durable
	records   int64        // Offset without the marker
}

// candidate is a file that looks like a segment.
type candidate struct {
	num    SegmentNum
	h      header
	raw    [segmentHeader]byte
	rawLen int
	size   int64
	bad    error // why h is not valid, a *corrupt.Error
}

// Recover replays the log and returns where it ends. It calls apply, in order, for
// every record from fromSeq on; payload is valid during the call only, and an error
// of apply ends the recovery and is returned as it is. From is the first segment
// that the manifest says is needed (see Log.FirstSegment), 0 if the log may be empty.
//
// Recover changes nothing on disk. Damage gives a *corrupt.Error; records before the
// damage may have been applied by then.
func Recover(o Options, from SegmentNum, fromSeq base.SeqNum,
	apply func(seg SegmentNum, seq base.SeqNum, payload []byte) error) (Tail, error) {
	r := &recovery{o: o, fromSeq: max(fromSeq, 1), apply: apply}
	if err := r.list(from); err != nil {
		return Tail{}, err
	}
	r.tail.recovered = true
	r.tail.LastSeq = r.fromSeq - 1
	start := -1
	for i, c := range r.files {
		if c.bad == nil && c.h.base <= r.fromSeq {
			start = i
		}
	}
	if start < 0 {
		if from != 0 {
			return Tail{}, r.missing(from)
		}
		for _, c := range r.files {
			r.tail.drop = append(r.tail.drop, c.num)
		}
		return r.result(r.scanFrom(-1))
	}
	return r.result(r.walk(start))
}

// result returns what Recover returns.
func (r *recovery) result(err error) (Tail, error) {
	if err != nil && !r.o.Beside {
		return Tail{}, err
	}
	return r.tail, err
}

// recovery is the state of one Recover call.
type recovery struct {
	o       Options
	fromSeq base.SeqNum
	apply   func(SegmentNum, base.SeqNum, []byte) error
	files   []candidate // from `from` on, ascending
	buf     []byte      // passed from reader to reader
	tail    Tail
}

// list finds the segments and reads their headers.
func (r *recovery) list(from SegmentNum) error {
	names, err := r.o.FS.List(r.o.Dir)
	if err != nil {
		return fmt.Errorf("list log segments: %w", err)
	}
	for _, name := range names {
		n, ok := ParseFileName(name)
		if !ok {
			continue
		}
		r.tail.highest = max(r.tail.highest, n)
		if n < from {
			r.tail.drop = append(r.tail.drop, n)
			continue
		}
		c := candidate{num: n}
		if err := r.readHeader(&c); r.gone(err) {
			continue
		} else if err != nil {
			return err
		}
		r.files = append(r.files, c)
	}
	slices.SortFunc(r.files, func(a, b candidate) int { return cmp.Compare(a.num, b.num) })
	return nil
}

// gone reports whether a file was removed since the directory was listed.
func (r *recovery) gone(err error) bool { return r.o.Beside && errors.Is(err, fs.ErrNotExist) }

// readHeader fills in c. It returns only what must stop the recovery at once: I/O
// errors, unknown versions, and segments of another database, which Open would remove.
func (r *recovery) readHeader(c *candidate) error {
	path := r.o.path(c.num)
	f, err := openReader(r.o.FS, path, r.buf)
	if err != nil {
		return err
	}
	h, raw, bad := f.header()
	c.h, c.size, c.rawLen, c.bad = h, f.size, copy(c.raw[:], raw), bad
	if bad == nil {
		c.bad = nameError(h.checkPlace(r.o.DBID, c.num), path)
	}
	var cerr error
	if r.buf, cerr = f.close(); cerr != nil {
		return cerr
	}
	foreign := bad == nil && h.dbid != r.o.DBID
	failed := bad != nil && !errors.Is(bad, corrupt.ErrCorrupt)
	if foreign || failed || errors.Is(bad, corrupt.ErrVersion) {
		return c.bad
	}
	return nil
}

// missing is the error of rule 2.
func (r *recovery) missing(from SegmentNum) error {
	path, got := r.o.path(from), "no such segment"
	for _, c := range r.files {
		if c.num == from && c.bad != nil {
			return c.bad
		}
		if c.bad == nil {
			got = fmt.Sprintf("segment %d, which starts at sequence number %d", c.num, c.h.base)
			break
		}
	}
	return corrupt.New(path, 0, "log",
		fmt.Sprintf("a segment that holds sequence number %d", r.fromSeq), got)
}

// walk follows the chain of segments from files[i] and checks what lies beyond.
func (r *recovery) walk(i int) error {
	for _, c := range r.files[:i] {
		r.tail.drop = append(r.tail.drop, c.num)
	}
	r.tail.LastSeq = r.files[i].h.base - 1
	for {
		if err := r.readSegment(&r.files[i]); err != nil {
			return err
		}
		next := r.successor(i)
		for j := i + 1; j < len(r.files) && (next < 0 || j < next); j++ {
			r.tail.drop = append(r.tail.drop, r.files[j].num)
		}
		if next < 0 {
			break
		}
		i = next
	}
	if r.tail.LastSeq+1 < r.fromSeq {
		why := fmt.Sprintf("the manifest needs the log up to %d", r.fromSeq-1)
		return r.damage(i, r.tail.Segment, why)
	}
	return r.scanFrom(i)
}

// successor returns the index of the segment that continues files[i], or -1.
func (r *recovery) successor(i int) int {
	for j := i + 1; j < len(r.files); j++ {
		c := &r.files[j]
		t := &r.tail
		if c.bad == nil && c.h.prev == t.Segment && c.h.base == t.LastSeq+1 &&
			(c.h.prevEnd == t.Offset || c.h.prevEnd == t.records) {
			return j
		}
	}
	return -1
}

// readSegment applies the records of one segment and moves the tail to their end.
func (r *recovery) readSegment(c *candidate) (err error) {
	f, err := openReader(r.o.FS, r.o.path(c.num), r.buf)
	if err != nil {
		return err
	}
	defer func() {
		var cerr error
		if r.buf, cerr = f.close(); err == nil {
			err = cerr
		}
	}()
	t, tag := &r.tail, c.h.tag()
	t.Segment, t.Offset, t.records = c.num, segmentHeader, segmentHeader
	for {
		h, payload, ok, err := f.record(t.Offset, tag)
		if err != nil {
			return err
		}
		switch {
		case !ok:
		case h.marker():
			ok = h.seq == t.LastSeq
		default:
			ok = h.seq == t.LastSeq+1
		}
		if !ok {
			break
		}
		t.synced = max(t.synced, h.synced())
		t.Offset += recordBytes(h.payloadBytes())
		if h.marker() {
			continue
		}
		t.LastSeq, t.records = h.seq, t.Offset
		if h.seq >= r.fromSeq {
			t.Records++
			if err := r.apply(c.num, h.seq, payload); err != nil {
				return err
			}
		}
	}
	t.keep = append(t.keep, &segment{num: c.num, path: r.o.path(c.num), size: f.size,
		useID: c.h.useID, tag: tag, base: c.h.base, last: t.LastSeq, end: t.Offset, durable: true})
	return nil
}

// scanFrom applies rules 6 to 8 beyond the end of the log, which is in files[i]; -1
// means that nothing was valid.
func (r *recovery) scanFrom(i int) error {
	if i >= 0 {
		tags := []uint32{r.files[i].h.tag()}
		if err := r.scan(i, &r.files[i], tags, r.tail.Offset); err != nil {
			return err
		}
	}
	for j := i + 1; j < len(r.files); j++ {
		c := &r.files[j]
		tags, err := r.tagsOf(c)
		if err == nil {
			err = r.scan(i, c, tags, segmentHeader)
		}
		if err != nil && !r.gone(err) {
			return err
		}
	}
	return nil
}

// tagsOf returns the tags that records of a segment beyond the end can have: by the
// use id in its header, valid or not, under the number of the file; under the number
// in a valid header (a file with the name of another); and, if the header is bad, the
// tag with which the first record checks out.
func (r *recovery) tagsOf(c *candidate) ([]uint32, error) {
	var tags []uint32
	if c.rawLen == segmentHeader {
		useID := decodeUseID(c.raw[:])
		tags = append(tags, makeTag(r.o.DBID, c.num, useID))
	}
	if h, err := decodeHeader(c.raw[:c.rawLen]); err == nil {
		if h.dbid == r.o.DBID && h.num != c.num {
			tags = append(tags, h.tag())
		}
		return tags, nil
	}
	f, err := openReader(r.o.FS, r.o.path(c.num), r.buf)
	if err != nil {
		return nil, err
	}
	b, err := f.view(segmentHeader, recordHeader)
	if err == nil && len(b) == recordHeader {
		tag := decodeRecordHead(b).tag
		var ok bool
		if _, _, ok, err = f.record(segmentHeader, tag); ok {
			tags = append(tags, tag)
		}
	}
	var cerr error
	r.buf, cerr = f.close()
	return tags, errors.Join(err, cerr)
}

// scan searches a file from off on for records with one of the tags. The log ends in
// files[end].
func (r *recovery) scan(end int, c *candidate, tags []uint32, off int64) (err error) {
	if len(tags) == 0 || off+recordHeader > c.size {
		return nil
	}
	f, err := openReader(r.o.FS, r.o.path(c.num), r.buf)
	if err != nil {
		return err
	}
	defer func() {
		var cerr error
		r.buf, cerr = f.close()
		err = errors.Join(err, cerr)
	}()
	first, torn := off, int64(0)
	// Records do not overlap, so the checksums of true ones cover the file once.
	budget := 4*c.size + windowBytes
	for {
		h, at, err := f.findTag(off, tags)
		if err != nil {
			return err
		}
		if at < 0 {
			break
		}
		off = at + recordAlign
		if n := h.payloadBytes(); h.seq > r.tail.LastSeq && n <= c.size-at-recordHeader {
			torn = max(torn, at+recordBytes(n)-first)
		}
		if h.synced() <= r.tail.LastSeq {
			continue
		}
		if budget -= recordHeader + h.payloadBytes(); budget < 0 {
			return corrupt.New(f.name, at, "log segment", "records that do not overlap", "overlap")
		}
		_, _, ok, err := f.record(at, h.tag)
		if err != nil {
			return err
		}
		if ok {
			why := fmt.Sprintf("record %d in %s at offset %d says that %d was synced",
				h.seq, c.num.FileName(), at, h.synced())
			return r.damage(end, c.num, why)
		}
	}
	r.tail.TornBytes += torn
	return nil
}

// damage is the error of rules 5 and 7; the proof was found in segment proof. It blames the
// header of the segment after the end if that header is bad while the segment before ends
// cleanly. End is -1 if no segment is valid.
func (r *recovery) damage(end int, proof SegmentNum, why string) error {
	want := fmt.Sprintf("sequence number %d (%s)", r.tail.LastSeq+1, why)
	if end < 0 {
		for _, c := range r.files {
			if c.bad != nil {
				return c.bad
			}
		}
		first := &r.files[0]
		return corrupt.New(r.o.path(first.num), 0, "log", want,
			fmt.Sprintf("a segment that starts at sequence number %d", first.h.base))
	}
	if end+1 < len(r.files) && r.tail.TornBytes == 0 && proof != r.tail.Segment {
		if next := &r.files[end+1]; next.bad != nil {
			var bad *corrupt.Error
			if errors.As(next.bad, &bad) {
				return corrupt.New(bad.File, bad.Offset, "log segment header",
					fmt.Sprintf("%s, to reach %s", bad.Want, want), bad.Got)
			}
		}
	}
	return corrupt.New(r.o.path(r.tail.Segment), r.tail.Offset, "log record", want,
		"no valid record and no segment that continues here")
}

// nameError fills in the file of a decoder's error.
func nameError(err error, file string) error {
	var c *corrupt.Error
	if errors.As(err, &c) && c.File == "" {
		c.File = file
	}
	return err
}
