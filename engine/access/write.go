package access

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Put stores records under all their keys, in one commit, at the database's durability. A
// record with the same primary key is replaced; keys of its that have become different go
// in the same commit.
//
// With one record a call this costs a transaction for each; many records in one call share
// it. A commit holds at most engine.MaxBatchBytes.
//
// Ownership: the records are copied.
func (c *Collection) Put(ctx context.Context, records ...Record) error {
	keys := make([][]byte, 0, 8)
	for _, r := range records {
		for i := range c.indexes {
			key, err := c.keyOf(i, r.Fields)
			if err != nil {
				return err
			}
			keys = append(keys, key)
		}
	}
	if len(c.indexes) == 1 {
		return c.putPlain(ctx, records, keys)
	}
	return c.db.UpdateRetry(ctx, func(tx *engine.Tx) error {
		for i, r := range records {
			n := len(c.indexes)
			if err := c.put(tx, keys[i*n:(i+1)*n], r.Payload); err != nil {
				return err
			}
		}
		return nil
	})
}

// putPlain stores records that have no parallel keys.
func (c *Collection) putPlain(ctx context.Context, records []Record, keys [][]byte) error {
	if len(records) == 1 {
		return c.db.Put(c.indexes[0].key(keys[0]), records[0].Payload)
	}
	b := engine.NewBatch()
	for i, r := range records {
		if err := b.Put(c.indexes[0].key(keys[i]), r.Payload); err != nil {
			return err
		}
	}
	return c.db.Apply(ctx, b)
}

// put stores one record under its keys, the primary one first.
func (c *Collection) put(tx *engine.Tx, keys [][]byte, payload []byte) error {
	primary := c.indexes[0].key(keys[0])
	old, err := c.stored(tx, primary)
	if err != nil {
		return err
	}
	for i := 1; i < len(keys); i++ {
		if old != nil {
			if bytes.Equal(old[i-1], keys[i]) {
				continue
			}
			if err := tx.Delete(c.indexes[i].key(old[i-1])); err != nil {
				return err
			}
		}
		if err := tx.Put(c.indexes[i].key(keys[i]), nil); err != nil {
			return err
		}
	}
	value := appendKeys(make([]byte, 0, len(payload)+64*len(keys)), keys[1:])
	return tx.Put(primary, append(value, payload...))
}

// Delete removes the record with this primary key under all its keys, in one commit.
// Fields must have the values of the primary key and may have others. It fails with
// engine.ErrNotFound if there is no such record.
func (c *Collection) Delete(ctx context.Context, fields map[string]any) error {
	key, err := c.keyOf(0, fields)
	if err != nil {
		return err
	}
	primary := c.indexes[0].key(key)
	return c.db.UpdateRetry(ctx, func(tx *engine.Tx) error {
		old, err := c.stored(tx, primary)
		if err != nil {
			return err
		}
		if old == nil {
			return fmt.Errorf("access: no record %q: %w", primary, engine.ErrNotFound)
		}
		for i, key := range old {
			if err := tx.Delete(c.indexes[i+1].key(key)); err != nil {
				return err
			}
		}
		return tx.Delete(primary)
	})
}

// stored returns the parallel keys of a record, nil if there is no record.
func (c *Collection) stored(tx *engine.Tx, primary engine.Key) ([][]byte, error) {
	value, err := tx.Get(primary)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	keys, _, err := c.split(value)
	return keys, err
}

// Format: the value of a primary key is its parallel keys, each behind its length as a
// uvarint, then the payload. How many there are is part of the pinned description. The
// value of a parallel key is empty.

func appendKeys(dst []byte, keys [][]byte) []byte {
	for _, key := range keys {
		dst = append(binary.AppendUvarint(dst, uint64(len(key))), key...)
	}
	return dst
}

// split takes the value of a primary key apart. The results are views into it.
func (c *Collection) split(value []byte) (keys [][]byte, payload []byte, err error) {
	keys = make([][]byte, len(c.indexes)-1)
	rest := value
	for i := range keys {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) || n == 0 {
			return nil, nil, corrupt.New("", int64(len(value)-len(rest)), "record of "+
				c.indexes[0].Name, "the key of "+c.indexes[i+1].Name, "its beginning")
		}
		keys[i], rest = rest[size:size+int(n)], rest[size+int(n):]
	}
	return keys, rest, nil
}
