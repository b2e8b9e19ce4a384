package local_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/testutil"
)

// residentEnv makes TestResidentChild do its work, in a directory.
const residentEnv = "KSTONE_RESIDENT_DIR"

// Goal: one number bounds what a process takes. Method: a process loads, overwrites, merges and
// reads several times as many bytes, at random and in order, sorts a table, and looks at its
// resident memory meanwhile.
//
// Promise (manners): With Options.Memory a process stays within that many bytes while it loads,
// merges, reads and sorts several times as many.
func TestResident(t *testing.T) {
	testutil.SlowUnderRace(t, "the detector takes memory itself")
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestResidentChild$", "-test.v")
	cmd.Env = append(os.Environ(), residentEnv+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// TestResidentChild is the process of TestResident.
func TestResidentChild(t *testing.T) {
	dir := os.Getenv(residentEnv)
	if dir == "" {
		t.Skip("the other process of TestResident")
	}
	const memory = 64 << 20
	peak := watchResident(t)
	db, err := local.OpenDir(ctx, dir+"/db", &local.Options{Engine: &engine.Options{
		Memory: memory, Durability: engine.Process}})
	ok(t, err)
	e := local.Engine(db)
	n := testutil.Effort(100_000, 20_000_000)
	r, value := testutil.Rand(t), make([]byte, 200)
	key := func(i int) engine.Key {
		return engine.Key{PK: fmt.Appendf(nil, "%016x", uint64(i)*0x9e3779b1)}
	}
	for i := range n + n/2 {
		for j := range len(value) / 2 {
			value[j] = byte(r.Uint32())
		}
		ok(t, e.Put(key(i%n), value))
	}
	for range n / 10 {
		_, err := e.Get(key(r.IntN(n)))
		ok(t, err)
	}
	for _, err := range e.Scan(ctx, engine.Scan{Limit: n / 2}) {
		ok(t, err)
	}
	s := sql.Open(db)
	_, err = s.Exec(ctx, "CREATE TABLE t (id BIGINT PRIMARY KEY, b BIGINT, c TEXT)")
	ok(t, err)
	for i := range n / 1000 {
		var b strings.Builder
		b.WriteString("INSERT INTO t VALUES ")
		for j := range 100 {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "(%d,%d,'%0200d')", i*100+j, r.Uint32(), j)
		}
		_, err = s.Exec(ctx, b.String())
		ok(t, err)
	}
	rows, err := s.Query(ctx, "SELECT id, c FROM t ORDER BY b")
	ok(t, err)
	for _, err := range rows.All() {
		ok(t, err)
	}
	ok(t, e.Compact(ctx))
	ok(t, db.Close())
	most := peak()
	t.Logf("at most %d KiB", most)
	if most > memory>>10 {
		t.Errorf("the process has taken %d KiB, more than %d", most, memory>>10)
	}
}

// watchResident looks at the resident memory that is not of files, which are read again, every 5
// milliseconds, and returns a function that ends it and returns the most in KiB.
func watchResident(t *testing.T) (peak func() int) {
	var wg sync.WaitGroup
	most, done := 0, make(chan struct{})
	wg.Go(func() {
		for {
			status, err := os.ReadFile("/proc/self/status")
			if err != nil {
				t.Error(err)
				return
			}
			_, anon, _ := strings.Cut(string(status), "RssAnon:")
			var kib int
			if _, err := fmt.Sscan(anon, &kib); err != nil {
				t.Error(err)
				return
			}
			most = max(most, kib)
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() int {
		close(done)
		wg.Wait()
		return most
	}
}
