package rowio_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

var ctx = context.Background()

// memory is a store.Reader of a map. It overwrites what it has handed out as soon as it may.
type memory struct {
	items   map[string]store.Item
	version uint64
	asked   []int // keys of each call of MultiGet
	fail    error // of all reads
}

func name(k store.Key) string { return string(keycodec.AppendLengthPrefixed(nil, k)) }

func (m *memory) Get(_ context.Context, dst []byte, key store.Key) ([]byte, error) {
	it, ok := m.items[name(key)]
	if !ok {
		return dst, store.ErrNotFound
	}
	return append(dst, it.Value...), nil
}

func (m *memory) MultiGet(_ context.Context, keys []store.Key, found func(int, store.Item)) error {
	m.asked = append(m.asked, len(keys))
	for i, k := range keys {
		if it, ok := m.items[name(k)]; ok {
			lent := it.Clone()
			found(i, lent)
			clear(lent.Value)
		}
	}
	return m.fail
}

// Scan has points only.
func (m *memory) Scan(_ context.Context, rg store.Range) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		if it, ok := m.items[name(rg.Key)]; m.fail != nil || ok {
			yield(it, m.fail)
		}
	}
}

// commit applies a write set, whose conditions are about the state before all of it.
func (m *memory) commit(set *store.WriteSet) error {
	for i := range set.Ops {
		it, ok := m.items[name(set.Ops[i].Key)]
		if !set.Ops[i].Cond.Holds(it, ok) {
			return &store.ConditionError{Op: i}
		}
	}
	m.version++
	for i := range set.Ops {
		switch op := &set.Ops[i]; op.Kind {
		case store.OpPut:
			it := store.Item{Key: op.Key, Value: op.Value, Version: m.version}
			m.items[name(op.Key)] = it.Clone()
		case store.OpDelete:
			delete(m.items, name(op.Key))
		}
	}
	return nil
}

// accounts is a table of an id, a nullable unique email and a city with an index.
func accounts(t *testing.T, email schema.State) *schema.Table {
	t.Helper()
	text := func(name string) schema.Column {
		return schema.Column{Name: name, Type: keycodec.TypeString, Nullable: true}
	}
	s, err := schema.New(schema.Table{Name: "accounts", ID: 7,
		Columns: []schema.Column{{Name: "id", Type: keycodec.TypeInt64}, text("email"),
			text("city")},
		PK: []schema.KeyColumn{{}},
		Indexes: []*schema.Index{
			{Name: "by_email", Unique: true, State: email, Columns: column(1)},
			{Name: "by_city", State: schema.Ready, Columns: column(2)}}})
	testutil.OK(t, err)
	return s
}

func column(ordinal int) []schema.IndexColumn {
	return []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: ordinal}}}
}

// world is a writer of one table and the store that it writes to.
type world struct {
	*testing.T
	*memory
	schema *schema.Table
	rules  rowio.Rules
	w      *rowio.Writer
}

func newWorld(t *testing.T, s *schema.Table) *world {
	w := &world{T: t, memory: &memory{items: map[string]store.Item{}}, schema: s,
		rules: rowio.NewRules(s), w: rowio.NewWriter(false, false)}
	t.Cleanup(w.w.Release)
	w.begin()
	return w
}

func (w *world) begin() { w.w.Reset(ctx, &w.rules, w.memory) }

// row is an account; "" is NULL.
func row(id int64, email, city string) []expr.Value {
	r := []expr.Value{expr.Int(id), expr.Null(), expr.Null()}
	for i, s := range []string{email, city} {
		if s != "" {
			r[i+1] = expr.String(s)
		}
	}
	return r
}

func (w *world) must(err error) {
	w.Helper()
	testutil.OK(w, err)
}

// do commits what f adds, and begins the next commit.
func (w *world) do(f func()) {
	w.Helper()
	f()
	w.must(w.w.Finish(ctx))
	w.must(w.commit(w.w.Set()))
	w.begin()
}

func (w *world) insert(rows ...[]expr.Value) {
	w.Helper()
	w.do(func() {
		for _, r := range rows {
			w.must(w.w.Insert(r))
		}
	})
}

// find returns the stored row with an id.
func (w *world) find(id int64) (*store.Item, []expr.Value) {
	w.Helper()
	it, r, err := w.w.Find(ctx, []expr.Value{expr.Int(id)})
	w.must(err)
	it = it.Clone()
	schema.CloneRow(r)
	return &it, r
}

func (w *world) replace(id int64, with []expr.Value) {
	w.Helper()
	it, old := w.find(id)
	w.must(w.w.Replace(it, old, with))
}

func (w *world) remove(id int64) {
	w.Helper()
	it, old := w.find(id)
	w.must(w.w.Remove(it, old))
}

// key returns the key of the row with an id.
func (w *world) key(id int64) store.Key {
	w.Helper()
	pk, _, err := w.schema.AppendRowKey(nil, nil, row(id, "", ""))
	w.must(err)
	return store.Key{PK: pk}
}

// entry returns the entry of a row in an index.
func (w *world) entry(index string, r []expr.Value) schema.Entry {
	w.Helper()
	var s schema.Entries
	id, _ := r[0].AsInt()
	w.must(w.schema.Index(index).AppendEntries(&s, w.key(id), r))
	return s.List[0]
}

// check compares the store with exactly some rows and their entries.
func (w *world) check(rows ...[]expr.Value) {
	w.Helper()
	want := map[string][]byte{}
	for _, r := range rows {
		id, _ := r[0].AsInt()
		value, err := w.schema.AppendRow(nil, r)
		w.must(err)
		want[name(w.key(id))] = value
		for _, x := range w.schema.Indexes {
			e := w.entry(x.Name, r)
			want[name(store.Key{PK: e.PK, SK: e.SK})] = e.Value
		}
	}
	for k, v := range want {
		if it, ok := w.items[k]; !ok || !bytes.Equal(it.Value, v) {
			w.Errorf("item %x is %x (%t), want %x", k, it.Value, ok, v)
		}
	}
	if len(w.items) != len(want) {
		w.Errorf("%d items, want %d", len(w.items), len(want))
	}
}

// taken checks that an error says which row cannot be written, and why.
func (w *world) taken(err error, index string, id, owner int64) {
	w.Helper()
	var taken *rowio.Taken
	if !errors.As(err, &taken) {
		w.Fatalf("%v, want that the key is taken", err)
	}
	got, _ := taken.Row[0].AsInt()
	if taken.Index != w.schema.Index(index) || got != id ||
		!rowio.SameKey(taken.Owner, w.key(owner)) {
		w.Errorf("row %d of index %v is in the way of %x; want %d of %q, of %d", got,
			taken.Index, taken.Owner.PK, id, index, owner)
	}
}
