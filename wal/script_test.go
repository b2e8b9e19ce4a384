package wal_test

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

// script runs one file of testdata/script. Every command prints what it returns, the
// operations on each file, and what the log says about itself if that has changed. The
// commands:
//
//	open [segment=N] [recycle=N] [max=N] [from=N] [seq=N] [give=N]
//	                         recovers and opens; give is what MoreSpace has to give
//	append N...              records with payloads of N bytes, NxM is M of them
//	sync N, release N, first N, oldest, room N, prepare, drop-spares N, sleep D
//	pin NAME N, copy NAME, unpin NAME
//	fail KIND [NUM]          operations of a kind fail, in all files or in one; heal
//	describe N               what is in the file
//	capacity N, link N       N bytes more than now, 0 for no limit; a second name for N
//	close, kill              kill leaves the files as they are
//
// and those of runDamage.
type script struct {
	t     *testing.T
	mem   *vfs.MemFS
	o     wal.Options
	l     *wal.Log
	pins  map[string]*wal.Pinned
	saved image // see runDamage
	bad   badPart
	said  []string // about the log, last time
	give  int64    // what MoreSpace gives up

	failures atomic.Int32 // calls of OnFailure

	mu     sync.Mutex // guards what follows, which the hook uses
	ops    map[string][]fileOp
	fail   vfstest.OpKind
	failIn string
}

// fileOp is one operation, or several writes that follow each other.
type fileOp struct {
	kind    vfstest.OpKind
	off, to int64
	n       int
	from    string
}

func (o fileOp) String() string {
	switch o.kind {
	case vfstest.OpWriteAt, vfstest.OpWrite, vfstest.OpReadAt:
		text := fmt.Sprintf("%v %d..%d", o.kind, o.off, o.to)
		if o.n > 1 {
			text += fmt.Sprintf(" in %d", o.n)
		}
		return text
	case vfstest.OpAllocate, vfstest.OpTruncate:
		return fmt.Sprintf("%v %d", o.kind, o.to)
	case vfstest.OpRename:
		return "rename from " + o.from
	}
	return o.kind.String()
}

// closedCommands are those that need no open log.
const closedCommands = "open heal fail capacity link describe save damage apply flips cuts payload"

func TestScripts(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) { // all that goes on in the background ends
			s := &script{mem: vfs.NewMem(), pins: map[string]*wal.Pinned{}}
			ok(t, s.mem.MkdirAll("db"))
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				s.t, s.ops = t, map[string][]fileOp{}
				out := "no log is open\n"
				if s.l != nil || strings.Contains(closedCommands, d.Cmd) {
					out = s.run(d)
				}
				time.Sleep(settle)
				return out + s.operations() + s.state()
			})
			if s.l != nil {
				ok(t, s.l.Close())
			}
			if n := s.mem.OpenFiles(); n != 0 {
				t.Errorf("%d files are open", n)
			}
		})
	})
}

func short(name string) string {
	if n, ok := wal.ParseFileName(filepath.Base(name)); ok {
		return fmt.Sprint(n)
	}
	return name
}

// settle is how long a command goes on, at least: longer than a failing operation.
const settle = 10 * time.Microsecond

func (s *script) hook(op vfstest.Op) error {
	fails := s.note(op)
	if !fails {
		return nil
	}
	switch op.Kind {
	case vfstest.OpSync, vfstest.OpSyncDir, vfstest.OpClose: // no lock is held
		time.Sleep(settle / 2) // what goes on beside it comes first
	}
	return errBoom
}

// note writes an operation down and reports whether it is to fail.
func (s *script) note(op vfstest.Op) (fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := fileOp{kind: op.Kind, off: op.Offset, to: op.Offset + op.Len, n: 1}
	name := short(op.Name)
	if op.Kind == vfstest.OpRename {
		name, f.from = short(op.NewName), name
	}
	list := s.ops[name]
	if n := len(list); n > 0 && list[n-1].kind == f.kind && list[n-1].to == f.off && f.to > f.off {
		list[n-1].to, list[n-1].n = f.to, list[n-1].n+1
	} else {
		s.ops[name] = append(list, f)
	}
	return op.Kind == s.fail && (s.failIn == "" || s.failIn == name)
}

