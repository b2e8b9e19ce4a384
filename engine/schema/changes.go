package schema

import (
	"bytes"
	"errors"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// Changes is what a write of one row changes in the table's indexes. The zero Changes is
// empty. Its memory is reused.
type Changes struct {
	Delete []Entry // entries that the old row has and the new one does not have
	Put    []Entry // entries that are new or have another value

	before, after Entries
}

// Compute sets c to the changes that turn the entries of the old row into those of the new
// one: old is nil if there was no row, and new is nil if it is deleted. Both are complete
// rows with the same key, made by Table.Convert or Decode. Entries that stay as they are
// are not among them unless rewrite is set, which is for a new expiry. Indexes in state
// Dropping are left alone. Errors are those of Index.AppendEntries; they leave c undefined. The old
// row may be one that an index cannot have while that is being built.
func (t *Table) Compute(c *Changes, key keycodec.Key, old, new []expr.Value, rewrite bool) error {
	c.Delete, c.Put = c.Delete[:0], c.Put[:0]
	c.before.Reset()
	c.after.Reset()
	for _, x := range t.Indexes {
		if x.State == Dropping {
			continue
		}
		if err := x.compute(c, key, old, new, rewrite); err != nil {
			return err
		}
	}
	return nil
}

func (x *Index) compute(c *Changes, key keycodec.Key, old, new []expr.Value, rewrite bool) error {
	// The buffers keep the bytes of entries of earlier indexes; only the lists begin again.
	c.before.List, c.after.List = c.before.List[:0], c.after.List[:0]
	if old != nil {
		if err := x.AppendEntries(&c.before, key, old); err != nil {
			if !x.lacks(err) {
				return err
			}
			c.before.List = c.before.List[:0]
		}
	}
	if new != nil {
		if err := x.AppendEntries(&c.after, key, new); err != nil {
			return err
		}
	}
	before, after := c.before.List, c.after.List
	for len(before) > 0 && len(after) > 0 {
		switch order := compareEntries(&before[0], &after[0]); {
		case order < 0:
			c.Delete = append(c.Delete, before[0])
			before = before[1:]
		case order > 0:
			c.Put = append(c.Put, after[0])
			after = after[1:]
		default:
			if rewrite || !bytes.Equal(before[0].Value, after[0].Value) {
				after[0].Kept = true
				c.Put = append(c.Put, after[0])
			}
			before, after = before[1:], after[1:]
		}
	}
	c.Delete = append(c.Delete, before...)
	c.Put = append(c.Put, after...)
	return nil
}

// lacks reports whether an error says that a row from before the index has no entries in it.
func (x *Index) lacks(err error) bool {
	var unfit *EntryError
	return x.State == Building && errors.As(err, &unfit)
}

func compareEntries(a, b *Entry) int {
	if c := bytes.Compare(a.PK, b.PK); c != 0 {
		return c
	}
	return bytes.Compare(a.SK, b.SK)
}

// MayExpire reports whether there may be rows that expire: by the TTL, or by one that the
// table had when they were written.
func (t *Table) MayExpire() bool { return t.TTL != nil || t.HadTTL }

// Expiry returns when a row expires by the TTL of the table; ok is false if it does not.
func (t *Table) Expiry(row []expr.Value) (at time.Time, ok bool) {
	if t.TTL == nil || t.checkLen(row) != nil {
		return time.Time{}, false
	}
	at, ok = row[t.TTL.Ordinal].AsTime()
	return at.Add(t.TTL.After), ok
}
