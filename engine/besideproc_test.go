package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// The processes of TestReadersAndWriterAreKilled. Commit n is known from n alone: it makes all
// counters n, sets one of the slots, adds an item to a window and deletes the item that leaves it,
// now and then with a range. So a reader can check all that it sees by itself.
const (
	besideDirEnv  = "KSTONE_BESIDE_DIR"
	besideRoleEnv = "KSTONE_BESIDE_ROLE"

	besideCounters = 24
	besideSlots    = 97
	besideWindow   = 60
)

func besideCommit(n int) *engine.Batch {
	b := engine.NewBatch()
	num := []byte(strconv.Itoa(n))
	add := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	for i := range besideCounters {
		add(b.Put(pk(fmt.Sprintf("counter%d", i)), num))
	}
	pad := append(num, bytes.Repeat([]byte{' '}, 700)...)
	add(b.Put(pk(fmt.Sprintf("slot%d", n%besideSlots)), pad))
	add(b.Put(pksk("window", fmt.Sprintf("%09d", n)), pad))
	if n%50 == 0 {
		old := engine.SKLess(fmt.Appendf(nil, "%09d", n-besideWindow+1))
		add(b.DeleteRange([]byte("window"), old))
	}
	return b
}

// besideState is what the database has after commit n.
func besideState(n int) map[string]string {
	want := map[string]string{}
	if n == 0 {
		return want
	}
	for i := range besideCounters {
		want[fmt.Sprintf("counter%d/", i)] = strconv.Itoa(n)
	}
	for m := n; m > 0 && m > n-besideSlots; m-- {
		want[fmt.Sprintf("slot%d/", m%besideSlots)] = strconv.Itoa(m)
	}
	for m := n; m > 0 && m > n/50*50-besideWindow; m-- {
		want[fmt.Sprintf("window/%09d", m)] = strconv.Itoa(m)
	}
	return want
}

// besideNumber reads everything at one moment and returns the number of the last commit.
func besideNumber(db *engine.DB) (n int, err error) {
	s, err := db.Snapshot()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	got := map[string]string{}
	for it, err := range s.Scan(context.Background(), engine.Scan{Unordered: true}) {
		if err != nil {
			return 0, err
		}
		name := string(it.Key.PK) + "/" + string(it.Key.SK)
		got[name] = strings.TrimRight(string(it.Value), " ")
	}
	n, _ = strconv.Atoi(got["counter0/"])
	want := besideState(n)
	for k, v := range want {
		if got[k] != v {
			return n, fmt.Errorf("after commit %d %s is %q, want %q", n, k, got[k], v)
		}
	}
	if len(got) != len(want) {
		return n, fmt.Errorf("after commit %d there are %d items, want %d", n, len(got), len(want))
	}
	key := pk(fmt.Sprintf("counter%d", n%besideCounters))
	if v, err := s.Get(key); err != nil && n > 0 || n > 0 && string(v) != strconv.Itoa(n) {
		return n, fmt.Errorf("after commit %d Get has %q, %w", n, v, err)
	}
	return n, nil
}

func besideChild() error {
	dir := os.Getenv(besideDirEnv)
	switch os.Getenv(besideRoleEnv) {
	case "writer":
		return besideWriter(dir)
	case "watcher":
		return besideWatcher(dir)
	case "event writer":
		return besideEvents(dir, engine.Options{MemtableBytes: 1 << 20, LogBytes: 8 << 20,
			FlushRecords: 40, MaxRuns: 2}, besideEventWriter)
	case "event reader":
		return besideEvents(dir, engine.Options{ReadOnly: true, CacheBytes: 1 << 20},
			besideEventReader)
	}
	return besideReader(dir)
}

// besideWriter commits until it is killed, or its input ends.
func besideWriter(dir string) error {
	db, err := engine.Open(dir, &engine.Options{
		Durability: engine.Process, MemtableBytes: 1 << 20, LogBytes: 8 << 20, FlushRecords: 40,
		MaxRuns: 2,
	})
	if err != nil {
		return err
	}
	n, err := besideNumber(db)
	if err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	stop := besideStop()
	for {
		n++
		if err := db.Apply(context.Background(), besideCommit(n)); err != nil {
			return err
		}
		if n%200 == 0 {
			fmt.Println("written", n)
		}
		select {
		case <-stop:
			return db.Close()
		default:
		}
	}
}

