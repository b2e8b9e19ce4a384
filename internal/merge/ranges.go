package merge

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/rangedel"
)

// Ranges are the range tombstones over the inputs of one view, which share them. They
// belong to one merge.
type Ranges struct {
	List *rangedel.List

	hidden int         // rows in sequence that one tombstone hid
	seq    base.SeqNum // the number of that tombstone
}

// skipAfter is the number of rows in sequence hidden by one range tombstone after which an
// input seeks to its end instead of stepping. Why: a seek costs about as much as eight
// steps.
const skipAfter = 8

// covered reports whether a range tombstone hides e, the next row of in. It makes the input
// leave the tombstone if that saves steps.
func (m *Merge) covered(in *Input, e *base.Entry) bool {
	r := in.Ranges
	start, end, seq, ok := r.List.Fragment(e.Key)
	if !ok || seq <= e.Seq {
		r.hidden = 0
		return false
	}
	if r.hidden++; r.seq != seq {
		r.seq, r.hidden = seq, 1
	}
	last := in.rows[len(in.rows)-1].Key
	inside := bytes.Compare(start, last) <= 0 && bytes.Compare(last, end) < 0
	// An input with newer versions than the tombstone may show some of them.
	if r.hidden < skipAfter || !inside || in.Source.(Seeker).MaxSeq() >= seq {
		return true
	}
	m.leaving, m.leaveLo, m.leaveHi = true, start, end
	in.at = int32(len(in.rows)) - 1 // the rest of the batch is hidden too
	return true
}
