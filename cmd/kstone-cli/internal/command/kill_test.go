package command_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestKilledImport kills an import at a random moment, again and again. The database
// opens and verifies each time, holds a prefix of the file, and an import that is left
// alone leads to what a first one would have led to.
func TestKilledImport(t *testing.T) {
	testutil.SkipUnderRace(t, "the program runs many times")
	t.Parallel()
	killAndFinish(t, "171,075 read, 171,075 written", "import")
}

// TestKilledDedup is TestKilledImport for dedup --insert.
func TestKilledDedup(t *testing.T) {
	testutil.SkipUnderRace(t, "the program runs many times")
	t.Parallel()
	out := killAndFinish(t, "171,075 read: ", "dedup", "--insert")
	numbers := regexp.MustCompile(`[0-9][0-9,]*`).FindAllString(out, 4)
	var n [4]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(strings.ReplaceAll(numbers[i], ",", "")); err != nil {
			t.Fatal(err)
		}
	}
	if n[0] != n[1]+n[2]+n[3] {
		t.Errorf("the figures do not add up: %s", out)
	}
}

// TestKilledTransaction kills a shell in the middle of a transaction: nothing of it is there.
func TestKilledTransaction(t *testing.T) {
	t.Parallel()
	self, err := exec.LookPath("kstone-cli")
	ok(t, err)
	dir := filepath.Join(t.TempDir(), "t.db")
	cmd := exec.Command(self, "shell", dir, "--create")
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	_, err = io.WriteString(in, "CREATE TABLE t (a INT PRIMARY KEY);\n"+
		"INSERT INTO t VALUES (1); BEGIN;\nINSERT INTO t VALUES (2), (3);\n"+
		"DELETE FROM t WHERE a = 1; SELECT max(a) AS a FROM t;\n")
	ok(t, err)
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "{\"a\":3}\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	ok(t, cmd.Process.Kill())
	_ = cmd.Wait()
	rows, err := exec.Command(self, "sql", dir, "SELECT a FROM t").Output()
	if string(rows) != "{\"a\":1}\n" || err != nil {
		t.Errorf("left: %q, %v", rows, err)
	}
}

// killAndFinish runs a command that fills a database with the cities, kills it several
// times, lets it finish, and returns what it printed then, which must begin with want.
//
// The test runs its own binary as the program: see TestMain.
func killAndFinish(t *testing.T, want, verb string, flags ...string) string {
	t.Helper()
	self, err := exec.LookPath("kstone-cli") // installed in PATH by testscript
	ok(t, err)
	dir := t.TempDir()
	db := filepath.Join(dir, "cities.db")
	file := filepath.Join("..", "..", "..", "..", "testdata", "cities.jsonl.gz")
	args := []string{verb, db, file, "--pk", "country", "--sk", "region,county,city"}
	args = append(args, flags...)
	rng := testutil.Rand(t)
	for range 6 {
		ctx, cancel := context.WithTimeout(context.Background(),
			time.Duration(rng.IntN(500))*time.Millisecond)
		_ = exec.CommandContext(ctx, self, args...).Run() // killed, or done already
		cancel()
		if _, err := os.Stat(filepath.Join(db, "CURRENT")); err != nil {
			continue // killed before there was a database
		}
		checkDatabase(t, db, 0)
	}
	out, err := exec.Command(self, args...).CombinedOutput()
	if err != nil || !bytes.HasPrefix(out, []byte(want)) {
		t.Fatalf("%v\n%s", err, out)
	}
	checkDatabase(t, db, 170465)
	return string(out)
}

// checkDatabase verifies a database and counts its items, if a number is given.
func checkDatabase(t *testing.T, dir string, want int) {
	t.Helper()
	db, err := engine.Open(dir, &engine.Options{MustExist: true})
	ok(t, err)
	defer db.Close()
	if _, err := db.Verify(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	for item, err := range db.Scan(context.Background(), engine.Scan{}) {
		ok(t, err)
		if !strings.HasPrefix(string(item.Value), `{"lat":`) {
			t.Fatalf("item %q holds %q", item.Key, item.Value)
		}
		n++
	}
	if want > 0 && n != want {
		t.Fatalf("%d items, want %d", n, want)
	}
	t.Logf("%d items", n)
}
