package salvage

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/wal"
)

// logOps are the operations of one stripe that the log has: of each key now and then only the
// newest, since retained log may have very many. It is a cursor.Source, once sorted.
type logOps struct {
	entries []base.Entry
	ranges  []base.RangeTombstone
	room    int // for entries, before older ones of their keys go
	read    bool
}

// leastRoom is how many entries of a stripe are kept at least before older ones go.
const leastRoom = 1 << 10

func (l *logOps) add(e base.Entry) {
	if len(l.entries) >= max(l.room, leastRoom) {
		l.sort()
		l.entries = slices.CompactFunc(l.entries, func(a, b base.Entry) bool {
			return bytes.Equal(a.Key, b.Key)
		})
		l.room = 2 * len(l.entries)
	}
	l.entries = append(l.entries, e)
}

// since leaves out what is not newer than a commit, and returns how much that was.
func (l *logOps) since(seq base.SeqNum) int {
	before := len(l.entries) + len(l.ranges)
	l.entries = slices.DeleteFunc(l.entries, func(e base.Entry) bool { return e.Seq <= seq })
	l.ranges = slices.DeleteFunc(l.ranges, func(t base.RangeTombstone) bool { return t.Seq <= seq })
	return before - len(l.entries) - len(l.ranges)
}

// Err implements cursor.Source.
func (l *logOps) Err() error { return nil }

// Rows implements cursor.Source.
func (l *logOps) Rows() []base.Entry {
	if l.read {
		return nil
	}
	l.read = true
	return l.entries
}

// sort orders the entries by key, the newest version first; of two writes to a key in one
// commit the later one comes first, and wins.
func (l *logOps) sort() {
	slices.Reverse(l.entries)
	slices.SortStableFunc(l.entries, func(a, b base.Entry) int {
		return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(b.Seq, a.Seq))
	})
}

// ReadLog collects the operations of the log: of an intact one exactly those that opening the
// database would replay; of a damaged one all that are intact. It also decides which SSTs
// that the manifest does not know are read.
func (r *Repair) ReadLog() error {
	if err := r.readLog(); err != nil {
		return err
	}
	return r.addNewer()
}

func (r *Repair) readLog() error {
	o := wal.Options{FS: r.in, Dir: r.src, DBID: r.dbid}
	if r.state != nil {
		entries := r.Report.Entries
		r.lastSeq = r.state.LastSeq
		tail, err := wal.Recover(o, wal.SegmentNum(r.state.LogStart), max(r.state.LogSeq, 1),
			func(_ wal.SegmentNum, seq base.SeqNum, payload []byte) error {
				return r.addRecord(seq, payload)
			})
		if err == nil && tail.LastSeq < r.state.LastSeq {
			err = corrupt.New(tail.Segment.FileName(), tail.Offset, "end of log",
				r.state.LastSeq, tail.LastSeq)
		}
		if err == nil {
			r.lastSeq, r.Report.LogRecords, r.logWhole = tail.LastSeq, tail.Records, true
			return nil
		}
		if !errors.Is(err, corrupt.ErrCorrupt) && !vfs.Unreadable(err) {
			return err
		}
		r.loseLog(err)
		for i := range r.log {
			r.log[i], r.flushed[i] = logOps{}, logOps{}
		}
		r.Report.Entries = entries
	}
	return r.salvageLog(o)
}

func (r *Repair) loseLog(err error) {
	r.lose(Loss{File: fileOf(err, r.src), Offset: offsetOf(err), What: "log", Stripe: -1, Err: err})
}

// salvageLog takes every record that is intact, and finds the gaps between them.
func (r *Repair) salvageLog(o wal.Options) error {
	var seqs []base.SeqNum
	from := wal.SegmentNum(0)
	if r.state != nil {
		from = wal.SegmentNum(r.state.LogStart)
	}
	rep, err := wal.Salvage(o, from, func(seq base.SeqNum, payload []byte) error {
		seqs = append(seqs, seq)
		return r.addRecord(seq, payload)
	})
	if err != nil {
		return err
	}
	r.Report.LogRecords = rep.Records
	if rep.Apart > 0 {
		r.Doubt("%d log segments do not lead up to the newest and are left out: files hold what is"+
			" in them, unless a segment in between is lost", rep.Apart)
	}
	for _, err := range rep.Damage {
		r.loseLog(err)
	}
	slices.Sort(seqs)
	if len(seqs) > 0 {
		r.firstLogged = seqs[0]
	}
	end := max(r.lastSeq, rep.LastSeq, rep.Synced)
	at := end + 1 // the first commit that must be in the log
	if r.state != nil {
		at = max(r.state.LogSeq, 1)
	} else if len(seqs) > 0 {
		at = seqs[0]
	}
	r.lastSeq = end
	for _, seq := range append(seqs, end+1) {
		if seq > at {
			r.gap = seq - 1
			r.lose(Loss{
				File: "log", Offset: -1, What: "commits", Stripe: -1,
				FirstCommit: uint64(at), LastCommit: uint64(seq - 1),
				Err: corrupt.New("log", -1, "log", at, seq),
			})
		}
		at = max(at, seq+1)
	}
	return nil
}

// doubtBeginning notes, when no manifest says where the log has to begin, that between what
// the files hold and its first record there may have been more of it.
func (r *Repair) doubtBeginning() {
	first := r.firstLogged
	if first == 0 {
		first = r.lastSeq + 1
	}
	if r.state == nil && first > r.lastFiled+1 {
		r.Doubt("commits %d to %d are neither in the log nor in a file: they may be lost, with the"+
			" first segments of the log, or have been deleted", r.lastFiled+1, first-1)
	}
}

// addRecord adds the operations of a record to those of their stripes.
func (r *Repair) addRecord(seq base.SeqNum, payload []byte) error {
	ops := wal.NewOpReader(bytes.Clone(payload))
	var op wal.Op
	for {
		more, err := ops.Next(&op)
		if err != nil || !more {
			return err
		}
		pk := op.PK
		if op.Kind == base.KindDeleteRange {
			pk = kv.PKOf(op.Start)
		}
		id := keycodec.Stripe(pk)
		l := &r.log[id]
		if r.state != nil && seq <= r.state.Stripes[id].FlushedSeq {
			l = &r.flushed[id]
		} else {
			r.Report.Entries++
		}
		if op.Kind == base.KindDeleteRange {
			l.ranges = append(l.ranges, base.RangeTombstone{Start: op.Start, End: op.End, Seq: seq})
			continue
		}
		l.add(base.Entry{
			Key:   keycodec.AppendOrdered(nil, keycodec.Key{PK: op.PK, SK: op.SK}),
			Value: op.Value, Seq: seq, Expiry: op.Expiry, Kind: op.Kind,
		})
	}
}
