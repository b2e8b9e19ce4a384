package plan

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// A cursor is the position after a row: the values that the query orders by, and what
// distinguishes rows that are equal in them (the row's key; of groups, the group). It stays
// exact whatever is written in between, and is bound to the query it came from, but not
// to the plan, so it outlives new indexes and statistics.
//
// Format: version 1 byte | fingerprint of the query, 4 bytes BE | the values as a list
// of engine/expr | CRC-32C of all before, 4 bytes BE.
const cursorVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OrderExprs returns what an order is by.
func OrderExprs(order []Order) []expr.Expr {
	keys := make([]expr.Expr, len(order))
	for i, o := range order {
		keys[i] = o.Expr
	}
	return keys
}

// rowsAfter returns the condition on rows after the one with the given values: with equal
// first values, and one that comes later. Keys are the expressions of the order as the
// rows have them.
func rowsAfter(keys []expr.Expr, order []Order, values []expr.Value) expr.Expr {
	var or []expr.Expr
	for i, o := range order {
		var and []expr.Expr
		for j := range i {
			and = append(and, equalTo(keys[j], values[j]))
		}
		or = append(or, expr.And{Terms: append(and, laterThan(keys[i], o, values[i]))})
	}
	return expr.Or{Terms: or}
}

func equalTo(key expr.Expr, v expr.Value) expr.Expr {
	if v.IsNull() {
		return expr.IsNull{X: key}
	}
	return expr.Cmp{Op: expr.Eq, L: key, R: expr.Const{Value: v}}
}

func laterThan(key expr.Expr, o Order, v expr.Value) expr.Expr {
	switch {
	case v.IsNull() && o.NullsLast:
		return spans.False
	case v.IsNull():
		return expr.IsNull{X: key, Not: true}
	}
	op := expr.Gt
	if o.Desc {
		op = expr.Lt
	}
	later := expr.Cmp{Op: op, L: key, R: expr.Const{Value: v}}
	if !o.NullsLast {
		return later
	}
	return expr.Or{Terms: []expr.Expr{later, expr.IsNull{X: key}}}
}

func sealCursor(fingerprint uint32, values []expr.Value) []byte {
	c := binary.BigEndian.AppendUint32([]byte{cursorVersion}, fingerprint)
	list, _ := expr.List(values).ListBytes()
	c = append(c, list...)
	return binary.BigEndian.AppendUint32(c, crc32.Checksum(c, castagnoli))
}

// openCursor returns the n values of a cursor of the query.
func openCursor(c []byte, fingerprint uint32, n int) ([]expr.Value, error) {
	if len(c) < 9 {
		return nil, fmt.Errorf("%w: %d bytes are too short", ErrCursor, len(c))
	}
	body, sum := c[:len(c)-4], binary.BigEndian.Uint32(c[len(c)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("%w: checksum differs", ErrCursor)
	}
	if body[0] != cursorVersion {
		return nil, fmt.Errorf("%w: version %d is unknown", ErrCursor, body[0])
	}
	if binary.BigEndian.Uint32(body[1:]) != fingerprint {
		return nil, fmt.Errorf("%w: it belongs to another query", ErrCursor)
	}
	list, err := expr.DecodeList(string(body[5:]))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	if list.Len() != n {
		return nil, fmt.Errorf("%w: it has %d values instead of %d", ErrCursor, list.Len(), n)
	}
	return slices.Collect(list.Elements()), nil
}
