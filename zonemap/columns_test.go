package zonemap_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap"
)

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

func describeRow(b *zonemap.ColumnsBuilder, r *columnRow) {
	b.Begin()
	defer b.End()
	if r.unknown {
		return
	}
	b.Row(r.group)
	for column, v := range r.values {
		if v == nil {
			b.Null(column)
		} else {
			b.Value(column, v)
		}
	}
}

// checkColumns compares the zones with the rows that they are of.
func checkColumns(t *rapid.T, data []byte, rows []columnRow) {
	zones := zonemap.OpenColumns(data)
	if err := zones.Check(); err != nil {
		t.Fatalf("%x: %v", data, err)
	}
	for _, group := range []uint64{0, 1, 2, 5, 300} {
		for _, column := range []uint64{0, 1, 2, 3, 200} {
			known, nulls, least := true, uint64(0), []byte(nil)
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
					nulls++
				default:
					if values = append(values, v); least == nil || bytes.Compare(v, least) < 0 {
						least = v
					}
				}
			}
			z, got := zones.Column(group, column)
			if got != known {
				t.Fatalf("%x: group %d, column %d is known: %v", data, group, column, got)
			}
			if !known {
				continue
			}
			if z.Nulls != nulls || z.Values != (len(values) > 0) {
				t.Fatalf("group %d, column %d: %+v, want %d nulls", group, column, z, nulls)
			}
			for _, v := range values {
				if !z.Between(v, v) || !z.Between(nil, v) || !z.Between(v, nil) {
					t.Fatalf("group %d, column %d: %+v denies %x", group, column, z, v)
				}
			}
			if cut := least[:min(len(least), zonemap.MaxBoundBytes)]; !bytes.Equal(z.Min, cut) {
				t.Fatalf("group %d, column %d: %x is not the least value %x", group, column, z.Min,
					least)
			}
		}
	}
}

// Zones of blocks, and of the file of them, deny no value; they know a column if each row has
// reported it, and nothing if a put was not described.
func TestColumnsModel(t *testing.T) {
	var b zonemap.ColumnsBuilder
	testutil.Check(t, func(t *rapid.T) {
		b.Reset()
		var all []columnRow
		for range rapid.IntRange(1, 5).Draw(t, "blocks") {
			rows := rapid.SliceOfN(rapid.Custom(drawRow), 1, 12).Draw(t, "rows")
			for i := range rows {
				describeRow(&b, &rows[i])
			}
			all = append(all, rows...)
			checkColumns(t, b.FinishBlock(nil), rows)
		}
		checkColumns(t, b.FinishFile(nil), all)
	})
}

// What is outside of the values is denied, up to what bounds leave out.
func TestBoundsOfColumns(t *testing.T) {
	var b zonemap.ColumnsBuilder
	long := strings.Repeat("m", 30)
	for _, v := range []string{"b", "k", long} {
		b.Row(1)
		b.Value(2, []byte(v))
	}
	z, known := zonemap.OpenColumns(b.FinishBlock(nil)).Column(1, 2)
	if !known || z.Between([]byte("a"), []byte("az")) || z.Between([]byte("mn"), nil) ||
		z.Between(nil, nil) != true || z.Open {
		t.Errorf("%+v", z)
	}
	b.Row(1)
	b.Value(2, bytes.Repeat([]byte{0xff}, 17))
	z, _ = zonemap.OpenColumns(b.FinishBlock(nil)).Column(1, 2)
	if !z.Open || !z.Between(bytes.Repeat([]byte{0xff}, 40), nil) {
		t.Errorf("a value above all bounds is denied: %+v", z)
	}
	if none := zonemap.OpenColumns(b.FinishBlock(nil)); true {
		if z, known := none.Column(1, 2); !known || z.Between(nil, nil) {
			t.Errorf("a block without rows: %v, %+v", known, z)
		}
	}
}

