package typed_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// sale has six columns, as the rows of the benchmarks.
type sale struct {
	Shop   string    `kstone:"shop,pk"`
	At     time.Time `kstone:"at,sk,ms"`
	Seq    int64     `kstone:"seq,sk"`
	Item   string    `kstone:"item"`
	Amount int64     `kstone:"amount,decimal(2)"`
	Weight float64   `kstone:"weight"`
}

const saleCount = 10_000

func saleOf(i int) sale {
	at := day(1).Add(time.Duration(i) * time.Second)
	return sale{Shop: "shop-" + string(rune('a'+i%16)), At: at,
		Seq: int64(i), Item: "a thing of some length", Amount: int64(i), Weight: float64(i) / 4}
}

func openSales(t testing.TB) (*table.DB, *typed.Table[sale]) {
	t.Helper()
	sales := typed.NewTable[sale]("sales")
	db := openTyped(t, sales)
	rows := make([]sale, saleCount)
	for i := range rows {
		rows[i] = saleOf(i)
	}
	ok(t, second(sales.InsertMany(ctx, db, rows)))
	return db, sales
}

func TestTypedReadsAllocateLittle(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	db, sales := openSales(t)
	shop := typed.Col(sales, func(s *sale) *string { return &s.Shop })
	at := typed.Col(sales, func(s *sale) *time.Time { return &s.At })
	seq := typed.Col(sales, func(s *sale) *int64 { return &s.Seq })
	want := saleOf(77)
	row := sale{Shop: want.Shop, At: want.At, Seq: want.Seq}
	load := func() {
		if err := sales.Load(ctx, db, &row); err != nil {
			t.Error(err)
		}
	}
	if n := testutil.AllocsPerRun(100, load); n > 0 || row != want {
		t.Errorf("Load: %v allocations, %+v", n, row)
	}
	get := func() {
		var err error
		if row, err = sales.Get(ctx, db, shop.Eq(want.Shop), at.Eq(want.At),
			seq.Eq(want.Seq)); err != nil {
			t.Error(err)
		}
	}
	// The struct, its two texts.
	if n := testutil.AllocsPerRun(100, get); n > 3 || row != want {
		t.Errorf("Get: %v allocations, %+v", n, row)
	}
	most := typed.Arg[int]{Name: "most"}
	q := sales.Where().LimitArg(most).Prepare()
	each := func(limit int) float64 {
		bound := most.Is(limit)
		return testutil.AllocsPerRun(5, func() {
			for s, err := range q.Each(ctx, db, bound) {
				if err != nil || s.Item == "" {
					t.Fatal(err)
				}
			}
		})
	}
	few, many := each(100), each(5100)
	if perRow := (many - few) / 5000; perRow > 0.02 {
		t.Errorf("Each: %v allocations for 100 rows, %v for 5100", few, many)
	}
	t.Logf("Each: %v allocations for 100 rows, %v for 5100", few, many)
}

// rawGet reads a sale without tables: a key by hand, a read of the engine, and the columns
// from where they are known to lie.
func rawGet(db *table.DB, prefix []byte, buf *[2][]byte, value []byte, s *sale) ([]byte, error) {
	pk := keycodec.AppendString(append(buf[0][:0], prefix...), s.Shop)
	sk := keycodec.AppendInt64(keycodec.AppendInt64(buf[1][:0], s.At.UnixMilli()), s.Seq)
	buf[0], buf[1] = pk, sk
	value, err := local.Engine(db).AppendGet(value[:0], keycodec.Key{PK: pk, SK: sk})
	if err != nil {
		return value, err
	}
	if len(value) < 18 {
		return value, errors.New("short")
	}
	s.Amount = int64(binary.LittleEndian.Uint64(value[2:]))
	s.Weight = math.Float64frombits(binary.LittleEndian.Uint64(value[10:]))
	s.Item = string(value[18:])
	return value, nil
}

// BenchmarkTypedGet compares reads by primary key with those of the engine, taking turns.
func BenchmarkTypedGet(b *testing.B) {
	db, sales := openSales(b)
	shop := typed.Col(sales, func(s *sale) *string { return &s.Shop })
	at := typed.Col(sales, func(s *sale) *time.Time { return &s.At })
	seq := typed.Col(sales, func(s *sale) *int64 { return &s.Seq })
	handle, err := db.Table("sales")
	ok(b, err)
	q := sales.Where(shop.EqArg(shop.Arg("shop")), at.EqArg(at.Arg("at")),
		seq.EqArg(seq.Arg("seq"))).Prepare()
	shopIs, atIs, seqIs := shop.Arg("shop"), at.Arg("at"), seq.Arg("seq")
	prefix := handle.Schema().AppendRowPrefix(nil)
	var buf [2][]byte
	var value []byte
	var spent [4]time.Duration
	const turn = 200
	keys := make([]sale, turn)
	for n := 0; n < b.N; n += turn {
		for i := range keys {
			keys[i] = saleOf((n + i) * 7919 % saleCount)
		}
		for way := range spent {
			start := time.Now()
			for _, k := range keys {
				row := sale{Shop: k.Shop, At: k.At, Seq: k.Seq}
				switch way {
				case 0:
					value, err = rawGet(db, prefix, &buf, value, &row)
				case 1:
					err = sales.Load(ctx, db, &row)
				case 2:
					row, err = sales.Get(ctx, db, shop.Eq(k.Shop), at.Eq(k.At), seq.Eq(k.Seq))
				case 3:
					row, err = q.First(ctx, db, shopIs.Is(k.Shop), atIs.Is(k.At), seqIs.Is(k.Seq))
				}
				if err != nil || row != k {
					b.Fatalf("%d: %+v, want %+v: %v", way, row, k, err)
				}
			}
			spent[way] += time.Since(start)
		}
	}
	for way, name := range []string{"raw", "load", "get", "prepared"} {
		b.ReportMetric(float64(spent[way].Nanoseconds())/float64(b.N), name+"-ns")
		b.ReportMetric(float64(spent[way])/float64(spent[0]), name+"/raw")
	}
}
