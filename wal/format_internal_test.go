package wal

import (
	"testing"

	"github.com/kstonedb/kstone/internal/base"
)

// A lag that does not fit says nothing, rather than too much.
func TestLagSaturates(t *testing.T) {
	for _, c := range []struct{ seq, synced, want base.SeqNum }{
		{7, 7, 7}, {7, 3, 3}, {7, 0, 0},
		{1 << 40, 1<<40 - 5, 1<<40 - 5},
		{1 << 40, 1<<40 - 1<<32 + 2, 1<<40 - 1<<32 + 2},
		{1 << 40, 1<<40 - 1<<32 + 1, 0},
		{1 << 40, 1<<40 - 1<<32, 0},
		{1 << 40, 3, 0},
	} {
		h := recordHead{seq: c.seq, lag: lagOf(c.seq, c.synced)}
		if got := h.synced(); got != c.want {
			t.Errorf("seq %d, synced %d: says %d, want %d", c.seq, c.synced, got, c.want)
		}
	}
	h := recordHead{seq: 5, lag: 6}
	if h.synced() != 0 {
		t.Error("a lag beyond the sequence number must say nothing")
	}
}