// A row may have several values in a column, which counts as reported once.
func TestSeveralValuesInAColumn(t *testing.T) {
	var b zonemap.ColumnsBuilder
	b.Row(1)
	b.Row(1)
	b.Value(2, []byte("x"))
	b.Value(2, []byte("a"))
	if _, known := zonemap.OpenColumns(b.FinishBlock(nil)).Column(1, 2); known {
		t.Error("the row without the column is forgotten")
	}
	b.Row(1)
	b.Value(2, []byte("x"))
	b.Value(2, []byte("a"))
	z, known := zonemap.OpenColumns(b.FinishBlock(nil)).Column(1, 2)
	if !known || string(z.Min) != "a" || string(z.Max) != "x" {
		t.Errorf("%v, %+v", known, z)
	}
}

// Zones have a limit: too many groups say nothing, columns beyond the limit are not known.
func TestLimitsOfColumns(t *testing.T) {
	var b zonemap.ColumnsBuilder
	for i := range uint64(100) {
		b.Row(1)
		for c := range uint64(100) {
			b.Value(c, []byte("v"))
		}
		if i < 10 {
			continue
		}
		b.Row(i)
	}
	block := b.FinishBlock(nil)
	if _, known := zonemap.OpenColumns(block).Column(1, 2); known || len(block) != 1 {
		t.Errorf("100 groups in %d bytes", len(block))
	}
	b.Row(1)
	for c := range uint64(100) {
		b.Value(c, []byte("v"))
	}
	zones := zonemap.OpenColumns(b.FinishBlock(nil))
	if _, known := zones.Column(1, 31); !known {
		t.Error("32 columns are too many")
	}
	if _, known := zones.Column(1, 32); known {
		t.Error("33 columns are known")
	}
}

// TestDocumentedColumns: the bytes of the example in docs/format/sst.md.
func TestDocumentedColumns(t *testing.T) {
	var b zonemap.ColumnsBuilder
	for i, name := range []string{"Ada", "", "Grace Brewster Hopper"} {
		b.Row(7)
		b.Value(1, []byte{0x80, 0, 0, byte(10 + i)})
		if name == "" {
			b.Null(2)
		} else {
			b.Value(2, []byte(name))
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "format", "sst.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```columns\n")
	example, _, _ = strings.Cut(example, "```")
	var want []byte
	for line := range strings.Lines(example) {
		fields := strings.SplitN(line, "  ", 3)
		part, err := hex.DecodeString(strings.ReplaceAll(fields[1], " ", ""))
		if err != nil || fields[0] != fmt.Sprintf("%04x", len(want)) {
			t.Fatalf("line %q: %v", line, err)
		}
		want = append(want, part...)
	}
	if got := b.FinishBlock(nil); !bytes.Equal(got, want) {
		t.Errorf("the page shows %x, the builder makes %x", want, got)
	}
}

// Zones that cannot be decoded are not known.
func FuzzColumns(f *testing.F) {
	var b zonemap.ColumnsBuilder
	f.Add(b.FinishBlock(nil), uint64(0), uint64(0))
	for i := range uint64(6) {
		b.Row(i % 2)
		b.Value(1, bytes.Repeat([]byte{byte(i)}, int(i)*4))
		b.Null(300)
	}
	f.Add(b.FinishBlock(nil), uint64(1), uint64(300))
	b.Unknown()
	f.Add(b.FinishBlock(nil), uint64(1), uint64(300))
	f.Fuzz(func(t *testing.T, data []byte, group, column uint64) {
		defer testutil.Watch(data, group, column)()
		zones := zonemap.OpenColumns(data)
		z, known := zones.Column(group, column)
		err := zones.Check()
		if err != nil && !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatal(err)
		}
		if z.Between(nil, nil) && !known {
			t.Fatalf("%+v is not known", z)
		}
	})
}

// Describing rows does not allocate once the memory is there.
func TestColumnsAllocations(t *testing.T) {
	var b zonemap.ColumnsBuilder
	var dst []byte
	v := []byte("12345678")
	n := testutil.AllocsPerRun(100, func() {
		for i := range uint64(50) {
			b.Begin()
			b.Row(i / 20)
			b.Value(0, v)
			b.Null(1)
			b.End()
		}
		dst = b.FinishBlock(dst[:0])
	})
	if dst = b.FinishFile(dst[:0]); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkColumns(b *testing.B) {
	var c zonemap.ColumnsBuilder
	v := []byte("12345678")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		v[7], v[6] = byte(i), byte(i>>8)
		c.Begin()
		c.Row(1)
		c.Value(0, v)
		c.End()
	}
}
