//go:build unix

package main_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/etcd/etcdtest"
	"github.com/kstonedb/kstone/engine/store/postgres/postgrestest"
	"github.com/kstonedb/kstone/engine/table"
)

var ctx = context.Background()

const processLease = 100 * time.Millisecond

// openShared opens tables that processes share.
func openShared(url string) (*table.DB, error) {
	s, err := store.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return table.OpenOwned(ctx, s, &table.Options{Lease: processLease})
}

// child is the main function of a process: it carries out step 0, 1 and so on until its input ends,
// and writes a line after each that has been acknowledged.
func child(step func(s *sql.Session, i int) error) func() {
	return func() {
		db, err := openShared(os.Args[1])
		if err == nil {
			ended := make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, os.Stdin)
				close(ended)
			}()
			s := sql.Open(db)
			for i := 0; err == nil; i++ {
				select {
				case <-ended:
					os.Exit(0)
				default:
				}
				if err = step(s, i); err == nil {
					fmt.Println(i)
				}
			}
		}
		fmt.Println(err)
		os.Exit(1)
	}
}

// rowsPerWriter are more than a writer writes.
const rowsPerWriter = 1_000_000

// write inserts a row, and moves it in an index.
func write(s *sql.Session, i int) error {
	writer, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	id := writer*rowsPerWriter + i
	if _, err = s.Exec(ctx, "INSERT INTO shared (id, a, b) VALUES (?, ?, 0)", id, -id); err == nil {
		_, err = s.Exec(ctx, "UPDATE shared SET b = ? WHERE id = ?", i, id)
	}
	return err
}

// define changes definitions.
func define(s *sql.Session, i int) error {
	for _, text := range []string{
		"CREATE UNIQUE INDEX by_a ON shared (a)",
		fmt.Sprintf("ALTER TABLE shared ADD COLUMN extra%d INT NULL", i),
		fmt.Sprintf("CREATE INDEX by_extra ON shared (extra%d, b)", i),
		"DROP INDEX by_a ON shared",
		"ALTER TABLE shared RENAME INDEX by_b TO by_c",
		"DROP INDEX by_extra ON shared",
		fmt.Sprintf("ALTER TABLE shared DROP COLUMN extra%d", i),
		"ALTER TABLE shared RENAME INDEX by_c TO by_b",
	} {
		if _, err := s.Exec(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// process is a child.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	done  int // steps that were acknowledged
	said  string
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(args[0], args[1:]...)}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin, p.lines, p.cmd.Stderr = stdin, bufio.NewScanner(stdout), os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// await reads lines until so many steps have been done, or the process has ended.
func (p *process) await(steps int) {
	for p.done < steps && p.lines.Scan() {
		n, err := strconv.Atoi(p.lines.Text())
		if err != nil {
			p.said = p.lines.Text()
			continue
		}
		p.done = n + 1
	}
}

// Three processes write, a fourth changes definitions, and one of the three is killed in the
// middle: every row that was acknowledged is there, no other one but that of the process that was
// killed, and each index is what the rows say.
//
// Promise (manners): Processes share the tables of a store on other machines, with etcd and with
// PostgreSQL, while one of them changes definitions and another one is killed.
func TestProcesses(t *testing.T) {
	cluster, err := etcdtest.Start(t.TempDir(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	t.Run("etcd", func(t *testing.T) { shareTables(t, cluster.URL("processes")) })
	t.Run("postgres", func(t *testing.T) {
		s, err := postgrestest.Start()
		if err != nil {
			t.Skip("no PostgreSQL server: ", err)
		}
		t.Cleanup(s.Stop)
		shareTables(t, s.URL("processes"))
	})
}

func shareTables(t *testing.T, url string) {
	db, err := openShared(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := sql.Open(db)
	_, err = s.Exec(ctx, "CREATE TABLE shared (id INT PRIMARY KEY, a INT, b INT, INDEX by_b (b))")
	if err != nil {
		t.Fatal(err)
	}
	const writers, killed, killedAfter, rounds = 3, 2, 20, 2
	definer := startProcess(t, "kstone-define", url)
	var all []*process
	for i := range writers {
		all = append(all, startProcess(t, "kstone-write", url, strconv.Itoa(i)))
	}
	all[killed].await(killedAfter)
	if err := all[killed].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	definer.await(rounds)
	for _, p := range append(all, definer) {
		_ = p.stdin.Close()
		p.await(rowsPerWriter)
		var exit *exec.ExitError
		if err := p.cmd.Wait(); err != nil && (p != all[killed] || !errors.As(err, &exit)) {
			t.Errorf("%v: %v, %s", p.cmd.Args, err, p.said)
		}
	}
	for i, p := range all {
		checkWriter(t, s, i, p.done, i == killed)
	}
	tab, err := db.Table("shared")
	if err != nil {
		t.Fatal(err)
	}
	report, err := tab.Verify(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rounds of definitions, rows %d, %d, %d: %+v", definer.done, all[0].done,
		all[1].done, all[2].done, report)
	if report.Damaged > 0 {
		t.Errorf("%d damages: %v", report.Damaged, report.Damages)
	}
}

// checkWriter checks the rows of a writer: of one that was killed there may be another one.
func checkWriter(t *testing.T, s *sql.Session, writer, done int, killed bool) {
	t.Helper()
	from := writer * rowsPerWriter
	rows, err := s.Query(ctx, "SELECT id, a, b FROM shared WHERE id >= ? AND id < ? ORDER BY id",
		from, from+rowsPerWriter)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for row, err := range rows.All() {
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Trim(fmt.Sprint(row), "[]")
		if want := fmt.Sprint(from+n, -from-n, n); got != want && n < done {
			t.Errorf("row %q, want %q", got, want)
		}
		n++
	}
	if n != done && (!killed || n != done+1) {
		t.Errorf("writer %d has %d rows, and %d were acknowledged", writer, n, done)
	}
}
