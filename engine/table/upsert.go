package table

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/store"
)

// Upserted is what Upsert has done.
type Upserted struct {
	New      int // rows whose primary key was free
	Replaced int // rows that took the place of another one, rows of the same call included
}

// Upsert is PutMany that tells new rows from replaced ones, exactly, whatever is written at
// the same time. Of several rows with one key the last one stays. What is counted is
// written, also if there is an error.
func (t *Table) Upsert(ctx context.Context, rows iter.Seq[[]expr.Value]) (Upserted, error) {
	var sum Upserted
	_, err := t.chunks(owned(rows), func(chunk [][]expr.Value) error {
		done, err := t.upsert(ctx, chunk)
		sum.New += done.New
		sum.Replaced += done.Replaced
		return err
	})
	return sum, err
}

// upsert writes rows in one commit.
func (t *Table) upsert(ctx context.Context, rows [][]expr.Value) (done Upserted, err error) {
	err = t.run(ctx, func(w *writer) (err error) {
		done, err = w.upsertAll(ctx, rows)
		return err
	})
	if err != nil {
		return Upserted{}, err
	}
	return done, nil
}

// upsertAll adds rows, of those with one key the last one.
func (w *writer) upsertAll(ctx context.Context, rows [][]expr.Value) (done Upserted, err error) {
	keys := make([]store.Key, 0, len(rows))
	last := make([][]expr.Value, 0, len(rows)) // of each of keys
	seen := make(map[string]int, len(rows))
	var name []byte
	for _, row := range rows {
		key, err := w.rowKey(row)
		if err != nil {
			return done, err
		}
		name = binary.BigEndian.AppendUint32(name[:0], uint32(len(key.PK)))
		name = append(append(name, key.PK...), key.SK...)
		if i, ok := seen[string(name)]; ok {
			last[i] = row
			done.Replaced++
			continue
		}
		seen[string(name)] = len(keys)
		keys, last = append(keys, key), append(last, row)
	}
	there := make([]bool, len(keys))
	for from := 0; from < len(keys) && err == nil; from += changeRows {
		part := keys[from:min(from+changeRows, len(keys))]
		var failed error
		err = w.r.MultiGet(ctx, part, func(i int, it store.Item) {
			if failed == nil {
				there[from+i] = true
				done.Replaced++
				failed = w.overwrite(it, last[from+i])
			}
		})
		err = errors.Join(err, failed)
	}
	for i := range keys {
		if err == nil && !there[i] {
			done.New++
			err = w.insertOrReplace(last[i])
		}
	}
	return done, err
}

// overwrite replaces the row of an item, which is valid during the call, by one with its
// key.
func (w *writer) overwrite(it store.Item, row []expr.Value) error {
	own := it.Clone()
	if !w.st.indexed {
		return w.replace(&own, nil, row)
	}
	old := w.st.schema.Row()
	if err := w.st.schema.Decode(old, own.Key, own.Value, nil); err != nil {
		return err
	}
	return w.replace(&own, old, row)
}
