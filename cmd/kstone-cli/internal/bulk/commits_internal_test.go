package bulk

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/table"
)

// Rows that are too large together are written once each, and make the commits of later ones small
// for a while.
func TestCommitsGrowAgain(t *testing.T) {
	const group, room = 500, 1000
	var c commits
	written, calls := 0, 0
	write := func(size int) {
		err := c.write(make([][]expr.Value, group), func(rows [][]expr.Value) (int, error) {
			calls++
			half := len(rows) / 2
			if len(rows)*size > room { // the first half is a commit of its own
				if half*size > room {
					return 0, store.ErrTooLarge
				}
				written += half
				return half, store.ErrTooLarge
			}
			written += len(rows)
			return len(rows), nil
		})
		ok(t, err)
	}
	write(1)
	write(room)
	if calls = 0; written != 2*group {
		t.Errorf("%d rows are written, want %d", written, 2*group)
	}
	for range 20 {
		write(1)
	}
	if calls > 100 {
		t.Errorf("%d commits for %d small rows after large ones", calls, 20*group)
	}
}

// remoteTables returns tables of a store on another machine.
func remoteTables(t *testing.T) (*remotetest.Store, *cli.Tables) {
	s := remotetest.New(false, 100)
	db, err := table.OpenStore(t.Context(), s, nil)
	ok(t, err)
	t.Cleanup(func() {
		db.Close()
		s.Close()
	})
	return s, &cli.Tables{DB: db, SQL: sql.Open(db)}
}

// A row that the store does not take is rejected, and all others are imported.
func TestImportOfARowThatIsTooLarge(t *testing.T) {
	ctx := context.Background()
	s, all := remoteTables(t)
	ok(t, execAll(ctx, all, "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"))
	most := s.Limits().ValueBytes
	text := fmt.Sprintf("id,v\n1,a\n2,%s\n3,c\n", strings.Repeat("x", most+1))
	var out strings.Builder
	a := &cli.App{Out: &out, Err: io.Discard}
	f := ImportFlags{Format: "csv", Delimiter: ",", table: "t"}
	err := importTable(ctx, a, all, &f, "file", strings.NewReader(text), -1)
	if err == nil || !strings.HasPrefix(out.String(), "3 read, 2 written") ||
		!strings.Contains(out.String(), "1 rejected") {
		t.Errorf("%s%v", out.String(), err)
	}
}

// A dump has all tables as they are at one moment.
func TestDumpOfOneMoment(t *testing.T) {
	ctx := context.Background()
	_, all := remoteTables(t)
	ok(t, execAll(ctx, all, "CREATE TABLE a (id INT PRIMARY KEY, v TEXT);"+
		"CREATE TABLE b (id INT PRIMARY KEY);"+
		"INSERT INTO a VALUES (1, repeat('x', 40000)), (2, repeat('y', 40000))"))
	out := &firstWrite{then: func() {
		other := &cli.Tables{DB: all.DB, SQL: sql.Open(all.DB)}
		ok(t, execAll(ctx, other, "INSERT INTO b VALUES (3)"))
	}}
	ok(t, dump(ctx, &cli.App{Out: out, Err: io.Discard}, all, nil))
	text := out.String()
	if out.then != nil || !strings.Contains(text, "yyy") || strings.Contains(text, "(3)") {
		t.Errorf("the dump has %d bytes, and of b: %s", len(text), text[max(0, len(text)-100):])
	}
	if all.SQL.InTransaction() {
		t.Error("the transaction of the dump is open")
	}
}

// firstWrite calls a function after its first write.
type firstWrite struct {
	strings.Builder
	then func()
}

func (w *firstWrite) Write(b []byte) (int, error) {
	n, err := w.Builder.Write(b)
	if w.then != nil {
		w.then()
		w.then = nil
	}
	return n, err
}

// Large rows are copied a few at a time: several chunks are in memory together.
func TestChunksOfLargeRows(t *testing.T) {
	ctx := context.Background()
	a, all := inMemory(t)
	ok(t, execAll(ctx, all, fmt.Sprintf("CREATE TABLE t (id INT PRIMARY KEY, v BYTES, l TEXT[]);"+
		"INSERT INTO t VALUES (1, X'%[1]s', []), (2, X'%[1]s', []), (3, X'', ['%[1]s']), "+
		"(4, X'%[1]s', [])", strings.Repeat("00", CopyBytes/2))))
	snap, err := all.Snapshot(ctx)
	ok(t, err)
	defer snap.Close()
	c := &copier{Target: Target{app: a, dest: all}, snap: snap}
	ok(t, c.open(ctx, "t"))
	ok(t, c.chunks(ctx, func(chunk [][]expr.Value) error {
		if len(chunk) > 2 {
			t.Errorf("%d rows in a chunk", len(chunk))
		}
		return nil
	}))
}
