package engine

import (
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// CountAbout estimates how many items of its range a query comes across, now: within about an
// eighth, from the indexes of files and from samples of memtables. Where there are few, it reads up
// to about a hundred of them. Versions and tombstones that merges have not dropped yet count as
// items where there are many. With MayHold, it counts items in blocks that may hold what is looked
// for, and in memtables. PK, SK and MayHold are what counts of q. It costs some microseconds,
// whatever the size of the range.
func (db *DB) CountAbout(q Query) (float64, error) {
	var buf [64]byte
	span, err := q.SK.span("count", buf[:0], q.PK)
	if err != nil {
		return 0, err
	}
	return db.reads.CountAbout(keycodec.Stripe(q.PK), span, q.MayHold)
}

// CountScanAbout is CountAbout for a scan, of which From, To and MayHold count. It looks at one
// stripe, and at more until it has found enough items or looked at as many as most, and takes
// the others to be alike: hashes of partition keys spread items over stripes.
func (db *DB) CountScanAbout(s Scan, enough float64, most int) (float64, error) {
	if most < 1 {
		return 0, invalid("count: %d stripes", most)
	}
	span, err := s.bounds("count")
	if err != nil {
		return 0, err
	}
	n, looked := 0.0, 0
	for ; looked < min(most, base.NumStripes) && n < enough; looked++ {
		// Multiples of an odd number are all stripes, far apart.
		m, err := db.reads.CountAbout(uint8(looked*stripeStep), span, s.MayHold)
		if err != nil {
			return 0, err
		}
		n += m
	}
	return n * base.NumStripes / float64(max(1, looked)), nil
}

// stripeStep is the distance of the stripes that are looked at one after the other.
const stripeStep = 97
