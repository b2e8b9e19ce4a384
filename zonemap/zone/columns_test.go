package zone_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/zone"
)

var ok = testutil.OK

// columnRow is a row as it is described; a nil value is NULL.
type columnRow struct {
	group   uint64
	values  map[uint64][]byte
	unknown bool
}

func drawRow(t *rapid.T) columnRow {
	r := columnRow{group: rapid.SampledFrom([]uint64{0, 1, 5, 300}).Draw(t, "group")}
	r.unknown = rapid.IntRange(0, 150).Draw(t, "unknown") == 0
	r.values = rapid.MapOfN(rapid.SampledFrom([]uint64{0, 1, 2, 200}),
		rapid.Custom(func(t *rapid.T) []byte {
			if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
				return nil
			}
			c := rapid.SampledFrom([]byte{0, 'a', 0xff}).Draw(t, "byte")
			v := bytes.Repeat([]byte{c}, rapid.IntRange(0, 20).Draw(t, "length"))
			return append(v, rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "end")...)
		}), 0, 4).Draw(t, "values")
	return r
}

// describeRows describes the rows of a block.
func describeRows(b *zone.ColumnsBuilder, rows []columnRow) {
	for i := range rows {
		r := &rows[i]
		if r.unknown {
			continue
		}
		b.Rows(r.group, 1)
		for column, v := range r.values {
			if v == nil {
				b.Nulls(column, 1)
			} else {
				b.Values(column, 1, v, v)
			}
		}
	}
	b.FinishBlock(len(rows))
}

// openColumns ends the file and returns its zones and those of its blocks.
func openColumns(t testing.TB, b *zone.ColumnsBuilder, blocks int) (all []zone.Columns) {
	f, err := zone.OpenColumns(b.FinishFile(nil))
	ok(t, err)
	all = append(all, f.Columns())
	for i := range blocks {
		all = append(all, f.Block(b.AppendBlock(nil, i)))
		ok(t, all[i+1].Check())
	}
	return all
}

// checkColumns compares the zones with the rows that they are of.
func checkColumns(t *rapid.T, zones zone.Columns, rows []columnRow, ofFile bool) {
	for _, group := range []uint64{0, 1, 2, 5, 300} {
		for _, column := range []uint64{0, 1, 2, 3, 200} {
			known, nulls := true, false
			var values [][]byte
			for _, r := range rows {
				if known = known && !r.unknown; r.group != group {
					continue
				}
				v, reported := r.values[column]
				switch {
				case !reported:
					known = false
				case v == nil:
					nulls = true
				default:
					values = append(values, v)
				}
			}
			z, got := zones.Column(group, column)
			if got != known {
				t.Fatalf("group %d, column %d is known: %v, file: %v", group, column, got, ofFile)
			}
			if !known {
				continue
			}
			if z.Nulls != nulls || z.Values != (len(values) > 0) {
				t.Fatalf("group %d, column %d: %+v, want nulls %v", group, column, z, nulls)
			}
			for _, v := range values {
				after := append(bytes.Clone(v), 0)
				if !z.Between(v, after) || !z.Between(nil, after) || !z.Between(v, nil) {
					t.Fatalf("group %d, column %d: %+v denies %x", group, column, z, v)
				}
			}
			if len(values) > 0 {
				checkFine(t, &z, values)
			}
		}
	}
}

// checkFine checks that bounds begin as the least and the greatest value do, and that what they
// leave out is of no weight: they are 64 steps apart, or have all bytes, or three that differ.
func checkFine(t *rapid.T, z *zone.Column, values [][]byte) {
	least, greatest := values[0], values[0]
	for _, v := range values {
		if bytes.Compare(v, least) < 0 {
			least = v
		}
		if bytes.Compare(v, greatest) > 0 {
			greatest = v
		}
	}
	low, high := z.Min(), z.Max()
	if !bytes.HasPrefix(least, low) || !bytes.HasPrefix(greatest, high) {
		t.Fatalf("%x to %x have the bounds %x and %x", least, greatest, low, high)
	}
	n := 0
	for n < len(low) && low[n] == high[n] {
		n++
	}
	above := 0
	for i := n; i < len(low); i++ {
		above = above<<8 + int(high[i]) - int(low[i])
	}
	if whole := min(len(least), len(greatest), zone.MaxBoundBytes); above < 64 &&
		len(low) < whole && len(low)-n < 3 {
		t.Fatalf("%x to %x have the bounds %x and %x", least, greatest, low, high)
	}
}

// Zones of blocks, and of the file of them, deny no value; they know a column if each row has
// reported it, and nothing if a put was not described.
func TestColumnsModel(t *testing.T) {
	var b zone.ColumnsBuilder
	testutil.Check(t, func(rt *rapid.T) {
		b.Reset()
		var all []columnRow
		var blocks [][]columnRow
		for range rapid.IntRange(1, 5).Draw(rt, "blocks") {
			rows := rapid.SliceOfN(rapid.Custom(drawRow), 1, 12).Draw(rt, "rows")
			describeRows(&b, rows)
			all, blocks = append(all, rows...), append(blocks, rows)
		}
		zones := openColumns(t, &b, len(blocks))
		checkColumns(rt, zones[0], all, true)
		for i, rows := range blocks {
			checkColumns(rt, zones[i+1], rows, false)
		}
	})
}

