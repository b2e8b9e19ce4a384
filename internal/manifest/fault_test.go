package manifest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

var errIO = errors.New("input/output error")

// Every operation of a short program fails in turn, once or from then on, with an
// I/O error or a full disk. What is found afterwards must be the result of the
// commits that succeeded, plus at most one that failed as uncertain.
func TestEveryOperationFails(t *testing.T) {
	for _, cause := range []error{errIO, vfs.ErrNoSpace} {
		for _, lasting := range []bool{false, true} {
			for at := int64(1); ; at++ {
				p := &vfstest.FailPlan{
					At: at, Err: cause, Lasting: lasting, Short: true,
					Match: func(op vfstest.Op) bool { return op.Kind != vfstest.OpClose },
				}
				runFailing(t, fmt.Sprintf("operation %d, %v, lasting %t", at, cause, lasting), p)
				if _, failed := p.Failed(); !failed {
					break
				}
			}
		}
	}
}

func runFailing(t *testing.T, name string, p *vfstest.FailPlan) {
	t.Helper()
	mem := vfs.NewMem()
	var acked, uncertain base.SeqNum
	l, err := makeAndCreate(vfstest.NewFault(mem, p.Hook), dir, initState())
	if err != nil {
		// Nothing was promised, and the directory can be used.
		if ok, err := manifest.Exists(mem, dir); err != nil {
			t.Fatalf("%s: after failed create: %t, %v", name, ok, err)
		}
		return
	}
	for i := 1; i <= 6; i++ {
		s, err := l.Commit(flush(i))
		switch {
		case err == nil:
			acked, uncertain = s.LastSeq, 0
		case errors.Is(err, manifest.ErrUncertain):
			uncertain = base.SeqNum(10 * i)
		}
		if err != nil && !errors.Is(err, p.Err) {
			t.Fatalf("%s: cause is lost: %v", name, err)
		}
		if got := l.State().LastSeq; got != acked {
			t.Fatalf("%s: state %d in memory, acknowledged %d", name, got, acked)
		}
		got, _, lerr := manifest.Load(mem, dir)
		if lerr != nil {
			t.Fatalf("%s: load after commit %d (%v): %v", name, i, err, lerr)
		}
		if got.LastSeq != acked && got.LastSeq != uncertain {
			t.Fatalf("%s: found %d, acknowledged %d, uncertain %d",
				name, got.LastSeq, acked, uncertain)
		}
	}
	op, failed := p.Failed()
	isSync := op.Kind == vfstest.OpSync || op.Kind == vfstest.OpSyncDir
	_, err = l.Commit(flush(7))
	if !p.Lasting && !isSync && failed && err != nil {
		t.Fatalf("%s: after one failed %v: %v", name, op.Kind, err)
	}
	if isSync && failed && err == nil {
		t.Fatalf("%s: commits succeed after a failed %v", name, op.Kind)
	}
	_ = l.Close()
	if n := mem.OpenFiles(); n != 0 {
		t.Fatalf("%s: %d files left open", name, n)
	}
}

// A write that reports a failure may have reached the disk nevertheless. It is
// taken back, or the error says that its outcome is unknown.
func TestFailedWriteThatReachedTheFile(t *testing.T) {
	for _, truncate := range []error{nil, errIO} {
		mem := vfs.NewMem()
		broken := false
		l, err := makeAndCreate(vfstest.NewFault(mem, func(op vfstest.Op) error {
			switch {
			case broken && op.Kind == vfstest.OpWriteAt && op.Len > 17:
				return &vfstest.ShortWriteError{N: int(op.Len), Err: vfs.ErrNoSpace}
			case broken && op.Kind == vfstest.OpWriteAt:
				return vfs.ErrNoSpace
			case broken && op.Kind == vfstest.OpTruncate:
				return truncate
			}
			return nil
		}), dir, initState())
		ok(t, err)
		broken = true
		_, err = l.Commit(flush(1))
		s, _, lerr := manifest.Load(mem, dir)
		ok(t, lerr)
		if err == nil || errors.Is(err, manifest.ErrUncertain) != (s.LastSeq == 10) {
			t.Errorf("found %d after %v", s.LastSeq, err)
		}
		broken = false
		mustCommit(t, l, flush(2))
		s, _, err = manifest.Load(mem, dir)
		if err != nil || s.LastSeq != 20 || len(s.Stripes[1].Runs) != 0 {
			t.Errorf("after the next commit: %v, %v", s, err)
		}
		ok(t, l.Close())
	}
}

// A database can be opened while the disk is full.
func TestOpenOnFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 3)
	b := read(t, mem, manifestPath(1))
	write(t, mem, manifestPath(1), b[:len(b)-20])
	mem.SetCapacity(1)
	l, s, err := manifest.Open(mem, dir)
	if err != nil || s.LastSeq != 20 {
		t.Fatalf("open: %v", err)
	}
	ok(t, l.Close())
}
