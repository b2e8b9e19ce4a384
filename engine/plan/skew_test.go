package plan_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// skewed returns a table in which 997 of 1000 rows have the state 1, two 2 and one 3.
func skewed(t *testing.T) *catalog {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, state INT, c INT, INDEX ks (state, c))")
	c := plan.NewCollector(w.tables["t"].Indexes[0].ID, 2)
	for i := range int64(100_000) {
		state := int64(1)
		switch i % 1000 {
		case 500:
			state = 3
		case 300, 301:
			state = 2
		}
		key := keycodec.AppendInt64(nil, state)
		ends := []int{len(key), len(key) + 8}
		c.Add(keycodec.AppendInt64(key, i), ends, false, 10)
	}
	w.stats["t"] = &plan.TableStats{Epoch: 1, Rows: 100_000, RowBytes: 100,
		Keys: []plan.KeyStats{c.Stats()}}
	return w
}

// TestRareValues expects as many rows of a value as there are, although one value has nearly all.
//
// Promise (plans): What frequent values take is not expected of the others; of a few values each
// is counted.
func TestRareValues(t *testing.T) {
	w := skewed(t)
	for _, c := range []struct {
		where    string
		min, max float64
	}{
		{"state = 1", 99_000, 100_000},
		{"state = 2", 150, 250},
		{"state = 3", 80, 120},
		{"state = 4", 0, 20},
		{"state IN (2, 3)", 250, 350},
		{"state > 1", 250, 350},
		{"state < 1", 0, 20},
		{"state = 3 AND state = 1", 0, 0.1},
		{"state > 2 AND state < 1", 0, 0.1},
	} {
		sel := w.query("SELECT t.id FROM t WHERE " + c.where)
		p := must(must(plan.Prepare(sel, plan.Options{Stats: w})).Bind(nil))
		if rows := p.Root.Estimate().Rows; rows < c.min || rows > c.max {
			t.Errorf("%s: %.1f rows expected, not %.0f to %.0f", c.where, rows, c.min, c.max)
		}
	}
}

// TestFewValues: each of a few values is kept, but NULL, which has a count of its own.
func TestFewValues(t *testing.T) {
	c := plan.NewCollector(1, 1)
	for i := range 1000 {
		key := []byte{byte(i % 3)}
		c.Add(key, []int{1}, i%3 == 0, 0)
	}
	s := c.Stats()
	keys := make([][]byte, 0, 2)
	for _, h := range s.Heavy {
		keys = append(keys, h.Key)
	}
	slices.SortFunc(keys, bytes.Compare)
	if len(keys) != 2 || keys[0][0] != 1 || keys[1][0] != 2 || s.Nulls < 0.3 || s.Nulls > 0.35 {
		t.Errorf("frequent values %v, NULL %.2f", keys, s.Nulls)
	}
}

// TestShortRanges: a range of integers is expected to have as many values as fit into it, and is
// searched in their buckets and partitions.
func TestShortRanges(t *testing.T) {
	w := newCatalog(t, `CREATE TABLE t (a INT PRIMARY KEY, b INT, v TEXT,
		UNIQUE INDEX ub (b) SHARD (256, tidb))`)
	for _, c := range []struct {
		where, kind, attribute, value string
	}{
		{"a > 100 AND a < 104", "row scan", "stripes", "3/256"},
		{"a BETWEEN 100 AND 104 AND v = 'x'", "row scan", "stripes", "5/256"},
		{"a BETWEEN -70 AND 70", "row scan", "stripes", "256/256"},
		{"b BETWEEN 100 AND 104", "index scan", "buckets", "5/256"},
	} {
		sel := w.query("SELECT * FROM t WHERE " + c.where)
		e := must(must(plan.Prepare(sel, plan.Options{})).Bind(nil)).Explain().Find(c.kind)
		want := plan.Attribute{Name: c.attribute, Value: c.value}
		if e == nil || !slices.Contains(e.Attributes, want) {
			t.Errorf("%s: %v", c.where, e)
		}
		if c.value != "256/256" && e.Rows > 10 {
			t.Errorf("%s: %.0f rows expected", c.where, e.Rows)
		}
	}
}
