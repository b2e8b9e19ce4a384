package stripe_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/stripe"
)

// runReads runs the commands of a script that show how something is read.
//
//	fill FROM TO V            puts V under the keys k0000 of the numbers [FROM, TO)
//	batches [as scan] [first=N] [max=N] [lazy]   how many rows come at a time
//	sources, approached [as batches]             the same of each source alone
//	lookup [at=N] [expected] [filters-only] K...  as one group
//	pieces [lo=] [hi=]        the pieces at 1000 places, each once
//	freeze-beneath LO HI, newest, lowest, readable
func (s *script) runReads(t *testing.T, d *datadriven.TestData) (out string, known bool) {
	switch d.Cmd {
	case "fill":
		for i := s.number(s.arg(d, 0)); i < s.number(s.arg(d, 1)); i++ {
			s.commit(put(fmt.Sprintf("k%04d", i), s.arg(d, 2)))
		}
		return fmt.Sprintf("at %d", s.seq), true
	case "batches":
		b := s.reading(d)
		var c stripe.Cursor
		defer c.Close()
		ok(t, c.Add(s.s, &b, nil))
		return s.batches(c.Rows), true
	case "sources", "approached":
		return s.sources(t, d, d.Cmd == "approached"), true
	case "lookup":
		return s.lookup(t, d), true
	case "pieces":
		return s.pieces(t, d), true
	case "freeze-beneath":
		s.s.Lock()
		defer s.s.Unlock()
		return fmt.Sprint(s.s.FreezeBeneath([]byte(s.arg(d, 0)), []byte(s.arg(d, 1)))), true
	case "newest":
		return fmt.Sprint(s.s.NewestSeq()), true
	case "lowest":
		low, held := s.s.MinSeq(nil)
		return fmt.Sprint(low, held), true
	case "readable":
		return fmt.Sprint(s.s.View().Readable()), true
	}
	return "", false
}

// reading returns the bounds of a command that reads.
func (s *script) reading(d *datadriven.TestData) stripe.Bounds {
	b := s.bounds(d)
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "first":
			b.FirstRows = s.number(a.Vals[0])
		case "max":
			b.MaxRows = s.number(a.Vals[0])
		case "lazy":
			b.Lazy = true
		}
	}
	return b
}

// maxBatches is how many batches are shown one by one.
const maxBatches = 12

// batches shows how many rows come at a time, and how many blocks are read for them.
func (s *script) batches(rows func() []base.Entry) string {
	var sizes []string
	more, blocks := 0, uint64(0)
	for {
		var batch []base.Entry
		n := s.blockReads(func() { batch = rows() })
		blocks += n
		if len(batch) == 0 {
			break
		}
		if len(sizes) == maxBatches {
			more += len(batch)
			continue
		}
		size := fmt.Sprint(len(batch))
		if n > 0 {
			size += fmt.Sprintf(" of %d", n)
		}
		sizes = append(sizes, size)
	}
	return fmt.Sprintf("%s, then %d; %d blocks\n", strings.Join(sizes, ", "), more, blocks)
}

func (s *script) sources(t *testing.T, d *datadriven.TestData, approached bool) string {
	b := s.reading(d)
	var c stripe.Cursor
	defer c.Close()
	ok(t, c.Add(s.s, &b, nil))
	var out strings.Builder
	all := c.Sources()
	if approached {
		n := s.blockReads(func() { stripe.Approach(slices.Clone(all)) })
		fmt.Fprintf(&out, "approached, of %d\n", n)
	}
	for _, src := range all {
		out.WriteString(s.batches(src.Rows))
		ok(t, src.Err())
	}
	for _, src := range all {
		src.Restrict(&b)
		out.WriteString("again " + s.batches(src.Rows))
	}
	return out.String()
}

func (s *script) lookup(t *testing.T, d *datadriven.TestData) string {
	b := stripe.Batch{}
	snap := s.bounds(d).Snap
	var ls []base.Lookup
	for _, a := range d.CmdArgs {
		switch {
		case a.Key == "expected":
			b.Expected = true
		case a.Key == "filters-only":
			b.FiltersOnly = true
		case a.Key != "at":
			key := []byte(a.Key)
			ls = append(ls, base.Lookup{Key: key, Hash: hashOf(key), Index: uint32(len(ls))})
		}
	}
	b.Add(s.s, 0, len(ls))
	ok(t, b.Get(ls, snap))
	var out strings.Builder
	for i := range ls {
		l := &ls[i]
		fmt.Fprintf(&out, "%s: %v", l.Key, l.Found)
		if l.Found {
			fmt.Fprintf(&out, " %v %q at %d", l.Kind, l.Value, l.Seq)
		}
		fmt.Fprintf(&out, ", covered by %d\n", l.Cover)
	}
	fmt.Fprintf(&out, "%+v, %d from memtables", b.Stats, b.MemtableHits)
	return out.String()
}

func (s *script) pieces(t *testing.T, d *datadriven.TestData) string {
	b := s.bounds(d)
	p, err := s.s.Pieces(b.Lo, b.Hi)
	ok(t, err)
	defer p.Close()
	var out strings.Builder
	fmt.Fprintf(&out, "weight %.2f\n", p.Weight())
	if p.Weight() == 0 {
		return out.String()
	}
	for _, one := range piecesOf(t, p, 1000) {
		fmt.Fprintf(&out, "%q to %q: %.2f\n", one.Lo, one.Hi, one.Share)
	}
	return out.String()
}
