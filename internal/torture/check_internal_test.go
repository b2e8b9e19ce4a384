package torture

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

// A database that has lost all accounts is noticed: if a child has said that they are
// there, and if steps are there, which came later.
//
// Promise (tests): Torture notices the loss of all accounts; an interrupt from the keyboard is
// no verdict. Also `TestInterruptIsNoVerdict` in `internal/torture`.
func TestCheckMissesAccounts(t *testing.T) {
	const seed = 3
	dir := filepath.Join(t.TempDir(), "db")
	try := func(ready bool, floor int) error {
		_, err := check(t.Context(), dir, options(seed, 1), seed, []progress{newProgress(0)},
			[]int{floor}, ready, nil)
		return err
	}
	db, err := engine.Open(dir, options(1, 1))
	ok(t, err)
	c := &child{db: db, report: &reporter{out: io.Discard}, o: Order{Seed: 1, Workers: 1}}
	ok(t, db.Close())
	ok(t, try(false, 0))
	if err := try(true, 0); err == nil || !strings.Contains(err.Error(), "accounts are gone") {
		t.Fatalf("no accounts after ready: %v", err)
	}
	if c.db, err = engine.Open(dir, options(1, 1)); err != nil {
		t.Fatal(err)
	}
	p := newProgress(0)
	for s := stepOf(seed, 0, 1); s.kind != stepTransfer; s = stepOf(seed, 0, p.num+1) {
		expected := p.apply(&s)
		ok(t, c.do(t.Context(), &s, &p, expected))
	}
	if p.num == 0 {
		t.Fatal("take another seed: its first step is a transfer")
	}
	ok(t, c.db.Close())
	if err := try(false, p.num); err == nil || !strings.Contains(err.Error(), "accounts are gone") {
		t.Fatalf("steps without accounts: %v", err)
	}
}
