package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// matrix is a database and what can be put in the place of its files.
type matrix struct {
	files   fileSet
	want    map[string]engine.Item
	older   fileSet // the same database at an earlier time
	foreign fileSet // another database
	step    int     // distance of places in bytes; 0: some per file
	cases   int
	found   int
	repairs int
}

// Goal: for every kind of file and every kind of damage, reading is an error that names
// the file, or right; verify finds the damage; other stripes stay readable; repair saves
// what is not damaged and reports the rest. Method: every file of a closed database is
// damaged in every way, one at a time; at night every fifth byte.
//
// Promise (durability): A log that was cut off after an orderly Close, or is missing, is
// noticed. Also `TestMissingFiles`.
// Promise (damage): A changed, cut or missing byte in any file is an error or harmless, never a
// wrong or missing item. Also `TestEveryFlippedByte`, `TestEveryTruncation` in `sst`;
// `TestFlippedByte`, `TestTruncated` in `internal/manifest`.
// Promise (damage): Every kind of damage to every kind of file (flips, cuts, zeros, moved
// blocks, exchanged, older and foreign files) is an error that names file and offset, found by
// `Verify`; other stripes stay readable; repair saves the rest.
func TestCorruptionMatrix(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	m := &matrix{}
	m.older, _ = rescueDatabase(t, false)
	mem := m.older.store(t)
	db := openOn(t, mem, rescueOptions)
	for i := range 40 {
		ok(t, db.Put(pksk("p0", fmt.Sprintf("s%03d", 3*i)), []byte("later item ")))
	}
	ok(t, db.Flush(ctx))
	ok(t, db.Put(pksk("p1", "x"), []byte("last item ")))
	m.want = itemsOf(t, db)
	mustClose(t, db)
	m.files = filesOf(t, mem, "db")
	m.foreign, _ = rescueDatabase(t, false)
	if testutil.Effort(1, 100) >= 100 {
		m.step = 5
	}
	kinds := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		kind, _, _ := strings.Cut(name, "-")
		if strings.HasSuffix(name, ".sst") {
			kind = "sst"
		}
		if kind == "LOCK" {
			continue
		}
		kinds[kind]++
		before := m.cases
		m.flips(t, name)
		m.cuts(t, name)
		m.zeros(t, name)
		m.moves(t, name)
		m.exchanges(t, name)
		kinds[kind+" cases"] += m.cases - before
	}
	for _, kind := range []string{"CURRENT", "MANIFEST", "wal", "sst"} {
		if kinds[kind] == 0 {
			t.Errorf("no file of kind %s", kind)
		}
	}
	t.Logf("%d cases, %d gave an error, the others changed nothing; %d repairs; %v", m.cases,
		m.found, m.repairs, kinds)
}

// places returns offsets in a file of n bytes, the ends among them.
func (m *matrix) places(n int) (at []int) {
	step := m.step
	if step == 0 {
		step = max(1, n/12)
	}
	for p := 0; p < n; p += step {
		at = append(at, p)
	}
	return append(at, n-1)
}

func (m *matrix) flips(t *testing.T, name string) {
	for _, at := range m.places(len(m.files[name])) {
		b := bytes.Clone(m.files[name])
		b[at] ^= 1 << (at % 8)
		m.check(t, fmt.Sprintf("flip %s at %d", name, at), name, b)
	}
}

func (m *matrix) cuts(t *testing.T, name string) {
	whole := m.files[name]
	lengths := m.places(len(whole))
	for at := 512; at < len(whole); at += 512 {
		lengths = append(lengths, at)
	}
	for _, n := range lengths {
		m.check(t, fmt.Sprintf("cut %s at %d", name, n), name, whole[:n])
	}
}

func (m *matrix) zeros(t *testing.T, name string) {
	whole := m.files[name]
	for at := 0; at < len(whole); at += 512 {
		b := bytes.Clone(whole)
		clear(b[at:min(at+512, len(b))])
		m.check(t, fmt.Sprintf("zeros in %s at %d", name, at), name, b)
	}
}

// moves puts a piece of the file, or of another one, in another place.
func (m *matrix) moves(t *testing.T, name string) {
	whole := m.files[name]
	const piece = 256
	for other, from := range m.files {
		if len(from) < piece || len(whole) < 2*piece || other == "LOCK" {
			continue
		}
		for _, at := range []int{0, len(whole) / 3 &^ 7, len(whole) - piece} {
			src := min(len(from)-piece, (at+piece)%len(from)) &^ 7
			b := bytes.Clone(whole)
			copy(b[at:], from[src:src+piece])
			m.check(t, fmt.Sprintf("%s has %s[%d] at %d", name, other, src, at), name, b)
		}
	}
}

