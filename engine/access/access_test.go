package access_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/access"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/composite"
	"github.com/kstonedb/kstone/keycodec/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func memory(t testing.TB) *engine.DB {
	db := must(engine.Open("access", &engine.Options{InMemory: true}))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

var (
	user     = composite.Field{Name: "user_id", Type: composite.String, Width: 32}
	category = composite.Field{Name: "category", Type: composite.String, Width: 16}
	date     = composite.Field{Name: "order_date", Type: composite.Timestamp}
	id       = composite.Field{Name: "order_id", Type: composite.UUID}
)

func schema(shards int, fields ...composite.Field) *composite.Schema {
	var o composite.Options
	if shards > 0 {
		o.Shard = &shard.Spec{Function: shard.MD5, Count: shards}
	}
	return must(composite.NewSchema(o, fields...))
}

// byUser and byCategory are the two keys of the specification's conflicting patterns. The
// second one ends with the fields of the first, so that its keys are distinct.
func byUser(shards int) access.Index {
	return access.Index{Name: "orders", Keys: schema(shards, user, date, id)}
}

func byCategory(shards int) access.Index {
	return access.Index{Name: "orders.category", Keys: schema(shards, category, date, user, id)}
}

type fields = map[string]any

// order returns record n of a set in which 100 users have 100 orders each, dates in
// seconds, in five categories.
func order(n int) access.Record {
	return access.Record{
		Fields: fields{
			"user_id": fmt.Sprintf("USR_%05d", n%100), "order_date": 1737100800000 + int64(n)*1000,
			"category": fmt.Sprintf("C%d", n%5),
			"order_id": keycodec.UUID{14: byte(n >> 8), 15: byte(n)},
		},
		Payload: fmt.Appendf(nil, "order %d, %s", n, strings.Repeat("x", 80)),
	}
}

func fill(t testing.TB, c *access.Collection, n int) {
	for i := 0; i < n; i += 10 {
		records := make([]access.Record, min(10, n-i))
		for j := range records {
			records[j] = order(i + j)
		}
		if err := c.Put(ctx, records...); err != nil {
			t.Fatal(err)
		}
	}
}

// collect returns the payloads of a scan.
func collect(t testing.TB, records iter.Seq2[access.Match, error]) []string {
	t.Helper()
	var out []string
	for r, err := range records {
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(r.Payload), ",")
		out = append(out, text)
	}
	return out
}

// The three operations of the specification, and its two keys side by side.
func TestOrderManagement(t *testing.T) {
	c := must(access.Open(memory(t), byUser(256), byCategory(16)))
	fill(t, c, 1000)

	want := order(345)
	got, err := c.ExactLookup(fields{"user_id": "USR_00045", "order_date": int64(1737101145000),
		"order_id": want.Fields["order_id"]})
	if err != nil || !bytes.Equal(got.Payload, want.Payload) {
		t.Errorf("exact lookup: %v, error %v", got, err)
	}
	if at := must(got.Fields())["order_date"]; at != time.UnixMilli(1737101145000).UTC() {
		t.Errorf("the record has the date %v", at)
	}

	list := collect(t, c.PrefixScan(ctx, fields{"user_id": "USR_00045"}, 3))
	if fmt.Sprint(list) != "[order 45 order 145 order 245]" {
		t.Errorf("prefix scan: %v", list)
	}
	lo, hi := order(145).Fields["order_date"], order(345).Fields["order_date"]
	list = collect(t, c.RangeScan(ctx, fields{"user_id": "USR_00045"}, "order_date",
		composite.Including(lo), composite.Including(hi), 100))
	if fmt.Sprint(list) != "[order 145 order 245 order 345]" {
		t.Errorf("range scan: %v", list)
	}
	list = collect(t, c.RangeScan(ctx, fields{"user_id": "USR_00045"}, "order_date",
		composite.Excluding(lo), composite.Excluding(hi), 100))
	if fmt.Sprint(list) != "[order 245]" {
		t.Errorf("range scan without its ends: %v", list)
	}
	// The other pattern goes through the other key.
	list = collect(t, c.RangeScan(ctx, fields{"category": "C2"}, "order_date",
		composite.Including(order(10).Fields["order_date"]), composite.Bound{}, 3))
	if fmt.Sprint(list) != "[order 12 order 17 order 22]" {
		t.Errorf("range scan of a category: %v", list)
	}
	got, err = c.ExactLookup(order(77).Fields)
	if err != nil || !bytes.Equal(got.Payload, order(77).Payload) || len(must(got.Fields())) != 4 {
		t.Errorf("exact lookup through the other key: %v, error %v", got, err)
	}
}

