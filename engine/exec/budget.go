package exec

import "github.com/kstonedb/kstone/engine/expr"

// budget counts the memory of the rows that operators keep. Only one goroutine uses it.
type budget struct {
	used, limit int64
}

// valueBytes is the size of an expr.Value without its text.
const valueBytes = 40

// rowBytes estimates the memory of a row that is kept.
func rowBytes(row []expr.Value) int64 {
	n := int64(len(row)*valueBytes) + 24
	for i := range row {
		if s, ok := row[i].AsString(); ok {
			n += int64(len(s))
		} else if s, ok := row[i].AsBytes(); ok {
			n += int64(len(s))
		}
	}
	return n
}

// take counts n more bytes for an operator.
func (b *budget) take(operator string, n int64) error {
	if b.used += n; b.used > b.limit {
		return &MemoryError{Operator: operator, Limit: b.limit}
	}
	return nil
}

// release gives back what an operator that ends has kept.
func (b *budget) release(n int64) { b.used -= n }

// clone returns a copy of a row that shares no memory with it.
func clone(row []expr.Value) []expr.Value {
	out := make([]expr.Value, len(row))
	for i := range row {
		out[i] = row[i].Clone()
	}
	return out
}
