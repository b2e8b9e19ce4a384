package rowio

import (
	"context"
	"errors"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/keycodec"
)

// Upsert adds a row whether or not there is one with its key.
func (w *Writer) Upsert(ctx context.Context, row []expr.Value) error {
	key, row, err := w.stored(row)
	if err != nil {
		return err
	}
	if !w.rules.Indexed {
		_, err := w.put(key, row, store.Condition{})
		return err
	}
	it, err := store.GetItem(ctx, w.r, key)
	if errors.Is(err, store.ErrNotFound) {
		return w.insertOrReplace(row)
	}
	if err != nil {
		return err
	}
	return w.overwrite(&it, row)
}

// insertOrReplace adds a row that is not there, or else the commit is built again.
func (w *Writer) insertOrReplace(row []expr.Value) error {
	at := len(w.ops)
	err := w.Insert(row)
	if err == nil {
		w.ops[at].replaces = true
	}
	return err
}

// UpsertAll adds rows, of those with one key the last one. It returns how many keys are new,
// and how many rows take the place of another one.
func (w *Writer) UpsertAll(ctx context.Context, rows [][]expr.Value) (fresh,
	replaced int, err error) {
	keys := make([]store.Key, 0, len(rows))
	last := make([][]expr.Value, 0, len(rows)) // of each of keys
	seen := make(map[string]int, len(rows))
	var name []byte
	for _, row := range rows {
		key, err := w.rowKey(row)
		if err != nil {
			return fresh, replaced, err
		}
		name = keycodec.AppendLengthPrefixed(name[:0], key)
		if i, ok := seen[string(name)]; ok {
			if w.rules.Converts { // a row that gives way satisfies the checks, too
				if _, err := w.converted(last[i]); err != nil {
					return fresh, replaced, err
				}
			}
			last[i] = row
			replaced++
			continue
		}
		seen[string(name)] = len(keys)
		keys, last = append(keys, key), append(last, row)
	}
	there := make([]bool, len(keys))
	err = w.Each(ctx, keys, func(i int, it *store.Item) error {
		there[i] = true
		replaced++
		return w.overwrite(it, last[i])
	})
	for i := range keys {
		if err == nil && !there[i] {
			fresh++
			err = w.insertOrReplace(last[i])
		}
	}
	return fresh, replaced, err
}

// changeRows is how many rows are read at once, to be changed.
const changeRows = 256

// Each calls f for those items that are there, with their index, until it fails. The items
// stay until the commit.
func (w *Writer) Each(ctx context.Context, keys []store.Key,
	f func(i int, it *store.Item) error) error {
	for from := 0; from < len(keys); from += changeRows {
		var failed error
		err := w.r.MultiGet(ctx, keys[from:min(from+changeRows, len(keys))],
			func(i int, it store.Item) {
				if failed == nil {
					own := it.Clone()
					failed = f(from+i, &own)
				}
			})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}

// overwrite replaces the row of an item by one with its key.
func (w *Writer) overwrite(it *store.Item, row []expr.Value) error {
	if !w.rules.Indexed {
		return w.Replace(it, nil, row)
	}
	old := w.rules.Schema.Row()
	if err := w.rules.Schema.Decode(old, it.Key, it.Value, nil); err != nil {
		return err
	}
	return w.Replace(it, old, row)
}