// operations returns what the files have seen since the beginning of the command.
func (s *script) operations() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.ops)) {
		fmt.Fprintf(&b, "  %s:", name)
		for i, op := range s.ops[name] {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, " %v", op)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// state returns what the log says about itself that it has not said before.
func (s *script) state() string {
	if s.l == nil {
		s.said = nil
		return ""
	}
	l := s.l
	head := fmt.Sprintf("last %d, synced %d, %d syncs, held %d of %d bytes", l.LastSeq(),
		l.SyncedSeq(), l.Syncs(), l.HeldBytes(), l.SizeBytes())
	if l.RemovalDue() {
		head += ", removal due"
	}
	if err := l.Err(); err != nil {
		head += fmt.Sprintf(", %v, reported %d times", err, s.failures.Load())
	}
	lines := []string{head + "\n"}
	for _, i := range l.Segments() {
		lines = append(lines, fmt.Sprintf("segment %d %s: %d of %d bytes, %d to %d\n", i.Num,
			i.State, i.UsedBytes, i.SizeBytes, i.FirstSeq, i.LastSeq))
	}
	before := s.said
	s.said = lines
	return strings.Join(slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return slices.Contains(before, line)
	}), "")
}

func (s *script) number(text string) int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	ok(s.t, err)
	return n
}

func (s *script) arg(d *datadriven.TestData, i int) string {
	s.t.Helper()
	if i >= len(d.CmdArgs) || len(d.CmdArgs[i].Vals) > 0 {
		s.t.Fatalf("%s: argument %d is missing", d.Pos, i)
	}
	return d.CmdArgs[i].Key
}

// said renders an error, or "ok".
func said(err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	return "ok\n"
}

func (s *script) run(d *datadriven.TestData) string {
	num := func(i int) int64 { return s.number(s.arg(d, i)) }
	switch d.Cmd {
	case "open":
		return s.open(d)
	case "append":
		return s.append(d)
	case "sync":
		return said(s.l.Sync(base.SeqNum(num(0))))
	case "release":
		return said(s.l.Release(base.SeqNum(num(0))))
	case "first":
		return fmt.Sprintf("segment %d\n", s.l.FirstSegment(base.SeqNum(num(0))))
	case "oldest":
		seg, last, ok := s.l.Oldest()
		return fmt.Sprintln(seg, last, ok)
	case "room":
		return said(s.l.MakeRoom(num(0)))
	case "prepare":
		s.l.Prepare()
	case "drop-spares":
		s.l.DropSpares(int(num(0)))
	case "sleep":
		pause, err := time.ParseDuration(s.arg(d, 0))
		ok(s.t, err)
		time.Sleep(pause)
	case "pin":
		p := s.l.Pin(wal.SegmentNum(num(1)))
		s.pins[s.arg(d, 0)] = p
		return fmt.Sprintf("%d files, %d bytes, last %d\n", p.Files(), p.Bytes(), p.LastSeq())
	case "unpin":
		return said(s.pins[s.arg(d, 0)].Unpin())
	case "copy":
		return s.copy(s.pins[s.arg(d, 0)])
	default:
		return s.runOutside(d, num)
	}
	return "ok\n"
}

// runOutside runs the commands that are about the files.
func (s *script) runOutside(d *datadriven.TestData, num func(int) int64) string {
	switch d.Cmd {
	case "fail", "heal":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fail, s.failIn = 0, ""
		if d.Cmd == "heal" {
			return "ok\n"
		}
		for s.fail.String() != s.arg(d, 0) {
			s.fail++
		}
		if len(d.CmdArgs) > 1 {
			s.failIn = s.arg(d, 1)
		}
	case "capacity":
		n := num(0)
		if n > 0 {
			n += s.mem.UsedBytes()
		}
		s.mem.SetCapacity(n)
	case "describe":
		return s.describe(wal.SegmentNum(num(0)))
	case "link":
		n := s.arg(d, 0)
		name := filepath.Join("db", wal.SegmentNum(num(0)).FileName())
		ok(s.t, s.mem.Link(name, filepath.Join("db", "twin"+n)))
	case "close":
		err := s.l.Close()
		s.l = nil
		return said(err)
	case "kill":
		img := snapshot(s.t, s.mem, "db")
		_ = s.l.Close() // it may have failed
		s.ops, s.l = map[string][]fileOp{}, nil
		s.mem = img.restore(s.t, s.o).FS.(*vfs.MemFS)
	default:
		out, known := s.runDamage(d)
		if !known {
			s.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
		}
		return out
	}
	return "ok\n"
}

