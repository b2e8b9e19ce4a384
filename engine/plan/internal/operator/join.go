package operator

import (
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
)

// JoinKind says which rows a join returns.
type JoinKind uint8

// The kinds of joins. Semi and Anti return columns of the left side only.
const (
	Inner JoinKind = iota // pairs for which On is true
	Left                  // also left rows without a partner, with NULLs
	Full                  // also rows of either side without a partner, with NULLs
	Semi                  // left rows with at least one partner
	Anti                  // left rows without any
)

// String returns "inner", "left", "full", "semi" or "anti".
func (k JoinKind) String() string {
	return [...]string{"inner", "left", "full", "semi", "anti"}[k%5]
}

// JoinMethod is the algorithm of a join.
type JoinMethod uint8

const (
	// JoinLookup reads the right side, an Access with a Probe, by key for batches of
	// left rows. The order of the left side is kept.
	JoinLookup JoinMethod = iota
	// JoinMerge reads both sides in the order of their keys. The order of the left
	// side is kept.
	JoinMerge
	// JoinHash keeps the right side in memory, by its keys, and streams the left side,
	// whose order is kept.
	JoinHash
	// JoinLoop keeps the right side in memory and compares all pairs. The order of the
	// left side is kept.
	JoinLoop
)

// String returns "lookup", "merge", "hash" or "loop".
func (m JoinMethod) String() string {
	return [...]string{"lookup", "merge", "hash", "loop"}[m&3]
}

// Join joins two inputs. Its layout is that of Left followed by that of Right; for Semi
// and Anti it is that of Left alone.
type Join struct {
	Step
	Kind        JoinKind
	Method      JoinMethod
	Left, Right Node
	// Whole, if not nil, is another way to the rows on the right, of the same layout: a lookup
	// join that has read more than Bound reads it into a hash table for the left rows that are
	// left.
	Whole Node
	Bound Bound
	// LeftKeys[i] = RightKeys[i] for every pair: expressions over the layout of the
	// side. NULL is equal to nothing. For JoinMerge both sides are ordered by them,
	// as MergeOrder says. For JoinLookup they are what the probe asks for, and need no
	// second look.
	LeftKeys, RightKeys []expr.Expr
	MergeOrder          []Order // only directions; Expr is that of LeftKeys
	// On must be true as well, over Left's layout followed by Right's (for Semi and
	// Anti, too). Nil accepts all.
	On expr.Expr
	// NullAware makes an anti join that of NOT IN: nothing is returned if a right key
	// is NULL; a left row with a NULL key is returned only if the right side is empty.
	// There is one key then, and Method is JoinHash.
	NullAware bool
}

// Children returns Left and Right, and Whole if it was read, in their memory, as that of Unary.
func (n *Join) Children() []Node {
	all := unsafe.Slice(&n.Left, 3)
	if n.Whole != nil && n.actual.Turned > 0 {
		return all
	}
	return all[:2:2]
}
