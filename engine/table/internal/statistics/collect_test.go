package statistics_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/engine/table/internal/statistics"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

var ok = testutil.OK

var ctx = context.Background()

// items is a store.Reader of a list. After failAfter items, if that is not 0, a scan fails.
type items struct {
	list      []store.Item
	failAfter int
	weight    float64 // of items of a sample; 0: the list has no samples
}

var errUnreadable = errors.New("unreadable")

func (s *items) Get(context.Context, []byte, store.Key) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

func (s *items) MultiGet(context.Context, []store.Key, func(int, store.Item)) error {
	return errors.ErrUnsupported
}

// Scan lends each item for the time of the loop body.
func (s *items) Scan(_ context.Context, rg store.Range) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		n := 0
		for _, it := range s.list {
			if pk := string(it.Key.PK); pk < string(rg.From) || pk >= string(rg.To) {
				continue
			}
			if n++; s.failAfter > 0 && n > s.failAfter {
				yield(store.Item{}, errUnreadable)
				return
			}
			lent := it.Clone()
			if !yield(lent, nil) {
				return
			}
			clear(lent.Key.PK)
			clear(lent.Value)
		}
	}
}

// sampled is a list that returns samples: every item, which stands for several.
type sampled struct{ *items }

func (s sampled) Sample(ctx context.Context, q store.Sample) iter.Seq2[store.Sampled, error] {
	return func(yield func(store.Sampled, error) bool) {
		for it, err := range s.Scan(ctx, store.Interval(q.From.PK, q.To.PK)) {
			if !yield(store.Sampled{Item: it, Weight: s.weight}, err) {
				return
			}
		}
	}
}

// events is a table of an id that grows, a nullable kind with an index, a constant, a number that
// falls, and a list; another index is not ready.
func events(t *testing.T) *schema.Table {
	t.Helper()
	index := func(name string, ordinal int, state schema.State) *schema.Index {
		return &schema.Index{Name: name, State: state,
			Columns: []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: ordinal}}}}
	}
	s, err := schema.New(schema.Table{Name: "events", ID: 7,
		Columns: []schema.Column{{Name: "id", Type: keycodec.TypeInt64},
			{Name: "kind", Type: keycodec.TypeString, Nullable: true},
			{Name: "one", Type: keycodec.TypeInt64}, {Name: "down", Type: keycodec.TypeInt64},
			{Name: "tags", Type: keycodec.TypeString, List: true}},
		PK: []schema.KeyColumn{{}},
		Indexes: []*schema.Index{index("by_kind", 1, schema.Ready),
			index("by_down", 3, schema.Building), index("by_id", 0, schema.Ready)}})
	ok(t, err)
	return s
}

// stored returns n rows with their entries, one version each: of four rows one has no kind, the
// others one of three.
func stored(t *testing.T, s *schema.Table, n int) *items {
	t.Helper()
	out, rules := new(items), rowio.NewRules(s)
	for i := range n {
		kind := expr.Null()
		if i%4 > 0 {
			kind = expr.String([]string{"", "k2", "k1", "k3"}[i%4])
		}
		w := rowio.NewWriter(false, false)
		w.Reset(ctx, &rules, out)
		ok(t, w.Insert([]expr.Value{expr.Int(int64(i)), kind, expr.Int(1),
			expr.Int(int64(n - i)), expr.List(nil)}))
		for _, op := range w.Set().Ops {
			it := store.Item{Key: op.Key, Value: op.Value, Version: uint64(i + 1)}
			out.list = append(out.list, it.Clone())
		}
		w.Release()
	}
	return out
}

// near reports whether a number is within a tenth of another one.
func near(got, want float64) bool { return math.Abs(got-want) <= want/10 }

