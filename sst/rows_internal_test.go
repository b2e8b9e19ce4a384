package sst

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/vfs"
)

// eachDamagedEntry calls f with readers of a file in which entry i of the block is damaged under
// a right checksum.
func eachDamagedEntry(t *testing.T, f func(i int, r *Reader)) {
	p := seedParts(t)
	b, err := openDataBlock(p.block)
	ok(t, err)
	for i := range b.n {
		block := bytes.Clone(p.block)
		block[b.offset(i)] = 0x7f // a key that is longer than its entry
		fs := vfs.NewMem()
		meta, err := hostileFile(fs, p.footer, hostile{block, p.ranges, p.filter, p.index, p.props})
		ok(t, err)
		r := NewReader(ReaderOptions{
			FS: fs, Meta: &meta, DBID: p.footer.dbid, Cache: cache.New(1 << 20),
		})
		f(i, r)
		ok(t, r.Close())
	}
}

// TestRowsEndAtADamagedEntry: whichever entry of a block is damaged under a right checksum, More
// and Less show the same entries as Next and Prev, and the same error after them.
func TestRowsEndAtADamagedEntry(t *testing.T) {
	failed := 0
	eachDamagedEntry(t, func(i int, r *Reader) {
		for _, snap := range []base.SeqNum{40, 45, 49, base.MaxSeqNum} {
			for key := range 11 {
				for _, reverse := range []bool{false, true} {
					cur := r.NewCursor(snap)
					from := fmt.Appendf(nil, "pk/key%02d", key)
					want, werr := walkRows(cur, from, reverse, 0)
					got, gerr := walkRows(cur, from, reverse, 100)
					if !slices.Equal(got, want) || fmt.Sprint(gerr) != fmt.Sprint(werr) {
						t.Fatalf("entry %d damaged, from %s at %d, reverse %v: %q, %v, want %q, %v",
							i, from, snap, reverse, got, gerr, want, werr)
					}
					var c *corrupt.Error
					if werr == nil {
						continue
					}
					if failed++; !errors.As(werr, &c) || c.File != r.path || c.Offset != 0 {
						t.Fatalf("not an error of the first block of %s: %v", r.path, werr)
					}
				}
			}
		}
	})
	if failed < 100 {
		t.Errorf("only %d walks meet damage", failed)
	}
}

// walkRows returns what a walk from a key shows, in batches of 1+n entries.
func walkRows(c *Cursor, from []byte, reverse bool, n int) (seen []string, err error) {
	seek, step, more := c.SeekGE, c.Next, c.More
	if reverse {
		seek, step, more = c.SeekLT, c.Prev, c.Less
	}
	var rows cursor.Batch
	for ok := seek(from); ok; ok = step() {
		rows.Reset()
		rows.Add(c.Entry())
		more(&rows, n, nil)
		for _, e := range rows.Rows {
			seen = append(seen, fmt.Sprintf("%s@%d=%s", e.Key, e.Seq, e.Value))
		}
	}
	return seen, c.Err()
}
