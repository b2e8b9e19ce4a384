package table

import (
	"bytes"
	"context"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/store"
)

// firstByIndex reads the row with a unique key of an index into a struct: two reads, of the
// entry and of the row. used is false if the query is another one, or if what is read has been
// changed in between: then a snapshot has to tell.
func (p *PreparedQuery[T]) firstByIndex(ctx context.Context, r Reader, f *preparedFor,
	params []expr.Value, row unsafe.Pointer) (found, used bool, err error) {
	c, err := f.prepared.compile(r)
	if err != nil {
		return false, true, err
	}
	pt, st := c.point, c.states[0]
	if pt == nil || pt.index == nil || pt.Covering || pt.tests || f.b.schema != st.schema ||
		p.query.after != nil || len(params) < c.plan.Params() || r.DB().opt.SlowQuery > 0 {
		return false, false, nil
	}
	var reader store.Reader
	db, live := r.(*DB)
	if live {
		reader = db.store
	} else {
		var done func()
		if reader, done, err = r.open(ctx); err != nil {
			return false, true, err
		}
		defer done()
	}
	s := pt.scratch()
	defer s.release()
	key, found, err := pt.stored(ctx, reader, s, params)
	if err == nil && found {
		if found = !live || pt.agrees(s, key); !found {
			return false, false, nil
		}
		err = f.b.readOwn(row, key, s.row2)
	}
	changed := live && (s.entered || f.b.core.state.Load() != st)
	if changed && (err != nil || !found) {
		return false, false, nil
	}
	c.count(2, found)
	return found, true, err
}

// count counts an execution that has found one row or none.
func (c *compiled) count(read int64, found bool) {
	if s := c.shape; s != nil {
		s.count.Add(1)
		s.scanned.Add(read)
		if found {
			s.returned.Add(1)
		}
	}
}

// stored reads the row of a point by an index into s.row2. s.entered tells whether there is an
// entry.
//
// Ownership: the key is valid until s is used again.
func (p *point) stored(ctx context.Context, r store.Reader, s *pointScratch,
	params []expr.Value) (key store.Key, found bool, err error) {
	s.entered = false
	if s.pk, s.sk, found, err = p.Key(s.pk[:0], s.sk[:0], params); err != nil || !found {
		return key, false, err
	}
	s.value, err = r.Get(ctx, s.value[:0], store.Key{PK: s.pk, SK: s.sk})
	if err != nil {
		return key, false, absent(err)
	}
	s.entered = true
	if key, s.pk, err = p.index.RowKey(s.pk[:0], s.sk, s.value); err != nil {
		return key, false, err
	}
	if s.row2, err = r.Get(ctx, s.row2[:0], key); err != nil {
		return key, false, absent(err)
	}
	return key, true, nil
}

// agrees reports whether the row in s.row2 has the values that its entry was found by. If so,
// the row is the answer at the moment it was read, whatever has happened since the entry was.
func (p *point) agrees(s *pointScratch, key store.Key) bool {
	if p.table.Decode(s.row, key, s.row2, &p.indexed) != nil {
		return false
	}
	s.again = s.again[:0]
	for i := range p.index.Columns {
		c := &p.index.Columns[i]
		var err error
		if s.again, err = p.table.Columns[c.Ordinal].AppendField(s.again, c.KeyColumn,
			s.row[c.Ordinal]); err != nil {
			return false
		}
	}
	return bytes.Equal(s.again, s.sk)
}
