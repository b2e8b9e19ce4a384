package commit

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/wal"
)

// TestReplayKeepsItsChunks: whatever the sizes of the records are, the memory of a replay is that
// of its chunks, which do not grow.
//
// Promise (manners): The memory of a replay is that of its chunks, whatever records the log has.
func TestReplayKeepsItsChunks(t *testing.T) {
	w := newWorld(t)
	r := NewReplay(ReplayEnv{
		Stripes: &w.stripes, Hash: w.reads.Hash, Memory: w.Pipeline.env.Upkeep.MemtableBytes(),
	}, new([base.NumStripes]base.SeqNum))
	seq := base.SeqNum(0)
	apply := func(n, valueBytes int) {
		var p []byte
		for i := range n {
			p = wal.AppendPut(p, fmt.Appendf(nil, "%d", i), nil, make([]byte, valueBytes))
		}
		seq++
		testutil.OK(t, r.Apply(1, seq, p))
	}
	for range 20 {
		for _, share := range []int{2, 3, 5} {
			apply(1, replayChunkBytes/share)
			apply(1, replayChunkBytes-100)
		}
		apply(3, replayChunkBytes) // no chunk holds it
		apply(5*replayChunkOps, 0)
		for range replayChunkOps {
			apply(1, 0)
		}
	}
	r.Finish()
	for range replayChunks {
		c := <-r.free
		if n := cap(c.payload); n != replayChunkBytes {
			t.Errorf("a chunk has %d bytes, not %d", n, replayChunkBytes)
		}
	}
}
