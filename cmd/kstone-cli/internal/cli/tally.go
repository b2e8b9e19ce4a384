package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/overview"
)

// Tally counts items by what they belong to. Items of one partition that follow each other are
// looked up once.
type Tally struct {
	Owners *overview.Owners
	Shares []*Share // in the order in which they were found
	rest   int64    // bytes of items that have no share: see Outer

	pk    []byte
	now   overview.Owner
	share *Share
}

// Share is what a table or an index takes, or the items put by key.
type Share struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
	Bytes int64  `json:"bytes"` // of keys and values
	owner overview.Owner
}

// Add counts an item and returns what it belongs to.
func (t *Tally) Add(item engine.Item) overview.Owner {
	owner := t.owner(item)
	t.count(item)
	return owner
}

// owner returns what an item belongs to.
func (t *Tally) owner(item engine.Item) overview.Owner {
	if t.share == nil && t.pk == nil || string(item.Key.PK) != string(t.pk) {
		t.pk = append(t.pk[:0], item.Key.PK...)
		t.now, t.share = t.Owners.Of(t.pk), nil
	}
	return t.now
}

// count counts an item, the one that owner was asked about last.
func (t *Tally) count(item engine.Item) {
	if t.share == nil {
		name := t.now.Name()
		i := slices.IndexFunc(t.Shares, func(s *Share) bool { return s.Name == name })
		if i < 0 {
			i = len(t.Shares)
			t.Shares = append(t.Shares, &Share{Name: name, owner: t.now})
		}
		t.share = t.Shares[i]
	}
	t.share.Count++
	t.share.Bytes += size(item)
}

func size(item engine.Item) int64 {
	return int64(len(item.Key.PK) + len(item.Key.SK) + len(item.Value))
}

// Outer returns a filter for items that were put by their keys, which counts the others; nil if all
// were.
func (t *Tally) Outer() func(engine.Item) bool {
	if len(t.Owners.Tables) == 0 {
		return nil
	}
	return func(item engine.Item) bool {
		if t.owner(item).Inner() {
			t.count(item)
			return false
		}
		t.rest += size(item)
		return true
	}
}

// Sort puts the largest share first.
func (t *Tally) Sort() {
	slices.SortStableFunc(t.Shares, func(a, b *Share) int { return cmp.Compare(b.Bytes, a.Bytes) })
}

// Write writes a line for each share: how many rows or entries, their bytes, and the part of all
// that is.
func (t *Tally) Write(w io.Writer) {
	t.Sort()
	all := t.rest
	for _, s := range t.Shares {
		all += s.Bytes
	}
	for _, s := range t.Shares {
		what := "item"
		switch {
		case s.owner.Index != nil:
			what = "entry"
		case s.owner.Table != nil:
			what = "row"
		}
		text := figure.Plural(s.Count, what)
		if what == "entry" && s.Count != 1 {
			text = figure.Count(s.Count) + " entries"
		}
		fmt.Fprintf(w, "  %-24s %16s %12s   %4.1f %%\n", s.Name, text, figure.Bytes(s.Bytes),
			100*float64(s.Bytes)/float64(max(all, 1)))
	}
}