func check(t *testing.T, s *plan.TableStats, rows float64, distinct []float64, rowBytes float64) {
	t.Helper()
	if s.Rows != rows || s.RowBytes != rowBytes {
		t.Errorf("%v rows of %v bytes, want %v of %v", s.Rows, s.RowBytes, rows, rowBytes)
	}
	if !slices.EqualFunc(s.Distinct, distinct, near) {
		t.Errorf("different values: %v, want %v", s.Distinct, distinct)
	}
	var ids []uint32
	for i := range s.Keys {
		k := &s.Keys[i]
		ids = append(ids, k.Index)
		if k.Entries != rows || k.Monotonic != (k.Index != 1) {
			t.Errorf("key %d: %v entries, grows %t", k.Index, k.Entries, k.Monotonic)
		}
	}
	if !slices.Equal(ids, []uint32{0, 1, 3}) || !slices.Equal(s.Monotonic, []int{0}) {
		t.Fatalf("statistics of keys %v, columns that grow: %v", ids, s.Monotonic)
	}
	kinds := &s.Keys[1]
	if kinds.Nulls != .25 || !near(kinds.Distinct[0], 4) || len(kinds.Heavy) != 3 {
		t.Errorf("kinds: %v NULL, %v different, %d frequent", kinds.Nulls, kinds.Distinct,
			len(kinds.Heavy))
	}
	for _, h := range kinds.Heavy {
		if h.Fraction != .25 {
			t.Errorf("%q is %v of the kinds", h.Key, h.Fraction)
		}
	}
}

// TestCollectEverything: all rows and all entries of indexes that are ready are counted.
func TestCollectEverything(t *testing.T) {
	s := events(t)
	const n = 4000 // more than the sample of the order of writing holds
	r := stored(t, s, n)
	var told []string
	all, err := statistics.Collect(ctx, s, r, statistics.Options{
		Progress: func(index string, done int64) { told = append(told, fmt.Sprint(index, done)) }})
	ok(t, err)
	size := 0
	for _, it := range r.list {
		if string(it.Key.PK) < string(rowio.Rows(s).To) && string(it.Key.PK) >=
			string(rowio.Rows(s).From) {
			size += len(it.Key.PK) + len(it.Key.SK) + len(it.Value)
		}
	}
	check(t, all, n, []float64{n, 3, 1, n, 0}, float64(size)/n)
	if !slices.Equal(told, []string{"by_id10000"}) {
		t.Errorf("progress: %q", told)
	}

	// A sample of all rows, each standing for ten, is ten times as large.
	r.weight = 10
	some, err := statistics.Collect(ctx, s, sampled{r}, statistics.Options{SampleRows: n, Seed: 1})
	ok(t, err)
	check(t, some, 10*n, []float64{10 * n, 3, 1, 10 * n, 0}, float64(size)/n)

	// A smaller sample of a reader without samples estimates the same.
	some, err = statistics.Collect(ctx, s, r, statistics.Options{SampleRows: n / 4, Seed: 1})
	if err != nil || some.Rows != n || !near(some.Distinct[0], n) || !near(some.Distinct[1], 3) {
		t.Errorf("%+v, %v", some, err)
	}
	again, err := statistics.Collect(ctx, s, r, statistics.Options{SampleRows: n / 4, Seed: 1})
	if err != nil || again.Keys[1].Nulls != some.Keys[1].Nulls {
		t.Errorf("one seed chooses %v and %v, %v", some.Keys[1].Nulls, again.Keys[1].Nulls, err)
	}
}

// TestCollectFewRows: no rows are no statistics, and few rows do not show which columns grow.
func TestCollectFewRows(t *testing.T) {
	s := events(t)
	for _, n := range []int{0, 1, 20, 21} {
		for _, sample := range []int{0, 1000} {
			got, err := statistics.Collect(ctx, s, stored(t, s, n),
				statistics.Options{SampleRows: sample, Seed: 1})
			ok(t, err)
			// 20 pairs of rows are needed.
			if grows := slices.Contains(got.Monotonic, 0); got.Rows != float64(n) ||
				grows != (n > 20) || got.Keys[0].Entries != float64(n) ||
				math.IsNaN(got.RowBytes) {
				t.Errorf("%d rows, sample %d: %v rows of %v bytes, columns that grow: %v", n,
					sample, got.Rows, got.RowBytes, got.Monotonic)
			}
		}
	}
}

