package typed

import (
	"testing"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

var ok = testutil.OK

type fuzzedRow struct {
	A string           `kstone:"a,pk"`
	B time.Time        `kstone:"b,sk,ms"`
	C int32            `kstone:"c,sk,desc"`
	D uint64           `kstone:"d,sk"`
	E time.Time        `kstone:"e,us"`
	F *string          `kstone:"f"`
	G []int16          `kstone:"g"`
	H float32          `kstone:"h"`
	I keycodec.UUID    `kstone:"i"`
	J bool             `kstone:"j"`
	K keycodec.Decimal `kstone:"k"`
	L string           `kstone:"l"`
	M *int8            `kstone:"m"`
}

// FuzzStructRow: any bytes are read into a struct without a panic, and what can be read as
// values is the same in the struct.
func FuzzStructRow(f *testing.F) {
	t := NewTable[fuzzedRow]("t")
	s, err := t.Schema()
	ok(f, err)
	numbered := *s
	numbered.ID = 7
	s, err = schema.New(numbered)
	ok(f, err)
	b, err := t.bindTo(new(table.Table), s)
	ok(f, err)
	text, small := "text", int8(-3)
	for _, row := range []fuzzedRow{{}, {A: "a\x00", B: time.UnixMilli(-5), C: -1, D: 9,
		E: time.UnixMicro(77), F: &text, G: []int16{1, -2}, H: 1.5, I: keycodec.UUID{3}, J: true,
		K: keycodec.NewDecimal(15, 1), L: "last", M: &small}} {
		values := b.appendValues(nil, t.fields, unsafe.Pointer(&row))
		pk, sk, err := s.AppendRowKey(nil, nil, values)
		ok(f, err)
		value, err := s.AppendRow(nil, values)
		ok(f, err)
		f.Add(pk, sk, value)
	}
	f.Fuzz(func(test *testing.T, pk, sk, value []byte) {
		defer testutil.Watch(pk, sk, value)()
		key := store.Key{PK: pk, SK: sk}
		want := s.Row()
		decodeErr := s.Decode(want, key, value, nil)
		for _, keep := range []bool{true, false} {
			var row fuzzedRow
			err := b.read(unsafe.Pointer(&row), key, value, keep)
			if decodeErr != nil {
				continue
			}
			if err != nil {
				test.Fatalf("%v, but it is %v", err, want)
			}
			for i, fd := range t.fields {
				if got := fd.get(unsafe.Pointer(&row)); expr.Order(got, want[i]) != 0 {
					test.Fatalf("column %s is %s, want %s", fd.column.Name, got, want[i])
				}
			}
		}
	})
}
