package statistics

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// keyCollector collects the statistics of one key.
type keyCollector struct {
	*plan.Collector
	t     *schema.Table
	parts []schema.KeyColumn
	head  int // bytes of a row's PK before its columns; of a sharded table, all
	key   []byte
	ends  []int
	null  bool // the first column of key is NULL
}

func newKeyCollector(t *schema.Table, index uint32, parts []schema.KeyColumn) *keyCollector {
	head := t.AppendRowPrefix(nil)
	if x := t.Primary(); x != nil {
		head = x.BucketPK(nil, 0)
	}
	return &keyCollector{Collector: plan.NewCollector(index, len(parts)), t: t, parts: parts,
		head: len(head)}
}

// newRowCollector returns the collector of the keys of rows.
func newRowCollector(t *schema.Table) *keyCollector {
	return newKeyCollector(t, 0, slices.Concat(t.PK, t.SK))
}

// newEntryCollector returns the collector of an index.
func newEntryCollector(t *schema.Table, x *schema.Index) *keyCollector {
	parts := make([]schema.KeyColumn, len(x.Columns))
	for i, c := range x.Columns {
		parts[i] = c.KeyColumn
	}
	return newKeyCollector(t, x.ID, parts)
}

// addRow adds the key of a row, whose value has so many bytes.
func (c *keyCollector) addRow(key store.Key, value int) error {
	c.key = append(append(c.key[:0], key.PK[c.head:]...), key.SK...)
	return c.add(value + c.head)
}

// addEntry adds the sort key of an entry; more is the size of the rest of the entry.
func (c *keyCollector) addEntry(sk []byte, more int) error {
	c.key = append(c.key[:0], sk...)
	return c.add(more)
}

// add adds c.key; what follows its columns does not count.
func (c *keyCollector) add(more int) error {
	c.ends, c.null = c.ends[:0], false
	rest := c.key
	for i, k := range c.parts {
		v, left, err := c.t.Columns[k.Ordinal].DecodeField(rest, k)
		if err != nil {
			return err
		}
		rest = left
		c.null = c.null || i == 0 && v.IsNull()
		c.ends = append(c.ends, len(c.key)-len(rest))
	}
	columns := c.ends[len(c.ends)-1]
	c.Add(c.key[:columns], c.ends, c.null, more+len(rest))
	return nil
}

// columnCollector collects the statistics of columns.
type columnCollector struct {
	t *schema.Table
	// count takes a value of a column, to know how many different ones there are.
	count func(ordinal int, value []byte)
	buf   []byte
	// versions and values are a sample of rows, shortened, in the order of writing.
	versions []uint64
	values   [][]expr.Value
	seen     int
}

// orderSample is how many rows are looked at to see which columns grow.
const orderSample = 2048

func (c *columnCollector) add(row []expr.Value, version uint64) {
	for i, v := range row {
		if column := &c.t.Columns[i]; !column.Dropped && !column.List && !v.IsNull() {
			c.buf = append(c.buf[:0], v.Canonical().String()...)
			c.count(i, c.buf)
		}
	}
	// Every row at first, then every second one, every fourth …: the sample hardly grows.
	c.seen++
	step := 1
	for n := c.seen / orderSample; n > 0; n /= 2 {
		step *= 2
	}
	if c.seen%step != 0 {
		return
	}
	c.versions = append(c.versions, version)
	c.values = append(c.values, shortened(row, schema.ColumnSet{}))
}

// maxKept is how many bytes of a value a sample keeps, and then a hash of all. Why: a sample of
// large rows does not fit into memory.
const maxKept = 256

// shortened returns a copy of a row with long values shortened, and without lists, but for the
// columns that are needed. Different values stay different, and almost all in their order.
func shortened(row []expr.Value, needed schema.ColumnSet) []expr.Value {
	out := make([]expr.Value, len(row))
	for i, v := range row {
		text, isText := v.AsString()
		bytes, isBytes := v.AsBytes()
		switch {
		case needed.Has(i):
		case v.Kind() == expr.KindList:
			continue
		case isText && len(text) > maxKept:
			v = expr.String(short(text))
		case isBytes && len(bytes) > maxKept:
			v = expr.Bytes([]byte(short(bytes)))
		}
		out[i] = v.Clone()
	}
	return out
}

func short(s string) string {
	sum := sha256.Sum256([]byte(s))
	return s[:maxKept] + string(sum[:16])
}

// monotonic returns the columns in which later rows have no smaller values. Rows of one commit
// are taken to be written in the order of their keys; whether that is so, only columns that are
// not of the key can say.
func (c *columnCollector) monotonic() (all []int) {
	order := make([]int, len(c.versions))
	for i := range order {
		order[i] = i
	}
	key := c.t.KeyOrdinals()
	slices.SortFunc(order, func(a, b int) int {
		if by := cmp.Compare(c.versions[a], c.versions[b]); by != 0 {
			return by
		}
		for _, o := range key {
			if by := expr.Order(c.values[a][o], c.values[b][o]); by != 0 {
				return by
			}
		}
		return 0
	})
	proved := false // that rows of one commit are in the order of their keys
	for column := range c.t.Columns {
		if c.t.Columns[column].Dropped {
			continue
		}
		grows, enough := c.grows(order, column, true)
		if !enough && !slices.Contains(key, column) {
			grows, _ = c.grows(order, column, false)
			proved = proved || grows
		}
		if grows {
			all = append(all, column)
		}
	}
	if proved && !slices.Contains(all, key[0]) {
		if grows, _ := c.grows(order, key[0], false); grows {
			all = append(all, key[0])
			slices.Sort(all)
		}
	}
	return all
}

// Of pairs of rows written one after the other with different values, this many are needed, and
// this part of them has to grow.
const (
	growPairs = 20
	growPart  = 0.95
)

// grows reports whether a column grows from row to row, or with commits from commit to commit,
// and whether there are enough pairs with different values to say so.
func (c *columnCollector) grows(order []int, column int, commits bool) (grows, enough bool) {
	pairs, up := 0, 0
	for i := 1; i < len(order); i++ {
		if commits && c.versions[order[i-1]] == c.versions[order[i]] {
			continue
		}
		before, now := c.values[order[i-1]][column], c.values[order[i]][column]
		if before.IsNull() || now.IsNull() {
			continue
		}
		switch by := expr.Order(before, now); {
		case by < 0:
			pairs, up = pairs+1, up+1
		case by > 0:
			pairs++
		}
	}
	enough = pairs >= growPairs
	return enough && float64(up) >= growPart*float64(pairs), enough
}
