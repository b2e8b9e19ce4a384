package engine_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kstonedb/kstone/engine"
	"pgregory.net/rapid"
)

// condBatch applies a batch with conditions, some of which fail.
func (m *machine) condBatch(t *rapid.T) {
	before, after := m.live(m.items), maps.Clone(m.items)
	b := engine.NewBatch()
	failed := -1
	var failedKey engine.Key
	for range rapid.IntRange(1, 12).Draw(t, "ops") {
		k, v := drawKey(t), drawValue(t)
		cond, holds := m.drawBatchCondition(t, before, k)
		if !holds && failed < 0 {
			failed, failedKey = b.Len(), k
		}
		it := modelItem{key: k, value: v}
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			must(t, b.DeleteIf(k, cond))
			delete(after, id(k))
		case 1:
			must(t, b.Require(k, cond))
		case 2:
			it.expiry = m.clock.Load() + int64(rapid.IntRange(0, 30).Draw(t, "expiry"))
			must(t, b.PutIf(k, v, cond, engine.Expiry(it.expiry)))
			after[id(k)] = it
		default:
			must(t, b.PutIf(k, v, cond))
			after[id(k)] = it
		}
	}
	err := m.db.Apply(ctx, b)
	if failed < 0 {
		must(t, err)
		m.items = after
		return
	}
	var ce *engine.ConditionError
	_, exists := before[id(failedKey)]
	if !errors.As(err, &ce) || ce.Op != failed || id(ce.Key) != id(failedKey) ||
		ce.Exists != exists {
		t.Fatalf("operation %d on %v should fail (exists %v): %+v",
			failed, failedKey, exists, err)
	}
}

// drawBatchCondition draws a condition that mostly holds.
func (m *machine) drawBatchCondition(
	t *rapid.T, items model, k engine.Key,
) (cond engine.Condition, holds bool) {
	it, exists := items[id(k)]
	if rapid.IntRange(0, 9).Draw(t, "wrong") == 0 {
		exists = !exists
	}
	_, there := items[id(k)]
	if !exists {
		return engine.IfAbsent(), !there
	}
	switch rapid.IntRange(0, 2).Draw(t, "condition") {
	case 0:
		return engine.IfValue(it.value), there
	case 1:
		stored, err := m.db.GetItem(k)
		if there {
			must(t, err)
		}
		return engine.IfVersion(stored.Version), there
	}
	return engine.IfPresent(), there
}

// multiGet reads many keys of the present and of the snapshots.
func (m *machine) multiGet(t *rapid.T) {
	m.compareMany(t, m.items, m.db)
	for _, s := range m.snaps {
		m.compareMany(t, s.items, s.snap)
	}
}

func (m *machine) compareMany(t *rapid.T, items model, r engine.Reader) {
	t.Helper()
	keys := rapid.SliceOfN(rapid.Custom(drawKey), 0, 40).Draw(t, "keys")
	live := m.live(items)
	var found engine.Results
	must(t, r.MultiGet(ctx, keys, &found))
	has, err := r.MultiHas(ctx, keys, nil)
	must(t, err)
	if found.Len() != len(keys) || len(has) != len(keys) {
		t.Fatalf("%d keys, %d results, %d answers", len(keys), found.Len(), len(has))
	}
	for i, k := range keys {
		want, there := live[id(k)]
		it, ok := found.Item(i)
		if ok != there || has[i] != there || found.Has(i) != there {
			t.Fatalf("%v: found %v, has %v, want %v", k, ok, has[i], there)
		}
		if there && (id(it.Key) != id(k) || !bytes.Equal(it.Value, want.value) ||
			it.Value == nil || it.Expiry != want.expiry) {
			t.Fatalf("%v: got %v, want %v", k, it, want)
		}
	}
	var numbers []int
	for i := range found.All() {
		numbers = append(numbers, i)
	}
	if !slices.IsSorted(numbers) {
		t.Fatalf("numbers %v", numbers)
	}
}

// insertNew inserts items of which some are there and some repeat others.
func (m *machine) insertNew(t *rapid.T) {
	var items []engine.Item
	var want []bool
	for range rapid.IntRange(0, 20).Draw(t, "items") {
		it := engine.Item{Key: drawKey(t), Value: drawValue(t)}
		if rapid.IntRange(0, 3).Draw(t, "expires") == 0 {
			it.Expiry = m.clock.Load() + int64(rapid.IntRange(1, 40).Draw(t, "ms"))
		}
		_, there := m.get(it.Key)
		items, want = append(items, it), append(want, !there)
		if !there {
			m.items[id(it.Key)] = modelItem{it.Key, it.Value, it.Expiry}
		}
	}
	got, stats, err := m.db.InsertNew(ctx, items, nil)
	must(t, err)
	if !slices.Equal(got, want) {
		t.Fatalf("inserted %v, want %v", got, want)
	}
	fresh := int64(0)
	for _, w := range want {
		if w {
			fresh++
		}
	}
	if stats.Keys != int64(len(items)) || stats.New != fresh || stats.Repeated > stats.Keys-fresh {
		t.Fatalf("%+v, want %d new of %d", stats, fresh, len(items))
	}
}

// filterNew asks which keys are new, now and in the snapshots, exactly and approximately.
func (m *machine) filterNew(t *rapid.T) {
	m.compareNew(t, m.items, m.db.FilterNew)
	for _, s := range m.snaps {
		m.compareNew(t, s.items, s.snap.FilterNew)
	}
}

func (m *machine) compareNew(t *rapid.T, items model, filter func(context.Context, []engine.Key,
	[]bool, *engine.FilterOptions) ([]bool, engine.DedupStats, error)) {
	t.Helper()
	keys := rapid.SliceOfN(rapid.Custom(drawKey), 0, 40).Draw(t, "keys")
	seen := maps.Clone(m.live(items))
	var want []bool
	for _, k := range keys {
		_, there := seen[id(k)]
		want = append(want, !there)
		seen[id(k)] = modelItem{}
	}
	got, stats, err := filter(ctx, keys, nil, nil)
	must(t, err)
	if !slices.Equal(got, want) {
		t.Fatalf("%v: new are %v, want %v", keys, got, want)
	}
	if int(stats.New) > len(keys) || stats.Keys != int64(len(keys)) {
		t.Fatalf("%+v of %d keys", stats, len(keys))
	}
	got, stats, err = filter(ctx, keys, got, &engine.FilterOptions{Approximate: true})
	must(t, err)
	for i := range keys {
		if got[i] && !want[i] {
			t.Fatalf("%v is called new approximately", keys[i])
		}
	}
	if stats.DataReads != 0 && !m.unfiltered {
		t.Fatalf("%d data reads for an approximate answer", stats.DataReads)
	}
}
