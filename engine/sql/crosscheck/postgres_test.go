//go:build unix

package crosscheck

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestAgainstPostgres compares generated queries with PostgreSQL, whose types are strict where
// those of SQLite are not. It is skipped where initdb and postgres are not installed. Queries that
// PostgreSQL refuses are counted and left out.
//
// Promise (sql): Queries give what PostgreSQL gives, where that is installed.
func TestAgainstPostgres(t *testing.T) {
	server := startPostgres(t)
	rng := rand.New(rand.NewPCG(testutil.Seed(t), 3))
	p := openBeside(t, "pgx", server)
	p.postgres = true
	p.loadInto(rng, 240)
	g := &generator{rng: rng, tables: p.tables, postgres: true}
	compared, refused := 0, map[string]int{}
	runs := testutil.Effort(400, 5000)
	for range runs {
		q := g.strict()
		want, err := p.sqlite(q.theirs)
		if err != nil {
			refused["PostgreSQL: "+err.Error()]++
			continue
		}
		got, err := p.kstone(q.ours)
		var unsupported *plan.UnsupportedError
		if errors.As(err, &unsupported) || err != nil && strings.Contains(err.Error(), "hint") {
			refused["kstone: "+err.Error()]++
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", q.ours, err)
		}
		compared++
		if !q.ordered {
			slices.Sort(got)
			slices.Sort(want)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s\nkstone has %d rows, PostgreSQL %d; the first difference: %s", q.ours,
				len(got), len(want), difference(got, want))
		}
	}
	t.Logf("%d of %d queries compared", compared, runs)
	if compared < runs*3/4 {
		t.Errorf("%d of %d queries were compared; refused: %v", compared, runs, refused)
	}
}

// strict returns a query of the kinds that mean the same in PostgreSQL.
func (g *generator) strict() query {
	for {
		var q query
		switch g.rng.IntN(8) {
		case 0:
			q = g.plain()
		case 1:
			q = g.join()
		case 2:
			q = g.subquery()
		case 3:
			q = g.groups()
		case 4:
			q = g.distinct()
		case 5, 6:
			q = g.nestedQuery()
		default:
			q = g.correlated()
		}
		if !otherForm.MatchString(q.theirs) {
			return q
		}
	}
}

// otherForm are functions with other names, and orders that do not say where NULLs stand.
var otherForm = regexp.MustCompile(`group_concat|ORDER BY (x|a|b)\.[a-hj-z]\w*(, |$| LIMIT)|` +
	`ORDER BY x\.\w+, x\.\w+ LIMIT|é`)

// startPostgres starts a server over a temporary folder, and returns how to reach it.
func startPostgres(t *testing.T) string {
	t.Helper()
	find := func(name string) string {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
		if len(all) == 0 {
			t.Skipf("there is no %s: install PostgreSQL to compare with it", name)
		}
		return all[len(all)-1]
	}
	initdb, postgres := find("initdb"), find("postgres")
	dir, err := os.MkdirTemp("", "pg") // short, for the path of the socket
	ok(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := func(c *exec.Cmd) *exec.Cmd {
		if os.Geteuid() != 0 {
			return c
		}
		u, err := user.Lookup("nobody") // PostgreSQL refuses to run as root
		if err != nil {
			t.Skip("PostgreSQL does not run as root, and there is no user nobody")
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		ok(t, os.Chown(dir, uid, gid))
		c.Dir = dir
		c.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return c
	}
	data := filepath.Join(dir, "data")
	out, err := as(exec.Command(initdb, "-D", data, "-U", "kstone", "-A", "trust", "-E", "UTF8",
		"--locale=C", "-N")).CombinedOutput()
	if err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	var log bytes.Buffer
	c := as(exec.Command(postgres, "-D", data, "-k", dir, "-c", "listen_addresses=", "-F"))
	c.Stderr = &log
	ok(t, c.Start())
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGINT) // a fast shutdown
		c.Wait()
	})
	server := "host=" + dir + " user=kstone dbname=postgres"
	waitFor(t, server, &log)
	return server
}

// waitFor returns when the server answers.
func waitFor(t *testing.T, server string, log fmt.Stringer) {
	t.Helper()
	db, err := sql.Open("pgx", server)
	ok(t, err)
	defer db.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 1200 {
		if err = db.PingContext(context.Background()); err == nil {
			return
		}
		<-tick.C
	}
	t.Fatalf("PostgreSQL does not answer: %v\n%s", err, log)
}