// exchanges puts another file in the place of this one.
func (m *matrix) exchanges(t *testing.T, name string) {
	kind, _, _ := strings.Cut(name, "-")
	isSST := strings.HasSuffix(name, ".sst")
	for other, b := range m.files {
		same := strings.HasPrefix(other, kind) || isSST && strings.HasSuffix(other, ".sst")
		if other != name && same {
			m.check(t, fmt.Sprintf("%s is %s", name, other), name, b)
		}
	}
	for what, set := range map[string]fileSet{"older": m.older, "foreign": m.foreign} {
		if b, there := set[name]; there {
			m.check(t, fmt.Sprintf("%s is the %s one", name, what), name, b)
		}
	}
	if isSST {
		for other, b := range m.foreign {
			if strings.HasSuffix(other, ".sst") {
				m.check(t, fmt.Sprintf("%s is the foreign %s", name, other), name, b)
			}
		}
	}
}

// check reads and repairs the database in which the file name has content b.
func (m *matrix) check(t *testing.T, what, name string, b []byte) {
	t.Helper()
	if bytes.Equal(b, m.files[name]) {
		return
	}
	m.cases++
	damaged := maps.Clone(m.files)
	damaged[name] = b
	mem := damaged.store(t)
	o := rescueOptions
	o.ReadOnly = true
	db, err := engine.OpenFS(mem, "db", &o)
	if err != nil {
		wantDamage(t, what, err)
		m.found++
	} else {
		if m.read(t, what, name, db) {
			m.found++
		}
		mustClose(t, db)
	}
	if m.cases%3 == 0 {
		m.repairs++
		rep, got := repaired(t, mem, what)
		checkRescued(t, what, rep, got, m.want)
		if stripe, _, isSST := base.ParseSSTName(name); isSST {
			m.saved(t, what, rep, got, stripe)
		}
	}
}

// read reads every key and verifies. It reports whether there was damage.
func (m *matrix) read(t *testing.T, what, name string, db *engine.DB) bool {
	t.Helper()
	stripe, _, isSST := base.ParseSSTName(name)
	bad := false
	judge := func(err error) {
		t.Helper()
		wantDamage(t, what, err)
		var c *engine.CorruptionError
		if !errors.As(err, &c) || filepath.Base(c.File) != name || c.Offset < 0 {
			t.Fatalf("%s: the error names neither file nor offset: %v", what, err)
		}
		bad = true
	}
	for _, w := range m.want {
		it, err := db.GetItem(w.Key)
		switch {
		case err != nil && isSST && base.StripeID(keycodec.Stripe(w.Key.PK)) != stripe:
			t.Fatalf("%s: %s of another stripe: %v", what, w.Key, err)
		case err != nil:
			judge(err)
		case !bytes.Equal(it.Value, w.Value) || it.Version != w.Version:
			t.Fatalf("%s: %s is %.40q, want %.40q", what, w.Key, it.Value, w.Value)
		}
	}
	n := 0
	for _, err := range db.Scan(ctx, engine.Scan{}) {
		if err != nil {
			judge(err)
			break
		}
		n++
	}
	if !bad && n != len(m.want) {
		t.Fatalf("%s: %d items without an error, want %d", what, n, len(m.want))
	}
	_, err := db.Verify(ctx, nil)
	if isSST && err == nil || bad && err == nil {
		t.Fatalf("%s: verify finds nothing", what)
	}
	if err != nil {
		judge(err)
	}
	return bad
}

// saved checks that damage to an SST costs nothing of other stripes.
func (m *matrix) saved(t *testing.T, what string, rep engine.RepairReport,
	got map[string]engine.Item, stripe base.StripeID,
) {
	t.Helper()
	for _, l := range rep.Lost {
		if l.Stripe != int(stripe) {
			t.Fatalf("%s: lost %v", what, l)
		}
	}
	for k, w := range m.want {
		if base.StripeID(keycodec.Stripe(w.Key.PK)) != stripe && got[k].Version != w.Version {
			t.Fatalf("%s: %s of another stripe is lost", what, w.Key)
		}
	}
}

func wantDamage(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrNotDatabase) {
		t.Fatalf("%s: %v, want an error of corruption", what, err)
	}
	var c *engine.CorruptionError
	if errors.As(err, &c) && c.File == "" {
		t.Fatalf("%s: the error names no file: %v", what, err)
	}
}
