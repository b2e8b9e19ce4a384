package manifest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// TestSteps runs the stories in testdata/steps: every operation that a call makes, in order, and
// what a caller and the next program find if just that operation fails, or also all later ones.
// The argument "of" names the call, "after" what comes before it:
//
//	nothing   an empty directory
//	created   a database without an edit
//	flushed   two edits
//	long      a manifest that the next commit rewrites
//	torn      the last edit is cut
//	unsealed  the seal is missing
//	trailing  bytes follow the seal
//	linked    the manifest has a second name
//	copied    it has a second name, and the last edit is cut
//
// With "unwritten", the first write fails as well.
func TestSteps(t *testing.T) {
	datadriven.Walk(t, "testdata/steps", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var call, after string
			d.ScanArgs(t, "of", &call)
			d.ScanArgs(t, "after", &after)
			var out strings.Builder
			for at := int64(1); ; at++ {
				s := &steps{mem: vfs.NewMem(), unwritten: d.HasArg("unwritten"),
					plan: vfstest.FailPlan{
						At: at, Err: errIO, Lasting: d.HasArg("lasting"), Short: true,
					}}
				if d.HasArg("full") {
					s.plan.Err = vfs.ErrNoSpace
				}
				s.prepare(t, after)
				s.running = true
				err := s.call(t, call)
				s.running = s.plan.Lasting
				op, failed := s.plan.Failed()
				if failed {
					fmt.Fprintf(&out, "%v %s", op.Kind, filepath.Base(op.Name))
					if op.Len > 0 {
						fmt.Fprintf(&out, ", %d bytes at %d", op.Len, op.Offset)
					}
				} else {
					out.WriteString("nothing fails")
				}
				fmt.Fprintf(&out, ": %v\n%s", err, s.outcome(t))
				if !failed {
					return filepath.ToSlash(out.String())
				}
			}
		})
	})
}

// steps is a database on a disk that fails as planned.
type steps struct {
	mem     *vfs.MemFS
	plan    vfstest.FailPlan
	running bool // the plan counts
	log     *manifest.Log

	unwritten bool // the next write fails
}

func (s *steps) fs() vfs.FS {
	return vfstest.NewFault(s.mem, func(op vfstest.Op) error {
		if !s.running {
			return nil
		}
		if s.unwritten && op.Kind == vfstest.OpWriteAt {
			s.unwritten = false
			return &vfstest.ShortWriteError{N: int(op.Len) - 1, Err: s.plan.Err}
		}
		return s.plan.Hook(op)
	})
}

func (s *steps) prepare(t *testing.T, after string) {
	t.Helper()
	err := s.mem.MkdirAll(dir)
	if err == nil && after != "nothing" {
		s.log, err = manifest.Create(s.fs(), dir, initState())
	}
	ok(t, err)
	switch after {
	case "nothing", "created":
		return
	case "long":
		mustCommit(t, s.log, &manifest.Edit{Settings: make([]byte, 10_000)})
		return
	}
	mustCommit(t, s.log, flush(1))
	mustCommit(t, s.log, flush(2))
	b := read(t, s.mem, manifestPath(1))
	switch after {
	case "torn", "copied":
		write(t, s.mem, manifestPath(1), b[:len(b)-sealBytes-1])
	case "unsealed":
		write(t, s.mem, manifestPath(1), b[:len(b)-sealBytes])
	case "trailing":
		write(t, s.mem, manifestPath(1), append(b, "bytes"...))
	}
	if after == "linked" || after == "copied" {
		ok(t, s.mem.Link(manifestPath(1), "copy"))
	}
}

func (s *steps) call(t *testing.T, call string) (err error) {
	t.Helper()
	switch call {
	case "create":
		l, cerr := manifest.Create(s.fs(), dir, initState())
		if err = cerr; err == nil {
			s.log = l
		}
	case "checkpoint":
		err = manifest.WriteSnapshot(s.fs(), dir, initState())
	case "open": // as another process; the first one is gone
		s.running = false
		ok(t, s.log.Close())
		s.running = true
		s.log, _, err = manifest.Open(s.fs(), dir)
	case "commit":
		_, err = s.log.Commit(flush(3))
	case "close":
		err = s.log.Close()
		s.log = nil
	default:
		t.Fatalf("unknown call %s", call)
	}
	return err
}

// outcome is what is found on the disk, and what the next commit does.
func (s *steps) outcome(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	found := func() {
		if state, info, err := manifest.Load(s.mem, dir); err != nil {
			fmt.Fprintf(&b, " %v", err)
		} else {
			fmt.Fprintf(&b, " last seq %d, %d records, %d bytes, %d torn", state.LastSeq,
				info.Records, info.SizeBytes, info.TornBytes)
		}
		names, err := s.mem.List(dir)
		fmt.Fprintf(&b, " %v", names)
		ok(t, err)
	}
	b.WriteString(" ")
	found()
	if s.log != nil {
		fmt.Fprintf(&b, " in memory %d", s.log.State().LastSeq)
		_, err := s.log.Commit(flush(4))
		fmt.Fprintf(&b, "\n  commit: %v;", err)
		found()
		if err := s.log.Err(); err != nil {
			fmt.Fprintf(&b, "\n  later commits: %v", err)
		}
		if err := s.log.Close(); err != nil {
			fmt.Fprintf(&b, "\n  close: %v", err)
		}
		if _, err = s.log.Commit(flush(5)); !errors.Is(err, fs.ErrClosed) {
			fmt.Fprintf(&b, "\n  closed: %v", err)
		}
	}
	if n := s.mem.OpenFiles(); n != 0 {
		fmt.Fprintf(&b, "\n  %d files are open", n)
	}
	b.WriteByte('\n')
	return b.String()
}