// besideStop is closed when the input of the process ends.
func besideStop() chan struct{} {
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	return stop
}

// besideReader reads until it is killed, or its input ends: what it sees never goes back.
func besideReader(dir string) error {
	last, looks := 0, 0
	stop := besideStop()
	for {
		db, err := engine.Open(dir, &engine.Options{
			ReadOnly: true, CacheBytes: 1 << 20, MaxOpenFiles: 32,
		})
		if errors.Is(err, engine.ErrNotExist) {
			continue // the writer is not there yet
		}
		if err != nil {
			return fmt.Errorf("open after commit %d: %w", last, err)
		}
		for range 1 + looks%7 {
			n, err := besideNumber(db)
			if err != nil {
				return fmt.Errorf("reader: %w", err)
			}
			if n < last {
				return fmt.Errorf("commit %d is seen after %d", n, last)
			}
			last = n
			if looks++; looks%10 == 0 {
				fmt.Println("read", looks, last)
			}
		}
		if err := db.Close(); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

// besideProcess is a child under way.
type besideProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	errs  *bytes.Buffer
	done  chan struct{} // closed when its output has ended
}

func startBeside(t testing.TB, dir, role string, lines chan<- string) *besideProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), besideDirEnv+"="+dir, besideRoleEnv+"="+role)
	p := &besideProcess{cmd: cmd, errs: new(bytes.Buffer), done: make(chan struct{})}
	cmd.Stderr = p.errs
	out, err := cmd.StdoutPipe()
	ok(t, err)
	p.stdin, err = cmd.StdinPipe()
	ok(t, err)
	ok(t, cmd.Start())
	go func() {
		defer close(p.done)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return p
}

// end waits for a process that was killed or was asked to end.
func (p *besideProcess) end(t testing.TB, killed bool) {
	t.Helper()
	if killed {
		_ = p.cmd.Process.Kill()
	}
	_ = p.stdin.Close()
	<-p.done
	err := p.cmd.Wait()
	if p.errs.Len() > 0 || err != nil && !killed {
		t.Fatalf("%v: %s", err, p.errs)
	}
}

// One process writes, flushes and merges, others read, and all are killed at any moment: nothing
// that a reader sees is damaged, half there, or older than what it has seen. In the end no file is
// left over.
//
// Promise (readers): Kills of writer and readers leave nothing behind, and no reader sees damage
// that does not exist, half a commit, or a step back.
func TestReadersAndWriterAreKilled(t *testing.T) {
	testutil.SlowUnderRace(t, "starts processes")
	dir := filepath.Join(t.TempDir(), "db")
	lines := make(chan string, 1<<16)
	random := testutil.Rand(t)
	roles := []string{"writer"}
	for range testutil.Effort(2, 8) {
		roles = append(roles, "reader")
	}
	var all []*besideProcess
	for _, role := range roles {
		all = append(all, startBeside(t, dir, role, lines))
	}
	kills, read := testutil.Effort(3, 2000), 0
	for range kills {
		for range 3 {
			if line := <-lines; strings.HasPrefix(line, "read") {
				read++
			}
		}
		i := random.IntN(len(all))
		all[i].end(t, true)
		all[i] = startBeside(t, dir, roles[i], lines)
	}
	for _, p := range all {
		p.end(t, false)
	}
	db, err := engine.Open(dir, &engine.Options{ReadOnly: true})
	ok(t, err)
	n, err := besideNumber(db)
	ok(t, err)
	mustClose(t, db)
	db = openDir(t, dir, nil)
	if m, err := besideNumber(db); m != n || err != nil {
		t.Errorf("the writer has commit %d, %v, a reader %d", m, err, n)
	}
	ok(t, second(db.Verify(ctx, nil)))
	mustClose(t, db)
	db = openDir(t, dir, &engine.Options{ReadOnly: true})
	files := db.Metrics().Total.Files
	ssts, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(ssts) != files {
		t.Errorf("%d SSTs, %d of them in use (%v)", len(ssts), files, err)
	}
	mustClose(t, db)
	t.Logf("%d kills, %d commits, %d times 10 reads of everything", kills, n, read)
}
