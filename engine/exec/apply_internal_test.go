package exec

import (
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
)

// TestMemoForgets: what the values of subqueries have used is free for another run.
func TestMemoForgets(t *testing.T) {
	m := &memo{values: map[string]expr.Value{}}
	s := &shared{memos: map[any]*memo{"query": m}, limit: 1 << 30}
	free := s.room()
	m.keep(s, "key", expr.String("value"))
	if s.room() > free || s.used == 0 {
		t.Fatalf("%d bytes are used by a value", s.used)
	}
	if s.forget(); s.used != 0 || len(s.memos) != 0 {
		t.Errorf("%d bytes are used by %d subqueries after all values are given up", s.used,
			len(s.memos))
	}
}