// describe describes a segment and its records.
func (s *script) describe(n wal.SegmentNum) string {
	f, err := s.mem.Open(filepath.Join("db", n.FileName()))
	ok(s.t, err)
	var b strings.Builder
	ok(s.t, wal.Describe(f, &b))
	ok(s.t, f.Close())
	return b.String()
}

func (s *script) open(d *datadriven.TestData) string {
	from, seq := wal.SegmentNum(0), base.SeqNum(1)
	if s.l == nil && s.o.Dir == "" {
		s.o = wal.Options{Dir: "db", DBID: testDBID}
	}
	for _, a := range d.CmdArgs {
		n := s.number(a.Vals[0])
		switch a.Key {
		case "segment":
			s.o.SegmentBytes = n
		case "recycle":
			s.o.RecycleSegments = int(n)
		case "max":
			s.o.MaxRecordBytes = n
		case "from":
			from = wal.SegmentNum(n)
		case "seq":
			seq = base.SeqNum(n)
		case "give":
			s.give = n
		}
	}
	s.o.FS = vfstest.NewFault(s.mem, s.hook)
	use := uint64(0)
	s.o.UseID = func() uint64 { use++; return use }
	var b strings.Builder
	s.failures.Store(0)
	s.o.OnFailure = func(error) { s.failures.Add(1) }
	if s.give > 0 {
		s.o.MoreSpace = func(n int64) bool {
			if n > s.give {
				return false
			}
			s.give -= n
			s.mem.SetCapacity(s.mem.UsedBytes() + n)
			return true
		}
	}
	tail, err := wal.Recover(s.o, from, seq, func(wal.SegmentNum, base.SeqNum, []byte) error {
		return nil
	})
	if err != nil {
		return said(err)
	}
	fmt.Fprintf(&b, "segment %d ends at %d: last %d, %d records, %d torn\n", tail.Segment,
		tail.Offset, tail.LastSeq, tail.Records, tail.TornBytes)
	s.mu.Lock()
	s.ops = map[string][]fileOp{} // the reads of Recover
	s.mu.Unlock()
	if s.l, err = wal.Open(s.o, tail); err != nil {
		return b.String() + said(err)
	}
	return b.String()
}

func (s *script) append(d *datadriven.TestData) string {
	for i := range d.CmdArgs {
		size, times, _ := strings.Cut(s.arg(d, i), "x")
		n := int64(1)
		if times != "" {
			n = s.number(times)
		}
		record := bytes.Repeat([]byte{filler}, int(s.number(size)))
		for range n {
			if seq, err := s.l.Append(record); err != nil {
				return fmt.Sprintln(seq, err)
			}
			synctest.Wait()
		}
	}
	return "ok\n"
}

// copy copies a part of the log into an empty file system and shows what is there.
func (s *script) copy(p *wal.Pinned) string {
	mem, paced := vfs.NewMem(), int64(0)
	ok(s.t, mem.MkdirAll("copy"))
	dst := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSyncDir {
			return s.hook(op)
		}
		return nil
	})
	err := p.CopyTo(dst, "copy", func(n int64) error { paced += n; return nil })
	out := fmt.Sprintf("%d bytes, %s", paced, said(err))
	img := snapshot(s.t, mem, "copy")
	for _, name := range img.names() {
		out += fmt.Sprintf("copy of %s: %d bytes\n", short(name), len(img[name]))
	}
	return out
}