// TestCollectSampleOfOne: a sample of one row estimates the size of the table.
func TestCollectSampleOfOne(t *testing.T) {
	s := events(t)
	for n := 1; n < 8; n++ {
		got, err := statistics.Collect(ctx, s, stored(t, s, n),
			statistics.Options{SampleRows: 1, Seed: uint64(n)})
		ok(t, err)
		if got.Rows != float64(n) || got.Distinct[0] != float64(n) || got.Distinct[2] == 0 ||
			len(got.Keys[0].Histogram.Bounds) > 0 {
			t.Errorf("%d rows: %v rows, %v different values", n, got.Rows, got.Distinct)
		}
	}
}

// TestCollectUnreadable: damage of a row or an entry is an error with its place, and so is that of
// the store.
func TestCollectUnreadable(t *testing.T) {
	s := events(t)
	r := stored(t, s, 3)
	r.failAfter = 2
	sizes := []statistics.Options{{}, {SampleRows: 10, Seed: 1}}
	for _, o := range sizes {
		got, err := statistics.Collect(ctx, s, r, o)
		if !errors.Is(err, errUnreadable) || got != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
	r.failAfter = 0
	var at *corrupt.Error
	value := r.list[0].Value
	for _, c := range []struct {
		value  []byte
		offset int64
	}{{nil, 0}, {[]byte{0, 0x80, 0}, 1}} {
		r.list[0].Value = c.value
		for _, o := range sizes {
			_, err := statistics.Collect(ctx, s, r, o)
			if !errors.As(err, &at) || at.What != "row" || at.Offset != c.offset {
				t.Errorf("%x: %v", c.value, err)
			}
		}
	}
	r.list[0].Value = value
	entries := 0
	for i, it := range r.list {
		if len(it.Key.SK) == 0 || string(it.Key.PK) >= string(rowio.Entries(s.Indexes[1]).From) &&
			string(it.Key.PK) < string(rowio.Entries(s.Indexes[1]).To) {
			continue
		}
		entries++
		sk := it.Key.SK
		r.list[i].Key.SK = []byte{}
		if _, err := statistics.Collect(ctx, s, r, statistics.Options{}); err == nil {
			t.Errorf("item %d: an entry without its columns is not noticed", i)
		}
		r.list[i].Key.SK = sk
	}
	if _, err := statistics.Collect(ctx, s, r, statistics.Options{}); err != nil || entries != 6 {
		t.Errorf("%d entries were damaged and are whole again: %v", entries, err)
	}
}

// largeRows is a store.Sampler of rows with texts of 1 MiB that differ in their last bytes. At the
// end of a scan it notes how many bytes live.
type largeRows struct {
	*items
	t    *schema.Table
	n    int
	live uint64
}

func (s *largeRows) Scan(context.Context, store.Range) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		text := bytes.Repeat([]byte{'x'}, 1<<20)
		for i := range s.n {
			row := []expr.Value{expr.Int(int64(i)), expr.String(fmt.Sprintf("%s%d", text, i))}
			it := store.Item{Version: uint64(i + 1)}
			var errs [2]error
			it.Key.PK, it.Key.SK, errs[0] = s.t.AppendRowKey(nil, nil, row)
			it.Value, errs[1] = s.t.AppendRow(nil, row)
			if !yield(it, errors.Join(errs[:]...)) {
				return
			}
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.live = m.HeapAlloc
	}
}

// A sample of large rows takes little memory, and different values count as such.
func TestCollectLargeRows(t *testing.T) {
	s, err := schema.New(schema.Table{Name: "large", ID: 7, PK: []schema.KeyColumn{{}},
		Columns: []schema.Column{{Name: "id", Type: keycodec.TypeInt64},
			{Name: "body", Type: keycodec.TypeString}}})
	ok(t, err)
	for _, sample := range []int{0, 64} {
		r := &largeRows{t: s, n: 64}
		got, err := statistics.Collect(ctx, s, r, statistics.Options{SampleRows: sample, Seed: 1})
		ok(t, err)
		if got.Rows != 64 || !near(got.Distinct[1], 64) || got.RowBytes < 1<<20 ||
			r.live > 32<<20 {
			t.Errorf("sample %d: %v rows of %v bytes, %v different values; %d bytes live", sample,
				got.Rows, got.RowBytes, got.Distinct, r.live)
		}
	}
}
