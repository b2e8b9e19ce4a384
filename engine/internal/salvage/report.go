package salvage

import (
	"fmt"
	"strings"

	"github.com/kstonedb/kstone/keycodec"
)

// Loss is something that a repair could not save.
type Loss struct {
	// File is where it was; the directory's name if that is unknown.
	File string
	// Offset in the file, -1 for the whole file.
	Offset int64
	// What was there: "data block", "range deletes", "file", "commits", "manifest" …
	What string
	// Stripe is the stripe concerned, -1 for any of them.
	Stripe int
	// First and Last bound the keys concerned, both included; a zero Key is no bound. With
	// range deletes lost, deleted items of the stripe may be back.
	First, Last keycodec.Key
	// Entries is the number of versions lost, 0 if not known. Older versions of the same
	// keys, if some are stored elsewhere, show again.
	Entries uint64
	// FirstCommit and LastCommit number the commits that are missing, whose keys
	// are unknown; 0 for other losses.
	FirstCommit, LastCommit uint64
	// Err says what was found, and matches corrupt.ErrCorrupt if it is damage.
	Err error
}

// String describes the loss in one line.
func (l Loss) String() string {
	var b strings.Builder
	b.WriteString(l.File)
	if l.Offset >= 0 {
		fmt.Fprintf(&b, " at %d", l.Offset)
	}
	fmt.Fprintf(&b, ": %s lost", l.What)
	if l.Stripe >= 0 {
		fmt.Fprintf(&b, ", stripe %d", l.Stripe)
	}
	if l.FirstCommit != 0 {
		fmt.Fprintf(&b, ", commits %d to %d", l.FirstCommit, l.LastCommit)
	}
	if l.First.PK != nil || l.Last.PK != nil {
		fmt.Fprintf(&b, ", keys %s to %s", boundText(l.First), boundText(l.Last))
	}
	if l.Entries > 0 {
		fmt.Fprintf(&b, ", %d of them", l.Entries)
	}
	return b.String()
}

func boundText(k keycodec.Key) string {
	if k.PK == nil {
		return "any"
	}
	if k.SK == nil {
		return fmt.Sprintf("%q", k.PK)
	}
	return fmt.Sprintf("%q/%q", k.PK, k.SK)
}

// Report says what a repair has done.
type Report struct {
	Files      int    // SSTs read
	LogRecords int64  // log records read
	Entries    uint64 // versions found intact, in files and log
	Items      uint64 // live items in the new database
	// Lost is everything that is known to be missing, by file and offset. Empty means
	// that the new database holds what the old one held.
	Lost []Loss
	// Doubts says, in words, what could not be decided: for example that without a manifest
	// a file that merges had replaced looks like any other, so that deleted items may be
	// back.
	Doubts []string
}

// orderedBound turns an ordered key of a damaged file into one to report.
func orderedBound(k []byte) keycodec.Key {
	if k == nil {
		return keycodec.Key{}
	}
	key, _, err := keycodec.DecodeOrdered(k, nil)
	if err != nil {
		return keycodec.Key{}
	}
	return keycodec.Key{PK: key.PK, SK: key.SK}
}
