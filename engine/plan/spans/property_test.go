package spans_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// TestSpansAgainstFullScan compares the rows that spans and residuals find with those that
// an evaluator finds by looking at all rows, for random keys, rows and predicates. Spans that
// are wider than checkMinimal wants only cost time: they are rare, about one predicate in ten
// thousand, whose parts contradict each other in more than one column.
func TestSpansAgainstFullScan(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	seed := testutil.Seed(t)
	var builder spans.Builder
	var wide []string
	runs := testutil.Effort(2000, 600_000)
	for i := range runs {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		w := newWorld(r)
		c := w.newCheck()
		if err := c.run(&builder); err != nil {
			t.Fatalf("seed %d, run %d: %v\n%s", seed, i, err, c)
		}
		if c.wide != nil {
			wide = append(wide, fmt.Sprintf("seed %d, run %d: %v\n%s", seed, i, c.wide, c))
		}
	}
	if len(wide) > 2+runs/1000 {
		t.Fatalf("the spans of %d of %d predicates are wider than they need be, the first of\n%s",
			len(wide), runs, wide[0])
	}
}

// check is one predicate turned into spans.
type check struct {
	w    *world
	key  spans.Key
	max  int
	pred expr.Expr
	norm expr.Expr
	set  spans.Set
	wide error // of checkMinimal
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

func (c *check) run(builder *spans.Builder) error {
	var info spans.ColumnInfo
	var params []expr.Value
	if c.w.r.IntN(2) == 0 {
		info = func(_, i int) (keycodec.Field, bool) { return c.w.fields[i], !c.w.lists[i] }
	}
	if c.w.r.IntN(2) == 0 {
		params = c.w.params
	}
	before := c.pred.String()
	c.norm = spans.NormaliseFor(c.pred, info, params)
	if c.pred.String() != before {
		return fmt.Errorf("the predicate was changed: it was %s", before)
	}
	for _, row := range c.w.rows {
		j := judge{row, c.w.params}
		if got, want := j.truth(c.norm) == yes, j.truth(c.pred) == yes; got != want {
			return fmt.Errorf("row %v: the normal form is %v, not %v", row, got, want)
		}
	}
	template := spans.Compile(c.key, c.norm)
	c.set = builder.Build(template, c.w.params, c.max)
	if err := c.checkForm(); err != nil {
		return err
	}
	if template.Incomplete() {
		return nil
	}
	if err := c.checkRows(); err != nil {
		return err
	}
	c.wide = c.checkMinimal()
	if err := c.checkBuckets(); err != nil {
		return err
	}
	if err := c.checkSplit(); err != nil {
		return err
	}
	return c.checkConditions()
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
			return fmt.Errorf("span %d is not after the one before it", i)
		}
		if i > 0 && c.key.Keep == 0 && bytes.Equal(spans[i-1].Hi, s.Lo) &&
			spans[i-1].Residual == nil && s.Residual == nil {
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
				if !holds(s.Lo, s.Hi, entry) {
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

// reached returns how many spans an entry is in.
func (c *check) reached(entry []byte) (n int) {
	for _, s := range c.set.Spans {
		if holds(s.Lo, s.Hi, entry) {
			n++
		}
	}
	return n
}

func holds(lo, hi, b []byte) bool {
	return bytes.Compare(lo, b) <= 0 && (hi == nil || bytes.Compare(b, hi) < 0)
}

// checkBuckets spreads the entries over buckets and checks that each of those in spans is
// in one range of its bucket, and no other one in any, unless its bucket is read for the
// sake of a short range of integers.
func (c *check) checkBuckets() error {
	buckets := spans.Buckets{Count: pick(c.w.r, 1, 4, 16, 256, 1000), Fields: c.key.Fields,
		Columns: c.key.Keep}
	buckets.Of = func(prefix []byte) (int, bool) {
		return int(crc32.ChecksumIEEE(prefix) % uint32(buckets.Count)), true
	}
	partitions := buckets.Partitions(c.set)
	for i, p := range partitions {
		if p.Bucket < 0 || p.Bucket >= buckets.Count || len(p.Ranges) == 0 ||
			i > 0 && partitions[i-1].Bucket >= p.Bucket {
			return fmt.Errorf("partition %d: bucket %d with %d ranges", i, p.Bucket, len(p.Ranges))
		}
		for k, r := range p.Ranges {
			if k == 0 {
				continue
			}
			if hi := p.Ranges[k-1].Hi; hi == nil || bytes.Compare(hi, r.Lo) >= 0 {
				return fmt.Errorf("bucket %d: range %d is not after the last", p.Bucket, k)
			}
		}
	}
	for _, row := range c.w.rows {
		for _, entry := range c.entries(row) {
			prefix := entry
			for _, f := range c.key.Fields[:c.key.Keep] {
				prefix, _ = f.Skip(prefix)
			}
			bucket, _ := buckets.Of(entry[:len(entry)-len(prefix)])
			found := 0
			for _, p := range partitions {
				for _, r := range p.Ranges {
					if (buckets.Columns == 0 || p.Bucket == bucket) && holds(r.Lo, r.Hi, entry) {
						found++
					}
				}
			}
			if buckets.Columns == 0 {
				found /= buckets.Count
			}
			if found != c.reached(entry) {
				return fmt.Errorf("%d buckets: row %v is in %d ranges of bucket %d and in %d spans",
					buckets.Count, row, found, bucket, c.reached(entry))
			}
		}
	}
	return nil
}

// checkSplit takes the columns that are kept for those of the partition key.
func (c *check) checkSplit() error {
	fields := c.key.Fields[:c.key.Keep]
	split := spans.SplitPrimary(c.set, fields, true)
	for _, row := range c.w.rows {
		for _, entry := range c.entries(row) {
			sk := entry
			for _, f := range fields {
				sk, _ = f.Skip(sk)
			}
			pk := entry[:len(entry)-len(sk)]
			found := 0
			for _, p := range split.Partitions {
				for _, r := range p.Ranges {
					if bytes.Equal(p.PK, pk) && holds(r.Lo, r.Hi, sk) {
						found++
					}
				}
			}
			for _, r := range split.Intervals {
				if holds(r.Lo, r.Hi, pk) {
					found++
				}
			}
			if found != c.reached(entry) {
				return fmt.Errorf("row %v is in %d ranges and in %d spans", row, found,
					c.reached(entry))
			}
		}
	}
	return nil
}

// checkConditions checks that the text of spans says what they hold.
func (c *check) checkConditions() error {
	if slices.Contains(c.key.Each, true) {
		return nil // of one element each
	}
	for i, s := range c.set.Spans {
		condition := c.key.Condition(s)
		if strings.Contains(condition.String(), "encoded(") {
			continue
		}
		for _, row := range c.w.rows {
			want := holds(s.Lo, s.Hi, c.entries(row)[0])
			if got := (judge{row: row}).truth(condition) == yes; got != want {
				return fmt.Errorf("span %d: %s is %v for row %v", i, condition, got, row)
			}
		}
	}
	return nil
}

// checkPoints checks that the entries of a span agree in their first columns.
func (c *check) checkPoints(s spans.Span, entry []byte) error {
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
