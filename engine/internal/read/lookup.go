package read

import (
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/stripe"
)

// scratch holds the ordered form of a key during a lookup, and its moment where stripes are
// switched.
type scratch struct {
	key  []byte
	node snapNode
}

var scratchPool = sync.Pool{New: func() any { return &scratch{key: make([]byte, 0, 256)} }}

// Lookup finds the live version of one key and reports whether there is one. An error about the
// key is a *KeyError. It sets all of e but the key; e.Value is immutable. Without value a
// large one is not read: e is Large then, and has the reference to it.
func (r *Reader) Lookup(key keycodec.Key, value bool, e *base.Entry) (live bool, err error) {
	if err := r.Check(); err != nil {
		return false, err
	}
	if err := key.Validate(); err != nil {
		return false, &KeyError{err}
	}
	buf := scratchPool.Get().(*scratch)
	buf.key = keycodec.AppendOrdered(buf.key[:0], key)
	if r.at == nil && r.state.env.Follows {
		live, err = r.findRegistered(buf, keycodec.Stripe(key.PK), value, e)
	} else {
		live, err = r.find(keycodec.Stripe(key.PK), buf.key, value, e)
	}
	scratchPool.Put(buf)
	return live, err
}

// findRegistered is find for the present of a database that another process writes.
func (r *Reader) findRegistered(
	buf *scratch, id uint8, value bool, e *base.Entry,
) (live bool, err error) {
	s := r.state
	start := s.counters.start()
	snap := s.take(&buf.node)
	found, err := lookUp(&buf.node.gen.stripes[id], buf.key, s.Hash(buf.key), snap, value, e)
	s.snaps.release(&buf.node)
	buf.node.gen = nil
	s.counters.done(start, id, buf.key)
	if err != nil {
		return false, s.Error(err)
	}
	return found && r.live(e), nil
}

// find looks one key of a stripe up: see Get while a commit is applied.
func (r *Reader) find(id uint8, key []byte, value bool, e *base.Entry) (live bool, err error) {
	s := r.state
	hash := s.Hash(key)
	if r.tx != nil {
		f := base.Lookup{Key: key, Hash: hash}
		if r.tx.answer(id, &f) {
			*e = base.Entry{Kind: f.Kind, Seq: f.Seq, Expiry: f.Expiry, Value: f.Value}
			return f.Found && r.live(e), nil
		}
	}
	start := s.counters.start()
	snap, complete := base.MaxSeqNum, s.visible.load()
	if r.at != nil { // a snapshot: all of it is complete
		snap, complete = r.at.node.seq, r.at.node.seq
	}
	base.Yield()
	found, err := lookUp(&r.stripes()[id], key, hash, snap, value, e)
	base.Yield()
	for err == nil && e.Seq > complete {
		s.visible.wait(e.Seq)
		complete = s.visible.load()
		found, err = lookUp(&r.stripes()[id], key, hash, snap, value, e)
	}
	s.counters.done(start, id, key)
	if r.at != nil { // what was found need not be of the moment any more
		if over := r.at.err(); over != nil {
			return false, over
		}
	}
	if err != nil {
		return false, s.Error(err)
	}
	return found && r.live(e), nil
}

// lookUp is Stripe.Get, or Stripe.Find if the value is not wanted.
func lookUp(
	s *stripe.Stripe, key []byte, hash uint64, snap base.SeqNum, value bool, e *base.Entry,
) (bool, error) {
	if value {
		return s.Get(key, hash, snap, e)
	}
	return s.Find(key, hash, snap, e)
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
// The way taken: find loads the visible number, called complete, and then looks up the
// newest version. If its number is at most complete, its commit was whole before the lookup began.
// Otherwise the Get waits until that number is visible, and starts again. The newest version is
// never dropped, unless it is a tombstone over nothing, so a Get registers nothing. The wait is
// for memtable insertions, not for a sync.
//
// Why complete is loaded first, and why the Get starts again: commit 7 is a batch that deletes a
// range over k and puts k. No reader may find k absent. Loaded afterwards, complete hides the gap:
//
//	A: inserts the range tombstone of 7
//	R: looks up k: covered by 7, e.Seq = 7
//	A: inserts k@7, publishes 7
//	R: loads visible = 7; e.Seq is not above it; answers "not found"
//
// Invariants: a reader that has seen one version of a commit finds all others. A Get finds every
// commit acknowledged before it, or a later version. Each further turn of its loop needs another
// new commit over its key. Two Gets are two reads: a commit may come between them. Under the lock
// of the stripe the newest version needs no wait, since no commit is half applied there:
// conditions of commits and Overlay.Changed rely on it.

// live reports whether a version that was found is a value that has not expired.
func (r *Reader) live(e *base.Entry) bool {
	return e.Kind == base.KindPut || e.Kind == base.KindPutTTL && r.now() < e.Expiry
}
