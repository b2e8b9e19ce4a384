package typed

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/internal/testutil"
)

// plainRow has every kind of column that is written without values.
type plainRow struct {
	A   string    `kstone:"a,pk"`
	B   int64     `kstone:"b,pk"`
	C   uint64    `kstone:"c,sk"`
	D   [16]byte  `kstone:"d,sk"`
	E   time.Time `kstone:"e,sk,us"`
	F   int32     `kstone:"f,sk"`
	G   uint32    `kstone:"g,sk"`
	H   int16     `kstone:"h,sk"`
	I   uint16    `kstone:"i,sk"`
	J   int8      `kstone:"j,sk"`
	K   uint8     `kstone:"k,sk"`
	L   bool      `kstone:"l,sk"`
	M   int64     `kstone:"m,sk,decimal(2)"`
	VA  string    `kstone:"va"`
	VB  int64     `kstone:"vb"`
	VC  uint64    `kstone:"vc"`
	VD  [16]byte  `kstone:"vd"`
	VE  time.Time `kstone:"ve,ms"`
	VF  int32     `kstone:"vf"`
	VG  uint32    `kstone:"vg"`
	VH  int16     `kstone:"vh"`
	VI  uint16    `kstone:"vi"`
	VJ  int8      `kstone:"vj"`
	VK  uint8     `kstone:"vk"`
	VL  bool      `kstone:"vl"`
	VM  int64     `kstone:"vm,decimal(18)"`
	VN  time.Time `kstone:"vn,ns"`
	PA  *string   `kstone:"pa"`
	PB  *int64    `kstone:"pb"`
	PC  *[16]byte `kstone:"pc"`
	PD  *bool     `kstone:"pd"`
	ZA  string    `kstone:"za,null,ascii"`
	ZB  int64     `kstone:"zb,null"`
	ZE  time.Time `kstone:"ze,null,us"`
	End string    `kstone:"end"`
}

func drawText(r *rand.Rand) string {
	n := [...]int{0, 1, 7, 100, 300}[r.IntN(5)]
	if r.IntN(500) == 0 {
		n = 70_000
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = "\x00\x01aZ\xff"[r.IntN(5)]
	}
	return string(b)
}

func drawTime(r *rand.Rand) time.Time {
	switch r.IntN(20) {
	case 0:
		return time.Time{}
	case 1: // too far for some units
		return time.Unix([...]int64{1 << 33, -1 << 33, 1 << 40, -1 << 55, 1 << 60}[r.IntN(5)], 5)
	case 2:
		return time.Unix(0, 0).In(time.FixedZone("", 3600))
	}
	return time.Unix(r.Int64N(1<<34)-1<<33, r.Int64N(1e9)).UTC()
}

func drawPlain(r *rand.Rand) plainRow {
	number := func() uint64 { return r.Uint64() >> r.IntN(64) << r.IntN(64) }
	row := plainRow{A: drawText(r), B: int64(number()), C: number(), E: drawTime(r),
		F: int32(number()), G: uint32(number()), H: int16(number()), I: uint16(number()),
		J: int8(number()), K: uint8(number()), L: r.IntN(2) == 0, M: int64(number()),
		VA: drawText(r), VB: int64(number()), VC: number(), VE: drawTime(r), VF: int32(number()),
		VG: uint32(number()), VH: int16(number()), VI: uint16(number()), VJ: int8(number()),
		VK: uint8(number()), VL: r.IntN(2) == 0, VM: int64(number()), VN: drawTime(r),
		End: drawText(r)}
	row.D[r.IntN(16)], row.VD[r.IntN(16)] = uint8(number()), uint8(number())
	if r.IntN(2) == 0 {
		text, n, id, yes := drawText(r), int64(number()), row.D, r.IntN(2) == 0
		row.PA, row.PB, row.PC, row.PD = &text, &n, &id, &yes
		row.ZA, row.ZB, row.ZE = drawText(r), int64(number()), drawTime(r)
	}
	return row
}

// Structs are written as the same bytes with and without values; and those that are not, as
// they do not fit, are left to the way that says why.
func TestStructsAreWrittenAsTheirValues(t *testing.T) {
	seed := testutil.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	plain := NewTable[plainRow]("t")
	def, err := plain.Schema()
	ok(t, err)
	numbered := *def
	numbered.ID = 7
	def, err = schema.New(numbered)
	ok(t, err)
	b, err := plain.bindTo(new(table.Table), def)
	ok(t, err)
	if b.direct == nil {
		t.Fatal("some column is not among those that are written without values")
	}
	s, w := structs{b, plain.fields}, new(rowio.Writer)
	rules := &rowio.Rules{Schema: def}
	w.Reset(context.Background(), rules, nil)
	written, rows := 0, testutil.Effort(600, 3000)
	for range rows {
		row := drawPlain(r)
		values := b.appendValues(nil, plain.fields, unsafe.Pointer(&row))
		pk, sk, err := def.AppendRowKey(nil, nil, values)
		var value []byte
		if err == nil {
			value, err = def.AppendRow(nil, values)
		}
		key, ok := s.put(w, unsafe.Pointer(&row), store.Absent())
		if !ok {
			if pk, sk, val := w.Buffers(); len(pk)+len(sk)+len(val)+w.Set().Len() > 0 {
				t.Fatalf("what is not written leaves something behind")
			}
			continue
		}
		written++
		if err != nil {
			t.Fatalf("%+v is written, with values: %v", row, err)
		}
		got := w.Set().Ops[0]
		if !bytes.Equal(key.PK, pk) || !bytes.Equal(key.SK, sk) || !rowio.SameKey(got.Key, key) ||
			!bytes.Equal(got.Value, value) || got.Cond.Kind != store.CondAbsent {
			t.Fatalf("%+v\nis %x %x %x\nnot %x %x %x", row, key.PK, key.SK, got.Value, pk, sk,
				value)
		}
		w.Reset(context.Background(), rules, nil)
	}
	if written < rows/2 {
		t.Errorf("only %d of %d structs are written", written, rows)
	}
}

// Columns of other kinds, and keys that are stored in another way, need values.
func TestStructsThatNeedValues(t *testing.T) {
	type folded struct {
		A string `kstone:"a,pk,ascii"`
	}
	type falling struct {
		A int64 `kstone:"a,pk,desc"`
	}
	type float struct {
		A int64   `kstone:"a,pk"`
		B float64 `kstone:"b"`
	}
	type expiring struct {
		A int64     `kstone:"a,pk"`
		B time.Time `kstone:"b,ms,ttl(1h)"`
	}
	type coarse struct {
		A int64     `kstone:"a,pk"`
		B time.Time `kstone:"b,s"`
	}
	type list struct {
		A int64   `kstone:"a,pk"`
		B []int64 `kstone:"b"`
	}
	needsValues[folded](t)
	needsValues[falling](t)
	needsValues[float](t)
	needsValues[expiring](t)
	needsValues[coarse](t)
	needsValues[list](t)
}

func needsValues[T any](t *testing.T) {
	t.Helper()
	of := NewTable[T]("t")
	def, err := of.Schema()
	ok(t, err)
	b, err := of.bindTo(new(table.Table), def)
	ok(t, err)
	if b.direct != nil {
		t.Errorf("%T is written without values", *new(T))
	}
}
