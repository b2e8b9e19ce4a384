package stripe_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
)

// script runs one file of testdata/script. The commands:
//
//	write                    one commit per input line: put K V, ttl K V MS, del K,
//	                         delrange LO HI; several joined by ";" are one commit
//	overlay                  the same, into a transaction's memtable for scans
//	snapshot, release N      register the present, give it up
//	freeze, flush            flush freezes, writes and installs
//	start-flush, start-compact LO HI, install, discard
//	compact LO HI            runs [LO, HI)
//	get K [at=N]
//	scan [lo=] [hi=] [at=] [reverse] [overlay]
//	cursor NAME [as scan]    opens a cursor that stays open
//	next NAME [count], close NAME
//	changed-since K N, changed-in LO HI N
//	shape, files
//
// and those of runReads.
type script struct {
	*world
	overlay *memtable.Table
	writes  base.SeqNum
	pending *stripe.Output
	cursors map[string]*stepper
}

// overlayBase numbers uncommitted writes above all others.
const overlayBase base.SeqNum = 1 << 55

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		s := &script{cursors: map[string]*stepper{}}
		s.world = newWorld(t, vfs.NewMem())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			if out := s.run(t, d); out != "" {
				return strings.TrimRight(out, "\n") + "\n"
			}
			return "ok\n"
		})
	})
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "file-bytes":
		s.env.FileBytes = int64(s.number(s.arg(d, 0)))
	case "write":
		for line := range strings.Lines(d.Input) {
			s.commit(s.parse(line)...)
		}
		return fmt.Sprintf("at %d", s.seq)
	case "overlay":
		s.writeOverlay(d.Input)
	case "snapshot":
		return fmt.Sprintf("snapshot %d", s.snapshot())
	case "release":
		s.releaseSnapshot(base.SeqNum(s.number(s.arg(d, 0))))
	case "get":
		key := s.arg(d, 0)
		r, err := s.get(key, s.bounds(d).Snap)
		if err != nil || r == "" {
			return fmt.Sprintf("not found (%v)", err)
		}
		return r
	case "scan":
		var over *memtable.Table
		if d.HasArg("overlay") {
			over = s.overlay
		}
		rows, err := s.scan(s.bounds(d), over)
		ok(t, err)
		return listing(rows)
	case "cursor":
		c := new(stepper)
		ok(t, c.Open(s.s, s.bounds(d)))
		s.cursors[s.arg(d, 0)] = c
	case "next":
		return s.next(d)
	case "close":
		s.cursors[s.arg(d, 0)].Close()
	default:
		return s.maintain(t, d)
	}
	return ""
}

// maintain runs the commands that change or show the shape of the stripe.
func (s *script) maintain(t *testing.T, d *datadriven.TestData) string {
	var err error
	switch d.Cmd {
	case "freeze":
		return fmt.Sprint(s.freeze())
	case "flush":
		s.flush()
	case "compact":
		s.compact(s.number(s.arg(d, 0)), s.number(s.arg(d, 1)))
	case "start-flush":
		s.pending, err = s.startFlush()
		ok(t, err)
		if s.pending == nil {
			return "nothing to flush"
		}
	case "start-compact":
		s.pending, err = s.startCompaction(s.number(s.arg(d, 0)), s.number(s.arg(d, 1)))
		ok(t, err)
	case "install":
		ok(t, s.install(s.pending))
	case "discard":
		ok(t, stripe.Discard(s.pending))
	case "changed-since":
		key := []byte(s.arg(d, 0))
		seq, err := s.s.ChangedSince(key, hashOf(key), base.SeqNum(s.number(s.arg(d, 1))))
		ok(t, err)
		return fmt.Sprint(seq)
	case "changed-in":
		since := base.SeqNum(s.number(s.arg(d, 2)))
		key, seq, err := s.s.ChangedIn([]byte(s.arg(d, 0)), []byte(s.arg(d, 1)), since)
		ok(t, err)
		return fmt.Sprintf("%s %d", key, seq)
	case "shape":
		return s.shape()
	case "files":
		return listing(s.onDisk())
	default:
		out, known := s.runReads(t, d)
		if !known {
			t.Fatalf("unknown command %s", d.Cmd)
		}
		return out
	}
	return ""
}

func listing(words []string) string {
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}

func (s *script) next(d *datadriven.TestData) string {
	c := s.cursors[s.arg(d, 0)]
	n := 1
	if len(d.CmdArgs) > 1 {
		n = s.number(s.arg(d, 1))
	}
	var out []string
	for range n {
		if !c.Next() {
			out = append(out, fmt.Sprintf("end (%v)", c.Err()))
			break
		}
		out = append(out, row(c.Entry()))
	}
	return strings.Join(out, " ")
}

func (s *script) writeOverlay(input string) {
	s.overlay = memtable.New(memtable.Options{Seed: seed})
	for line := range strings.Lines(input) {
		for _, o := range s.parse(line) {
			s.writes++
			addTo(s.overlay, o, overlayBase+s.writes)
		}
	}
}

func addTo(t *memtable.Table, o op, seq base.SeqNum) {
	if o.kind == base.KindDeleteRange {
		t.DeleteRange(base.RangeTombstone{Start: []byte(o.key), End: []byte(o.end), Seq: seq})
		return
	}
	e := o.entry(seq)
	t.Put(e.Key, hashOf(e.Key), seq, e.Kind, e.Expiry, e.Value, 0)
}

// arg returns the positional argument i.
func (s *script) arg(d *datadriven.TestData, i int) string {
	s.t.Helper()
	if i >= len(d.CmdArgs) || len(d.CmdArgs[i].Vals) > 0 {
		s.t.Fatalf("%s: argument %d is missing", d.Pos, i)
	}
	return d.CmdArgs[i].Key
}

func (s *script) bounds(d *datadriven.TestData) stripe.Bounds {
	lo, hi, snap, reverse := "", "", s.seq, false
	for _, a := range d.CmdArgs {
		switch {
		case a.Key == "lo":
			lo = a.Vals[0]
		case a.Key == "hi":
			hi = a.Vals[0]
		case a.Key == "at":
			snap = base.SeqNum(s.number(a.Vals[0]))
		case a.Key == "reverse":
			reverse = true
		}
	}
	return bounds(lo, hi, snap, reverse)
}

func (s *script) number(text string) int {
	s.t.Helper()
	n, err := strconv.Atoi(text)
	ok(s.t, err)
	return n
}

// parse reads the operations of a commit.
func (s *script) parse(line string) (ops []op) {
	for text := range strings.SplitSeq(line, ";") {
		f := strings.Fields(text)
		switch {
		case len(f) == 3 && f[0] == "put":
			ops = append(ops, put(f[1], f[2]))
		case len(f) == 4 && f[0] == "ttl":
			o := put(f[1], f[2])
			o.kind, o.expiry = base.KindPutTTL, int64(s.number(f[3]))
			ops = append(ops, o)
		case len(f) == 2 && f[0] == "del":
			ops = append(ops, del(f[1]))
		case len(f) == 3 && f[0] == "delrange":
			ops = append(ops, delRange(f[1], f[2]))
		default:
			s.t.Fatalf("bad operation %q", text)
		}
	}
	return ops
}
