package overview

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/keycodec"
)

// Tally counts items by what they belong to. Items of one partition that follow each other are
// looked up once.
type Tally struct {
	Owners *Owners
	Shares []*Share // in the order in which they were found
	rest   int64    // bytes of items that have no share: see Outer

	pk    []byte
	now   Owner
	share *Share
}

// Share is what a table or an index takes, or the items put by key.
type Share struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
	Bytes int64  `json:"bytes"` // of keys and values
	owner Owner
}

// owner returns what an item belongs to, and whether it is the first of its partition.
func (t *Tally) owner(item engine.Item) (owner Owner, first bool) {
	if first = t.share == nil && t.pk == nil || string(item.Key.PK) != string(t.pk); first {
		t.pk = append(t.pk[:0], item.Key.PK...)
		t.now, t.share = t.Owners.Of(t.pk), nil
	}
	return t.now, first
}

// count counts an item, the one that owner was asked about last.
func (t *Tally) count(item engine.Item) {
	if t.share == nil {
		t.share = t.shareOf(t.now)
	}
	t.share.Count++
	t.share.Bytes += size(item)
}

// shareOf returns the share of an owner.
func (t *Tally) shareOf(owner Owner) *Share {
	name := owner.Name()
	i := slices.IndexFunc(t.Shares, func(s *Share) bool { return s.Name == name })
	if i < 0 {
		i = len(t.Shares)
		t.Shares = append(t.Shares, &Share{Name: name, owner: owner})
	}
	return t.Shares[i]
}

func size(item engine.Item) int64 {
	return int64(len(item.Key.PK) + len(item.Key.SK) + len(item.Value))
}

// Outer returns a filter for items that were put by their keys, which counts the others; nil if all
// were.
func (t *Tally) Outer() func(engine.Item) bool {
	if !t.Owners.defined {
		return nil
	}
	return func(item engine.Item) bool {
		if owner, _ := t.owner(item); owner.Inner() {
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
		fmt.Fprintf(w, "  %-24s %16s %12s   %4.1f %%\n", s.Name, figure.Plural(s.Count, what),
			figure.Bytes(s.Bytes), 100*float64(s.Bytes)/float64(max(all, 1)))
	}
}

// Census is a Tally of all items that also counts them by stripe and partition. In stripe order the
// items of a partition follow each other, so one counter is enough.
type Census struct {
	Tally
	// Top is how many of the largest partitions are kept, the largest by Size.
	Top  int
	Size func(*Partition) int64

	Items, Bytes      int64
	Stripes           [256]struct{ Items, Bytes int64 }
	Partitions, Outer int64        // Outer: those of items that were put by key
	Largest           []*Partition // after Done
	now               *Partition
}

// Partition is a PK with what its items take.
type Partition struct {
	PK          []byte
	Name, Owner string // for people, after Done
	Inner       bool   // see Owner
	Items       int64
	Bytes       int64
	Stripe      uint8
	owner       Owner
	key         engine.Key // of an item
}

// Add counts an item.
func (c *Census) Add(item engine.Item) {
	owner, first := c.owner(item)
	c.count(item)
	if first {
		c.rank()
		key := engine.Item{Key: item.Key}.Clone().Key
		c.now = &Partition{PK: key.PK, key: key, owner: owner, Stripe: keycodec.Stripe(key.PK)}
		if c.Partitions++; !owner.Inner() {
			c.Outer++
		}
	}
	n, s := size(item), &c.Stripes[c.now.Stripe]
	c.Items, s.Items, c.now.Items = c.Items+1, s.Items+1, c.now.Items+1
	c.Bytes, s.Bytes, c.now.Bytes = c.Bytes+n, s.Bytes+n, c.now.Bytes+n
}

// rank keeps the present partition if it is among the largest.
func (c *Census) rank() {
	if c.now == nil {
		return
	}
	i, _ := slices.BinarySearchFunc(c.Largest, c.now, func(a, b *Partition) int {
		return cmp.Compare(c.Size(b), c.Size(a))
	})
	if c.Largest = slices.Insert(c.Largest, i, c.now); len(c.Largest) > c.Top {
		c.Largest = c.Largest[:c.Top]
	}
}

// Done ends the census, and names the largest partitions.
func (c *Census) Done(format func(pk []byte) string) {
	c.rank()
	for _, p := range c.Largest {
		p.Name, p.Owner = p.owner.PartitionName(format, p.key), p.owner.Name()
		p.Inner = p.owner.Inner()
	}
}