// A user's name that begins another's finds only its own orders.
func TestPrefixIsEquality(t *testing.T) {
	c := must(access.Open(memory(t), byUser(0)))
	for _, name := range []string{"U001", "U0012", "U00"} {
		r := order(1)
		r.Fields["user_id"], r.Payload = name, []byte(name)
		if err := c.Put(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if list := collect(t, c.PrefixScan(ctx, fields{"user_id": "U001"}, 0)); len(list) != 1 ||
		list[0] != "U001" {
		t.Errorf("U001 has %v", list)
	}
}

// The end of a range over the last field is the key of a record, which is not part of it.
func TestExcludedEndIsARecord(t *testing.T) {
	c := must(access.Open(memory(t), byUser(4)))
	for n := range 4 {
		r := order(1)
		r.Fields["order_id"] = keycodec.UUID{15: byte(n)}
		r.Payload = fmt.Appendf(nil, "id %d", n)
		if err := c.Put(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	equal := fields{"user_id": order(1).Fields["user_id"],
		"order_date": order(1).Fields["order_date"]}
	lo, hi := keycodec.UUID{15: 1}, keycodec.UUID{15: 3}
	for want, bounds := range map[string][2]composite.Bound{
		"[id 1 id 2]":      {composite.Including(lo), composite.Excluding(hi)},
		"[id 1 id 2 id 3]": {composite.Including(lo), composite.Including(hi)},
		"[id 2]":           {composite.Excluding(lo), composite.Excluding(hi)},
		"[id 0 id 1]":      {{}, composite.Including(lo)},
	} {
		list := collect(t, c.RangeScan(ctx, equal, "order_id", bounds[0], bounds[1], 0))
		if fmt.Sprint(list) != want {
			t.Errorf("%v, want %s", list, want)
		}
	}
}

func TestNoKeyForPattern(t *testing.T) {
	c := must(access.Open(memory(t), byUser(256), byCategory(16)))
	for _, err := range []error{
		first(c.PrefixScan(ctx, fields{"order_date": 1}, 0)),
		first(c.PrefixScan(ctx, fields{"user_id": "u", "order_id": keycodec.UUID{}}, 0)),
		first(c.PrefixScan(ctx, fields{"user_id": "u", "status": "new"}, 0)),
		first(c.RangeScan(ctx, fields{"user_id": "u"}, "order_id", composite.Bound{},
			composite.Bound{}, 0)),
		first(c.RangeScan(ctx, order(1).Fields, "status", composite.Bound{}, composite.Bound{}, 0)),
		second(c.ExactLookup(fields{"user_id": "u"})),
		second(c.ExactLookup(fields{"status": "u"})),
	} {
		if !errors.Is(err, access.ErrNoKey) {
			t.Errorf("error %v, want ErrNoKey", err)
		}
	}
	if err := first(c.PrefixScan(ctx, fields{"user_id": "u"}, -1)); err == nil {
		t.Error("a negative limit is accepted")
	}
	if err := first(c.PrefixScan(ctx, fields{"user_id": 7}, 0)); !errors.Is(err,
		composite.ErrValue) {
		t.Errorf("a number as a user: %v", err)
	}
}

func first(records iter.Seq2[access.Match, error]) error {
	for _, err := range records {
		return err
	}
	return nil
}

func second(_ access.Match, err error) error { return err }

// An order that changes its category leaves no key behind, and one that is deleted none.
func TestParallelKeysFollow(t *testing.T) {
	db := memory(t)
	c := must(access.Open(db, byUser(0), byCategory(0)))
	fill(t, c, 20)
	r := order(7)
	r.Fields["category"] = "moved"
	r.Payload = []byte("order 7 moved")
	if err := c.Put(ctx, r); err != nil {
		t.Fatal(err)
	}
	if list := collect(t, c.PrefixScan(ctx, fields{"category": "C2"}, 0)); len(list) != 3 {
		t.Errorf("C2 has %v", list)
	}
	if list := collect(t, c.PrefixScan(ctx, fields{"category": "moved"}, 0)); len(list) != 1 ||
		list[0] != "order 7 moved" {
		t.Errorf("moved has %v", list)
	}
	if err := c.Delete(ctx, r.Fields); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, r.Fields); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := c.ExactLookup(r.Fields); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("found after Delete: %v", err)
	}
	n := 0
	for item, err := range db.Scan(ctx, engine.Scan{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		_ = item
	}
	if n != 2*19 {
		t.Errorf("%d keys for 19 records with two each", n)
	}
}

// Without the first field there is one walk per shard; their records come out in order.
func TestFanOutMerges(t *testing.T) {
	for _, shards := range []int{0, 1, 7, 300} {
		c := must(access.Open(memory(t), byUser(shards)))
		fill(t, c, 500)
		var want []access.Record
		for n := range 500 {
			want = append(want, order(n))
		}
		slices.SortFunc(want, func(a, b access.Record) int {
			au, bu := a.Fields["user_id"].(string), b.Fields["user_id"].(string)
			return cmp.Or(strings.Compare(au, bu),
				cmp.Compare(a.Fields["order_date"].(int64), b.Fields["order_date"].(int64)))
		})
		i := 0
		for r, err := range c.PrefixScan(ctx, nil, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(r.Payload, want[i].Payload) {
				t.Fatalf("%d shards: record %d is %s", shards, i, r.Payload)
			}
			i++
		}
		if i != 500 {
			t.Errorf("%d shards: %d records", shards, i)
		}
		list := collect(t, c.RangeScan(ctx, nil, "user_id", composite.Including("USR_00010"),
			composite.Excluding("USR_00013"), 6))
		if fmt.Sprint(list) != "[order 10 order 110 order 210 order 310 order 410 order 11]" {
			t.Errorf("%d shards: range %v", shards, list)
		}
	}
}

func TestOpenChecks(t *testing.T) {
	db := memory(t)
	if _, err := access.Open(db, byUser(256), byCategory(16)); err != nil {
		t.Fatal(err)
	}
	if _, err := access.Open(db, byUser(256), byCategory(16)); err != nil {
		t.Errorf("opened again: %v", err)
	}
	lacking := access.Index{Name: "x", Keys: schema(0, category, date)}
	other := access.Index{Name: "x", Keys: schema(0, user, id,
		composite.Field{Name: "order_date", Type: composite.Integer})}
	for why, open := range map[string]func() (*access.Collection, error){
		"other shards": func() (*access.Collection, error) {
			return access.Open(db, byUser(255), byCategory(16))
		},
		"one key less": func() (*access.Collection, error) { return access.Open(db, byUser(256)) },
		"two records could share a key": func() (*access.Collection, error) {
			return access.Open(memory(t), byUser(0), lacking)
		},
		"another type": func() (*access.Collection, error) {
			return access.Open(memory(t), byUser(0), other)
		},
		"one name twice": func() (*access.Collection, error) {
			return access.Open(memory(t), byUser(0), byUser(0))
		},
		"no name": func() (*access.Collection, error) { return access.Open(db, access.Index{}) },
		"no schema": func() (*access.Collection, error) {
			return access.Open(db, access.Index{Name: "n"})
		},
		"a zero byte": func() (*access.Collection, error) {
			return access.Open(db, access.Index{Name: "a\x00b", Keys: byUser(0).Keys})
		},
	} {
		if _, err := open(); err == nil {
			t.Errorf("%s: accepted", why)
		}
	}
}

// Writers of the same records at the same time leave every record with exactly its keys.
func TestConcurrentPuts(t *testing.T) {
	db := memory(t)
	c := must(access.Open(db, byUser(4), byCategory(4)))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range 200 {
				o := order(r.IntN(10))
				o.Fields["category"] = fmt.Sprintf("C%d", r.IntN(3))
				var err error
				if r.IntN(5) == 0 {
					err = c.Delete(ctx, o.Fields)
				} else {
					err = c.Put(ctx, o)
				}
				if err != nil && !errors.Is(err, engine.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	byKey := collect(t, c.PrefixScan(ctx, nil, 0))
	var byOther []string
	for n := range 3 {
		byOther = append(byOther, collect(t, c.PrefixScan(ctx,
			fields{"category": fmt.Sprintf("C%d", n)}, 0))...)
	}
	slices.Sort(byKey)
	slices.Sort(byOther)
	if !slices.Equal(byKey, byOther) {
		t.Errorf("by user %v, by category %v", byKey, byOther)
	}
}

// A payload that does not begin with the parallel keys is damage, not a panic.
func FuzzStoredValue(f *testing.F) {
	f.Add([]byte{}, []byte("\x02ab"))
	f.Add([]byte("\x01a"), []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	db := must(engine.Open("fuzz", &engine.Options{InMemory: true}))
	f.Cleanup(func() { _ = db.Close() })
	c := must(access.Open(db, byUser(0), byCategory(0)))
	key := must(byUser(0).Keys.Append(nil, "u", 1, keycodec.UUID{}))
	f.Fuzz(func(t *testing.T, value, other []byte) {
		defer testutil.Watch(value, other)()
		for _, v := range [][]byte{value, other} {
			if err := db.Put(engine.Key{PK: []byte("orders"), SK: key}, v); err != nil {
				t.Fatal(err)
			}
			r, err := c.ExactLookup(fields{"user_id": "u", "order_date": 1,
				"order_id": keycodec.UUID{}})
			if err != nil && !errors.Is(err, engine.ErrCorrupt) {
				t.Fatalf("error %v for %x", err, v)
			}
			if err == nil && !bytes.HasSuffix(v, r.Payload) {
				t.Fatalf("%x has the payload %x", v, r.Payload)
			}
		}
	})
}

// A lookup takes the key that has the given fields and no others, also if a longer one
// that begins with them comes first.
func TestExactLookupTakesTheWholeKey(t *testing.T) {
	c := must(access.Open(memory(t),
		access.Index{Name: "main", Keys: schema(0, id)},
		access.Index{Name: "long", Keys: schema(0, user, id, date)},
		access.Index{Name: "short", Keys: schema(0, user, id)}))
	fill(t, c, 10)
	r := order(7)
	got, err := c.ExactLookup(fields{
		"user_id": r.Fields["user_id"], "order_id": r.Fields["order_id"],
	})
	if err != nil || !bytes.Equal(got.Payload, r.Payload) {
		t.Errorf("lookup by user and id: %v, error %v", got, err)
	}
	_, err = c.ExactLookup(fields{"user_id": r.Fields["user_id"]})
	if !errors.Is(err, access.ErrNoKey) {
		t.Errorf("lookup by a part of a key: %v", err)
	}
}

// Records whose keys are as short as keys can be are read as they were written.
func TestShortestKeys(t *testing.T) {
	a := composite.Field{Name: "a", Type: composite.String}
	b := composite.Field{Name: "b", Type: composite.String}
	c := must(access.Open(memory(t),
		access.Index{Name: "ab", Keys: schema(0, a, b)},
		access.Index{Name: "ba", Keys: schema(0, b, a)}))
	f := fields{"a": "", "b": ""}
	if err := c.Put(ctx, access.Record{Fields: f, Payload: []byte("short")}); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ExactLookup(f); err != nil || string(got.Payload) != "short" {
		t.Errorf("%v, error %v", got, err)
	}
	if err := c.Delete(ctx, f); err != nil {
		t.Error(err)
	}
}
