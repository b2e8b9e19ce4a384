package plan_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// runs returns how many random predicates to try: KSTONE_PLAN_RUNS, or a few thousand.
func runs(t *testing.T) int {
	if text := os.Getenv("KSTONE_PLAN_RUNS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("KSTONE_PLAN_RUNS: %v", err)
		}
		return n
	}
	if testing.Short() {
		return 3000
	}
	return 10_000
}

// TestSpansAgainstFullScan compares the rows that spans and residuals find with those that
// an evaluator finds by looking at all rows, for random keys, rows and predicates.
func TestSpansAgainstFullScan(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var builder plan.SpanBuilder
	for i := range runs(t) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		w := newWorld(r)
		c := w.newCheck()
		if err := c.run(&builder); err != nil {
			t.Fatalf("seed %d, run %d: %v\n%s", seed, i, err, c)
		}
	}
}

// check is one predicate turned into spans.
type check struct {
	w    *world
	key  plan.Key
	max  int
	pred expr.Expr
	norm expr.Expr
	set  plan.SpanSet
}

func (w *world) newCheck() *check {
	c := &check{w: w, max: pick(w.r, 0, 0, 0, 1, 2, 5)}
	for _, i := range w.key {
		c.key.Fields = append(c.key.Fields, w.fields[i])
		c.key.Ordinals = append(c.key.Ordinals, i)
		c.key.Each = append(c.key.Each, w.lists[i])
	}
	c.key.Keep = w.r.IntN(len(w.key) + 1)
	c.pred = w.predicate(4)
	return c
}

func (c *check) String() string {
	text := fmt.Sprintf("key %v keep %d max %d\nwhere %s\nparams %v\nnormal %s\n", c.key.Fields,
		c.key.Keep, c.max, c.pred, c.w.params, c.norm)
	for _, s := range c.set.Spans {
		text += fmt.Sprintf("[% x, % x) points %d residual %v\n", s.Lo, s.Hi, s.Points, s.Residual)
	}
	return text
}

func (c *check) run(builder *plan.SpanBuilder) error {
	var info plan.ColumnInfo
	var params []expr.Value
	if c.w.r.IntN(2) == 0 {
		info = func(_, i int) (keycodec.Field, bool) { return c.w.fields[i], !c.w.lists[i] }
	}
	if c.w.r.IntN(2) == 0 {
		params = c.w.params
	}
	before := c.pred.String()
	c.norm = plan.NormaliseFor(c.pred, info, params)
	if c.pred.String() != before {
		return fmt.Errorf("the predicate was changed: it was %s", before)
	}
	for _, row := range c.w.rows {
		j := judge{row, c.w.params}
		if got, want := j.truth(c.norm) == yes, j.truth(c.pred) == yes; got != want {
			return fmt.Errorf("row %v: the normal form is %v, not %v", row, got, want)
		}
	}
	template := plan.CompileSpans(c.key, c.norm)
	c.set = builder.Build(template, c.w.params, c.max)
	if err := c.checkForm(); err != nil {
		return err
	}
	if template.Incomplete() {
		return nil
	}
	return c.checkRows()
}

// checkForm checks what holds of spans without looking at rows.
func (c *check) checkForm() error {
	spans := c.set.Spans
	if c.max > 0 && len(spans) > c.max {
		return fmt.Errorf("%d spans, at most %d are allowed", len(spans), c.max)
	}
	if c.set.Truncated && c.max == 0 {
		return fmt.Errorf("truncated below the limit")
	}
	exact := true
	for i, s := range spans {
		exact = exact && s.Residual == nil
		if s.Lo == nil || s.Hi != nil && bytes.Compare(s.Lo, s.Hi) >= 0 {
			return fmt.Errorf("span %d is empty", i)
		}
		if i > 0 && (spans[i-1].Hi == nil || bytes.Compare(spans[i-1].Hi, s.Lo) > 0) {
			return fmt.Errorf("span %d is not behind the one before it", i)
		}
		if i > 0 && c.key.Keep == 0 && bytes.Equal(spans[i-1].Hi, s.Lo) &&
			expr.Equal(spans[i-1].Residual, s.Residual) {
			return fmt.Errorf("span %d continues the one before it", i)
		}
	}
	if exact != c.set.Exact {
		return fmt.Errorf("exact is %v", c.set.Exact)
	}
	return nil
}

// checkRows checks that spans and residuals find the right rows, and each once.
func (c *check) checkRows() error {
	for _, row := range c.w.rows {
		j := judge{row, c.w.params}
		found := 0
		for _, entry := range c.entries(row) {
			for i, s := range c.set.Spans {
				if bytes.Compare(s.Lo, entry) > 0 || s.Hi != nil && bytes.Compare(entry, s.Hi) >= 0 {
					continue
				}
				if err := c.checkPoints(s, entry); err != nil {
					return fmt.Errorf("span %d, row %v: %w", i, row, err)
				}
				if s.Residual == nil || j.truth(s.Residual) == yes {
					found++
				}
			}
		}
		want := j.truth(c.pred) == yes
		switch {
		case found == 0 && want:
			return fmt.Errorf("row %v is not found", row)
		case found > 0 && !want:
			return fmt.Errorf("row %v is found", row)
		case found > 1 && !c.set.Repeats:
			return fmt.Errorf("row %v is found %d times", row, found)
		}
	}
	return nil
}

// checkPoints checks that the entries of a span agree in their first columns.
func (c *check) checkPoints(s plan.Span, entry []byte) error {
	lo := s.Lo
	for i := range s.Points {
		restLo, err := c.key.Fields[i].Skip(lo)
		if err != nil {
			return fmt.Errorf("%d points are not encoded: %w", s.Points, err)
		}
		restEntry, _ := c.key.Fields[i].Skip(entry)
		if !bytes.Equal(lo[:len(lo)-len(restLo)], entry[:len(entry)-len(restEntry)]) {
			return fmt.Errorf("column %d is not fixed", i)
		}
		lo, entry = restLo, restEntry
	}
	return nil
}

// entries returns the encoded tuples of a row: one, or one for each element of lists.
func (c *check) entries(row []expr.Value) [][]byte {
	out := [][]byte{nil}
	for i, f := range c.key.Fields {
		values := []expr.Value{row[c.key.Ordinals[i]]}
		if c.key.Each[i] {
			values = slices.Collect(values[0].Elements())
		}
		var next [][]byte
		for _, prefix := range out {
			for _, v := range values {
				b, err := f.Append(slices.Clone(prefix), goValue(v, f.Type))
				if err != nil {
					panic(err)
				}
				next = append(next, b)
			}
		}
		out = next
	}
	slices.SortFunc(out, bytes.Compare)
	return slices.CompactFunc(out, bytes.Equal)
}
