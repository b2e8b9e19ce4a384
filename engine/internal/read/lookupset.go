package read

import (
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// keyShare is a part of the keys that set takes, as many as one goroutine.
type keyShare struct {
	from, to int
	count    [base.NumStripes]uint32 // keys of each stripe; then where the next one goes
	at       [base.NumStripes]int    // their bytes; then where the next ones go
	staged   []byte                  // ordered forms in the order of the keys
	failed   int                     // the key that err is about
	err      error
	touched  byte // keeps loads that fill the processor's cache
}

// touchedAtOnce is how many keys are loaded before they are looked at. Why: they lie
// anywhere in memory, and loads that do not wait for each other take hardly longer than
// one.
const touchedAtOnce = 32

// set takes keys; their numbers are their indexes. It copies them to where those of their
// stripe are: from then on all memory is read in order. Their places are known only after a
// first pass, so they are copied twice. Why not read the given keys twice: each is somewhere
// else in memory, and that costs more than the copy.
func (l *lookups) set(keys []keycodec.Key) error {
	l.ids = slices.Grow(l.ids[:0], len(keys))[:len(keys)]
	l.sizes = slices.Grow(l.sizes[:0], len(keys))[:len(keys)]
	l.slots = slices.Grow(l.slots[:0], len(keys))[:len(keys)]
	n := 1 + len(l.more)
	l.shares = slices.Grow(l.shares[:0], n)[:n]
	for i := range l.shares {
		s := &l.shares[i]
		*s = keyShare{from: i * len(keys) / n, to: (i + 1) * len(keys) / n, staged: s.staged[:0]}
	}
	l.eachShare(keys, (*keyShare).measure)
	for i := range l.shares {
		if s := &l.shares[i]; s.err != nil {
			return &KeyError{s.err}
		}
	}
	total, number := 0, uint32(0)
	for id := range base.NumStripes {
		l.start[id] = number
		for i := range l.shares {
			s := &l.shares[i]
			total, s.at[id] = total+s.at[id], total
			number, s.count[id] = number+s.count[id], number
		}
	}
	l.start[base.NumStripes] = number
	l.keys = slices.Grow(l.keys[:0], total)[:total]
	l.text = l.keys
	l.eachShare(keys, (*keyShare).place)
	return nil
}

// eachShare calls f for all shares.
func (l *lookups) eachShare(keys []keycodec.Key, f func(*keyShare, *lookups, []keycodec.Key)) {
	if len(l.shares) == 1 {
		f(&l.shares[0], l, keys)
		return
	}
	l.allShares(keys, f)
}

// allShares is eachShare for several. Why apart: its variables are allocated.
func (l *lookups) allShares(keys []keycodec.Key, f func(*keyShare, *lookups, []keycodec.Key)) {
	var wg sync.WaitGroup
	for i := range l.shares {
		wg.Go(func() { f(&l.shares[i], l, keys) })
	}
	wg.Wait()
}

// touch loads the keys of one step from i on.
func (s *keyShare) touch(keys []keycodec.Key) {
	var sum byte
	for i := range keys {
		if k := &keys[i]; len(k.PK) > 0 {
			sum += k.PK[0] + k.PK[len(k.PK)-1]
		}
	}
	s.touched += sum
}

// measure checks the keys, makes their ordered forms and finds out how much each stripe
// has.
func (s *keyShare) measure(l *lookups, keys []keycodec.Key) {
	staged := slices.Grow(s.staged, s.guess(keys))
	for i := s.from; i < s.to; i++ {
		if (i-s.from)%touchedAtOnce == 0 {
			s.touch(keys[i:min(i+touchedAtOnce, s.to)])
		}
		k := &keys[i]
		if err := k.Validate(); err != nil {
			s.failed, s.err = i, err
			return
		}
		id, before := keycodec.Stripe(k.PK), len(staged)
		staged = keycodec.AppendOrdered(staged, *k)
		l.ids[i] = id
		l.sizes[i] = uint32(len(staged) - before)
		s.count[id]++
		s.at[id] += len(staged) - before
	}
	s.staged = staged
}

// guess returns about how many bytes the ordered forms take, from those of a few keys; less
// if that is very much.
func (s *keyShare) guess(keys []keycodec.Key) int {
	const few = 64
	n := s.to - s.from
	step, seen, total := n/few+1, 0, 0
	for i := s.from; i < s.to; i += step {
		total += len(keys[i].PK) + 2 + len(keys[i].SK)
		seen++
	}
	return min(total/max(seen, 1)*n, maxPooledKeyBytes)
}

// place copies the keys to their places.
func (s *keyShare) place(l *lookups, keys []keycodec.Key) {
	staged := s.staged
	for i := s.from; i < s.to; i++ {
		id, size := l.ids[i], int(l.sizes[i])
		at := s.at[id]
		copy(l.keys[at:at+size], staged[:size])
		staged = staged[size:]
		l.slots[s.count[id]] = slot{at, uint32(size), uint32(i)}
		s.at[id] = at + size
		s.count[id]++
	}
}