// What is outside of the values is denied, up to what bounds leave out.
func TestBoundsOfColumns(t *testing.T) {
	var b zone.ColumnsBuilder
	for _, v := range []string{"b", "k", strings.Repeat("m", 30)} {
		b.Rows(1, 1)
		b.Values(2, 1, []byte(v), []byte(v))
	}
	b.FinishBlock(3)
	ff := bytes.Repeat([]byte{0xff}, 17)
	b.Rows(1, 1)
	b.Values(2, 1, ff, ff)
	b.FinishBlock(1)
	b.FinishBlock(0)
	zones := openColumns(t, &b, 3)
	z, known := zones[1].Column(1, 2)
	if !known || z.Between([]byte("a"), []byte("b")) || z.Between([]byte("n"), nil) ||
		!z.Between(nil, nil) || !z.Between([]byte("mn"), nil) {
		t.Errorf("%+v", z)
	}
	if z, _ = zones[2].Column(1, 2); !z.Between(append(ff, 1), nil) || z.Between(nil, ff[:16]) {
		t.Errorf("16 bytes of ff: %+v", z)
	}
	if z, known := zones[3].Column(1, 2); !known || z.Between(nil, nil) {
		t.Errorf("a block without rows: %v, %+v", known, z)
	}
}

// Zones have a limit: blocks with groups beyond it say nothing, columns beyond it are not known.
func TestLimitsOfColumns(t *testing.T) {
	var b zone.ColumnsBuilder
	v := []byte("v")
	for i := range uint64(130) {
		b.Rows(i, 1)
		for c := range uint64(40) {
			b.Values(c, 1, v, v)
		}
		b.FinishBlock(1)
	}
	zones := openColumns(t, &b, 130)
	for i := range uint64(130) {
		if _, known := zones[i+1].Column(i, 31); known != (i < 128) {
			t.Errorf("block of group %d: 32 columns are known: %v", i, known)
		}
		if _, known := zones[i+1].Column(i, 32); known {
			t.Errorf("block of group %d: 33 columns are known", i)
		}
	}
	if _, known := zones[0].Column(1, 2); known {
		t.Error("a file with 130 groups is known")
	}
}

// A column that only later blocks report is known in those.
func TestColumnOfLaterBlocks(t *testing.T) {
	var b zone.ColumnsBuilder
	for i := range 3 {
		b.Rows(1, 1)
		b.Values(1, 1, []byte("a"), []byte("a"))
		if i == 2 {
			b.Values(2, 1, []byte("b"), []byte("b"))
		}
		b.FinishBlock(1)
	}
	zones := openColumns(t, &b, 3)
	for i, want := range []bool{false, false, false, true} {
		if _, known := zones[i].Column(1, 2); known != want {
			t.Errorf("zone %d: known %v", i, known)
		}
		if z, known := zones[i].Column(1, 1); !known || string(z.Min()) != "a" {
			t.Errorf("zone %d: %v, %+v", i, known, z)
		}
	}
}

// TestDocumentedColumns: the bytes of the example in docs/format/sst.md.
func TestDocumentedColumns(t *testing.T) {
	var b zone.ColumnsBuilder
	for i, name := range []string{"Ada", "", "Grace Brewster Hopper"} {
		number := []byte{0x80, 0, 0, byte(10 + i)}
		b.Rows(7, 1)
		b.Values(1, 1, number, number)
		if name == "" {
			b.Nulls(2, 1)
		} else {
			b.Values(2, 1, []byte(name), []byte(name))
		}
		if i > 0 {
			b.FinishBlock(3 - i)
		}
	}
	want, err := testutil.PageBytes("../../docs/format/sst.md", "columns")
	ok(t, err)
	got := b.FinishFile(nil)
	if got = b.AppendBlock(b.AppendBlock(got, 0), 1); !bytes.Equal(got, want) {
		t.Errorf("the page shows %x, the builder makes %x", want, got)
	}
}

// Zones that cannot be decoded are not known.
func FuzzColumns(f *testing.F) {
	var b zone.ColumnsBuilder
	v := []byte("12345678")
	for i := range 3 {
		b.Rows(1, 2)
		b.Values(1, 2, v[:i], v[i:])
		b.Nulls(300, 2)
		b.Rows(2, i)
		b.FinishBlock(2 + i)
		f.Add(b.FinishFile(nil), b.AppendBlock(nil, i), uint64(1), uint64(300))
	}
	b.Unknown()
	b.FinishBlock(1)
	f.Add(b.FinishFile(nil), b.AppendBlock(nil, 3), uint64(1), uint64(1))
	f.Fuzz(func(t *testing.T, file, block []byte, group, column uint64) {
		defer testutil.Watch(file, block, group, column)()
		c, err := zone.OpenColumns(file)
		if err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		zones := c.Block(block)
		err = zones.Check()
		if err != nil && !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatal(err)
		}
		for _, zones := range []zone.Columns{zones, c.Columns()} {
			if z, known := zones.Column(group, column); z.Between(nil, nil) && !known {
				t.Fatalf("%+v is not known", z)
			}
		}
	})
}

// Describing rows does not allocate once the memory is there.
func TestColumnsAllocations(t *testing.T) {
	var b zone.ColumnsBuilder
	var dst []byte
	v := []byte("12345678")
	n := testutil.AllocsPerRun(100, func() {
		b.Reset()
		for i := range uint64(50) {
			b.Rows(i/20, 1)
			b.Values(0, 1, v, v)
			b.Nulls(1, 1)
		}
		b.FinishBlock(50)
		dst = b.AppendBlock(b.FinishFile(dst[:0]), 0)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
