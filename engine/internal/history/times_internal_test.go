package history

import (
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

var ok = testutil.OK

var testDBID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// timesEnv is an environment whose log has some commits.
func timesEnv(t *testing.T, commits int) *Env {
	t.Helper()
	fsys := vfs.NewMem()
	ok(t, fsys.MkdirAll("db"))
	log, err := wal.Open(wal.Options{FS: fsys, Dir: "db", DBID: testDBID}, wal.Tail{})
	ok(t, err)
	for range commits {
		_, err = log.Append(nil)
		ok(t, err)
	}
	t.Cleanup(func() { ok(t, log.Close()) })
	return &Env{FS: fsys, Dir: "db", DBID: testDBID, Log: log, Visible: log.LastSeq,
		Logger: slog.New(slog.DiscardHandler),
		Store:  func(map[string]string) error { return nil }}
}

// The time index finds, for a time, the newest commit that was there for certain, and for a
// commit a time at which it was there; a clock that goes back changes nothing.
//
// Promise (history): The time index never names a commit for a time before it was made.
func TestTimes(t *testing.T) {
	env := timesEnv(t, 30)
	var x times
	ok(t, x.open(env))
	for _, e := range []entry{{10, 1000}, {10, 2000}, {10, 9000}, {20, 10_000}, {21, 500},
		{30, 11_000}} {
		x.note(e.seq, e.ms, time.Hour)
	}
	check := func() {
		t.Helper()
		for ms, want := range map[int64]base.SeqNum{
			999: 0, 1000: 10, 8999: 10, 9999: 10, 10_000: 21, 10_999: 21, 11_000: 30, 1e9: 30,
		} {
			if got := x.seqAt(ms).seq; got != want {
				t.Errorf("at %d the newest commit is %d, want %d", ms, got, want)
			}
		}
		for seq, want := range map[base.SeqNum]int64{1: 1000, 10: 1000, 11: 10_000, 21: 10_000,
			22: 11_000, 30: 11_000, 31: -1} {
			if got := x.of(seq, -1); got != want {
				t.Errorf("commit %d was there at %d, want %d", seq, got, want)
			}
		}
	}
	check()
	ok(t, x.close())
	x = times{}
	ok(t, x.open(env))
	check()
	ok(t, x.close())
}

// A clock that was ahead is set right when it has lagged for long enough, by what it says; a
// shorter lag, or one with another step, changes nothing.
func TestTimesOfAClockAhead(t *testing.T) {
	env := timesEnv(t, 30)
	var x times
	ok(t, x.open(env))
	want := func(ms int64, seq base.SeqNum) {
		t.Helper()
		if got := x.seqAt(ms).seq; got != seq {
			t.Errorf("at %d the newest commit is %d, want %d", ms, got, seq)
		}
	}
	x.note(10, 1000, time.Second)
	x.note(11, 90_000, time.Second)
	x.note(12, 91_000, time.Second) // idle
	x.note(12, 95_000, time.Second)
	x.note(13, 2000, time.Second)
	x.note(14, 2999, time.Second)
	x.note(15, 1500, time.Second)
	x.note(16, 2499, time.Second)
	want(89_999, 10)
	x.note(17, 2500, time.Second)
	want(2499, 10)
	want(2500, 17)
	x.note(18, 2600, time.Second)
	want(89_999, 18)
	if ms := x.of(12, -1); ms != 2500 {
		t.Errorf("commit 12 was there at %d, want 2500", ms)
	}
	ok(t, x.close())
	x = times{}
	ok(t, x.open(env))
	want(2500, 17)
	want(89_999, 18)
	ok(t, x.close())
}

// What is wrong with the file costs knowledge, not the database: a torn end and entries of commits
// that a power cut has undone are cut off, a file of another database begins again.
func TestTimesAfterACrash(t *testing.T) {
	env := timesEnv(t, 30)
	var x times
	ok(t, x.open(env))
	x.note(10, 1000, time.Hour)
	x.note(20, 2000, time.Hour)
	x.append(entry{40, 3000}) // of a commit that is lost
	_, err := x.file.Write(make([]byte, timesHeader+3*timesEntry+7))
	ok(t, err)
	ok(t, x.close())
	reopen := func() {
		t.Helper()
		x = times{}
		if err := x.open(env); err != nil {
			t.Log(err)
		}
	}
	// The write above has zeroed it: begin again.
	reopen()
	if x.n != 0 {
		t.Fatalf("%d entries of a damaged file", x.n)
	}
	x.note(10, 1000, time.Hour)
	x.note(20, 2000, time.Hour)
	x.append(entry{40, 3000})
	f := x.file
	_, err = f.WriteAt([]byte("torn"), timesHeader+x.n*timesEntry)
	ok(t, err)
	ok(t, x.close())
	reopen()
	if x.last != (entry{20, 2000}) || x.seqAt(9000).seq != 20 {
		t.Fatalf("last entry %+v", x.last)
	}
	for i := range int64(100) { // also many of them, if nothing was synced for long
		x.append(entry{41, 3000 + i})
	}
	ok(t, x.close())
	reopen()
	size, err := x.file.Size()
	ok(t, err)
	if x.last != (entry{20, 2000}) || size != timesHeader+x.n*timesEntry {
		t.Fatalf("last entry %+v, %d bytes", x.last, size)
	}
	x.note(25, 4000, time.Hour)
	if x.seqAt(3500).seq != 20 || x.seqAt(4000).seq != 25 {
		t.Errorf("entries after a crash are lost")
	}
	ok(t, x.close())
	env.DBID[0]++
	reopen()
	if x.n != 0 {
		t.Error("entries of another database")
	}
	ok(t, x.close())
}

// A long file loses what is of forgotten commits. Another process that reads it goes on in the file
// that takes its place.
//
// Promise (history): A reader beside the writer knows the times of commits as the writer does.
func TestTimesForget(t *testing.T) {
	env := timesEnv(t, 1)
	var x times
	ok(t, x.open(env))
	const n = 2*timesForgetBytes/timesEntry + 10
	for i := range base.SeqNum(n) {
		x.append(entry{i + 1, int64(i) * 1000})
	}
	reader := &History{env: *env, limits: Limits{Versions: time.Hour}, stop: make(chan struct{})}
	reader.env.Store, reader.env.Visible = nil, func() base.SeqNum { return n + 1 }
	ok(t, reader.times.open(&reader.env))
	x.forget(n/2 - 5) // not worth it
	if x.n != n {
		t.Fatalf("%d entries", x.n)
	}
	x.forget(n - 10)
	if x.n != 11 || x.of(n-10, -1) != (n-11)*1000 || x.seqAt(1e12).seq != n {
		t.Fatalf("%d entries, commit %d at %d", x.n, n-10, x.of(n-10, -1))
	}
	info, err := env.FS.Stat(filepath.Join("db", timesName))
	ok(t, err)
	if info.SizeBytes != timesHeader+11*timesEntry {
		t.Errorf("%d bytes", info.SizeBytes)
	}
	x.append(entry{n + 1, n * 1000})
	if got := reader.Commit(time.UnixMilli(n * 1000)); got != n+1 {
		t.Errorf("the newest commit is %d for a reader, want %d", got, n+1)
	}
	ok(t, reader.Close())
	ok(t, x.close())
}

// The bytes of the file are those of docs/format/history.md.
func TestTimesFormat(t *testing.T) {
	env := timesEnv(t, 300)
	var x times
	ok(t, x.open(env))
	x.note(300, 1_750_000_000_123, time.Hour)
	b := make([]byte, timesHeader+timesEntry)
	_, err := x.file.ReadAt(b, 0)
	ok(t, err)
	ok(t, x.close())
	testutil.PageShows(t, "../../../docs/format/history.md", b)
}

// FuzzParsePosition: what is a position is written as it was read, or shorter.
func FuzzParsePosition(f *testing.F) {
	for _, s := range []string{"0", "4711", "4711.2", "4711.0@1f2e3d4c5b6a7988", "1.x", "@", "1@"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer testutil.Watch(s)()
		p, err := ParsePosition(s)
		if err != nil {
			return
		}
		if again, err := ParsePosition(p.String()); err != nil || again != p {
			t.Fatalf("%q is %+v, and %q is %+v, %v", s, p, p.String(), again, err)
		}
	})
}

// The time index is not closed while somebody asks for the time of a commit.
func TestCloseWhileThePastIsRead(t *testing.T) {
	env := timesEnv(t, 1)
	env.NowMs = func() int64 { return 1 }
	env.Keep = func(base.SeqNum, int64) {}
	var h atomic.Pointer[History]
	env.FS = vfstest.NewFault(env.FS, func(op vfstest.Op) error {
		if h := h.Load(); h != nil && op.Kind == vfstest.OpClose && h.mu.TryLock() {
			h.mu.Unlock()
			t.Error("a reader may ask")
		}
		return nil
	})
	made, err := New(*env, Limits{Versions: time.Hour, Floor: 1}, nil)
	ok(t, err)
	h.Store(made)
	ok(t, made.Close())
}
