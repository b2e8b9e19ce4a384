package read

import (
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// scratch holds the ordered form of a key during a lookup.
type scratch struct{ key []byte }

var scratchPool = sync.Pool{New: func() any { return &scratch{key: make([]byte, 0, 256)} }}

// Lookup finds the live version of one key and reports whether there is one. An error about the
// key is a *KeyError. f.Value is immutable.
func (r *Reader) Lookup(key keycodec.Key, f *base.Lookup) (live bool, err error) {
	if err := r.Check(); err != nil {
		return false, err
	}
	if err := key.Validate(); err != nil {
		return false, &KeyError{err}
	}
	buf := scratchPool.Get().(*scratch)
	buf.key = keycodec.AppendOrdered(buf.key[:0], key)
	f.Key, f.Hash = buf.key, r.state.Hash(buf.key)
	err = r.find(keycodec.Stripe(key.PK), f)
	f.Key = nil
	scratchPool.Put(buf)
	return err == nil && r.state.Live(f), err
}

// find looks one key of a stripe up.
func (r *Reader) find(id uint8, f *base.Lookup) error {
	s := r.state
	if r.tx != nil && r.tx.answer(id, f) {
		return nil
	}
	start := s.counters.start()
	defer s.counters.done(start)
	if r.at == nil {
		return s.newestComplete(id, f)
	}
	base.Yield()
	err := s.newest(id, f, r.at.node.seq)
	if r.at.released.Load() { // what was found need not be of the moment any more
		return ErrClosed
	}
	return err
}

// # Get while a commit is applied
//
// A Get outside of a snapshot reads the present. Commits insert their versions one by one, under
// locks that a Get does not take. It must not show a commit whose other versions are missing.
//
// The naive way, first: look the key up at the visible number.
//
// Why it fails: the number is after, and it is not registered. A writer does not find its own
// write: commit 8 is acknowledged while commit 7 is unfinished, and visible is 6. And the version
// may go, since Put drops what is below the horizon, which is above 6 by then:
//
//	R: loads visible = 6; key k has version 5
//	A: Put k@7, publishes; Put k@8 with horizon 7 drops k@5
//	R: looks k up at 6: not found, although k was there all the time
//
// Registering each Get in snapshots would help, for a shared mutex that every Get takes twice.
//
// The naive way, second: take the newest version there is (base.MaxSeqNum).
//
// Why it fails: commit 7 is a batch that puts x and y. R finds x@7, and then not y@7, because y is
// not inserted yet. The reader has seen half of the batch.
//
// The way taken: newestComplete loads the visible number, called complete, and then looks up the
// newest version. If its number is at most complete, its commit was whole before the lookup began.
// Otherwise the Get waits until that number is visible, and starts again. The newest version is
// never dropped, unless it is a tombstone over nothing, so a Get registers nothing. The wait is
// for memtable insertions, not for a sync.
//
// Why complete is loaded first, and why the Get starts again: commit 7 is a batch that deletes a
// range over k and puts k. No reader may find k absent. Loaded afterwards, complete hides the gap:
//
//	A: inserts the range tombstone of 7
//	R: looks up k: covered by 7, f.Seq = 7
//	A: inserts k@7, publishes 7
//	R: loads visible = 7; f.Seq is not above it; answers "not found"
//
// Invariants: a reader that has seen one version of a commit finds all others. A Get finds every
// commit acknowledged before it, or a later version. Each further turn of its loop needs another
// new commit over its key. Two Gets are two reads: a commit may come between them. Under the lock
// of the stripe the newest version needs no wait, since no commit is half applied there:
// conditions of commits and Overlay.Changed rely on it.

// newestComplete looks one key of a stripe up at the present: see above.
func (s *State) newestComplete(id uint8, f *base.Lookup) error {
	complete := s.visible.load()
	err := s.newest(id, f, base.MaxSeqNum)
	base.Yield()
	for err == nil && f.Seq > complete {
		s.visible.wait(f.Seq)
		complete = s.visible.load()
		err = s.newest(id, f, base.MaxSeqNum)
	}
	return err
}

// newest looks one key of a stripe up at snap. If a range tombstone covers it, or nothing is
// found, f.Seq is the number of the tombstone, or 0.
//
// At MaxSeqNum it may find what a commit that is not complete has inserted, except while
// the stripe is locked.
func (s *State) newest(id uint8, f *base.Lookup, snap base.SeqNum) error {
	var e base.Entry
	found, err := s.env.Stripes[id].Get(f.Key, f.Hash, snap, &e)
	if err != nil {
		return s.Error(err)
	}
	f.Set(&e)
	f.Found = found
	return nil
}

// Live reports whether a value was found that has not expired.
func (s *State) Live(f *base.Lookup) bool {
	return f.Found && (f.Kind == base.KindPut ||
		f.Kind == base.KindPutTTL && s.env.NowMs() < f.Expiry)
}
