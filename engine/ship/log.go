package ship

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/history"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/wal"
)

// # Slots
//
// Two shippers may run at a time: one that was taken for dead wakes up. What both have put must
// not mix, and what one has reported as shipped must stay.
//
// The naive way: a shipper looks whether there is a later epoch, and puts an object if not.
//
// Why it fails: it may sleep in between. Then its object comes after those of another history.
//
// The way taken: log objects are numbered, and the name of the next one is its number alone, so
// that only one shipper can put it. One that finds its slot taken reads what is there. An object of
// its own is an attempt that failed late. One of a later epoch is the end of this shipper. One of
// an earlier epoch is adopted, if it is of this history.
//
// An object says which slot was before it. So a slot with a torn object, of an attempt that has
// failed, is void if the next object skips it, and damage if not.
//
// Epochs make a shipper that has nothing to put end, too.

// maxObjectBytes is the size at which an object is put and the next begins.
const maxObjectBytes = 8 << 20

// errTorn says that an object was put, and is not what was put.
var errTorn = errors.New("ship: the destination keeps another size than was put")

// run ships until the shipper ends.
func (s *Shipper) run(ctx context.Context, done func()) {
	defer done()
	defer close(s.ended)
	defer s.dropCopy() // when nobody takes it any more
	var others sync.WaitGroup
	others.Go(func() { s.upkeep(ctx) })
	others.Go(func() { s.alarm.watch(ctx, s.o.Interval, s.state) })
	defer others.Wait()
	defer s.closeReader()
	t := time.NewTicker(s.o.Interval)
	defer t.Stop()
	for {
		err := s.cycle(ctx)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if s.note(err) {
			s.stop(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-s.kick:
		}
	}
}

// note remembers the result of an attempt and reports whether it is the last.
func (s *Shipper) note(err error) (last bool) {
	s.mu.Lock()
	s.lastErr = err
	last = errors.Is(err, ErrFenced) || errors.Is(err, ErrOther) || errors.Is(err, errClosed) ||
		errors.Is(err, engine.ErrClosed) || errors.Is(err, engine.ErrReadOnly) ||
		errors.Is(err, wal.ErrFailed)
	if last {
		s.fatal = err
	} else if err != nil {
		s.m.Failures++
	}
	s.changedLocked()
	s.mu.Unlock()
	if last && !errors.Is(err, errClosed) && !errors.Is(err, engine.ErrClosed) {
		s.alarm.report(err)
	} else if err != nil && !last {
		s.o.Logger.Warn("shipping is tried again", "err", err)
	}
	return last
}

// changedLocked wakes those that wait for changes of m.
func (s *Shipper) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// cycle ships what there is.
func (s *Shipper) cycle(ctx context.Context) error {
	began := now()
	if err := s.checkEpoch(ctx); err != nil {
		return err
	}
	if err := s.src.Refresh(); err != nil {
		return err
	}
	if !s.end.based || s.isStale() {
		if err := s.rebase(ctx); err != nil {
			return err
		}
	}
	last, now, err := s.present()
	if err == nil {
		err = s.src.Log.Sync(last)
	}
	if err != nil {
		return err
	}
	for {
		more, err := s.fill(last, now)
		if errors.Is(err, wal.ErrGone) {
			s.o.Logger.Error("commits that were not shipped are not retained any more: a new base",
				"err", err)
			s.end.based = false
			return fmt.Errorf("%w: %w", ErrGap, err)
		}
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := s.place(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m.Bases {
		_ = s.ack(s.end.position()) // see advance
	}
	s.m.LastSuccess = began
	s.changedLocked()
	return nil
}

// present returns the newest commit and the time at which it was the newest, or 0: a commit between
// two looks at log and clock would be older than the time says. Requires: Refresh was called.
func (s *Shipper) present() (last base.SeqNum, ms int64, err error) {
	last = s.src.Log.LastSeq()
	for range attempts {
		before := last
		ms = s.src.NowMs()
		if err := s.src.Refresh(); err != nil {
			return 0, 0, err
		}
		if last = s.src.Log.LastSeq(); last == before {
			return last, ms, nil
		}
	}
	return last, 0, nil
}

// checkEpoch returns ErrFenced if another shipper has begun.
func (s *Shipper) checkEpoch(ctx context.Context) error {
	_, err := s.dest.Head(ctx, epochName(s.epoch+1))
	switch {
	case err == nil:
		return ErrFenced
	case errors.Is(err, errNotExist):
		return nil
	}
	return err
}

// checkPlace returns an error if the destination is not there any more, or another one is in its
// place. Why: where it was emptied, and another copy of the database has begun again, slots and
// epochs do not keep apart what both put.
func (s *Shipper) checkPlace(ctx context.Context) error {
	h, _, err := get(ctx, s.dest, destinationName, kindDestination)
	if errors.Is(err, errNotExist) {
		err = fmt.Errorf("the destination is gone: mount its disk, or move it back; if it was "+
			"emptied, start again: %w", err)
	}
	return cmp.Or(err, s.checkIdentity(&h))
}

func (s *Shipper) checkIdentity(h *header) error {
	if h.epoch != s.id {
		return fmt.Errorf("%w: it was emptied, and begun again", ErrFenced)
	}
	return nil
}

// look surveys the destination.
func (s *Shipper) look(ctx context.Context) (*survey, error) {
	found, err := look(ctx, s.dest, s.headers)
	if err == nil {
		err = s.checkIdentity(&found.id)
	}
	return found, err
}

// fill makes the next object, unless there is one that was not put. More is false if there is
// nothing to ship up to the commit last, which was the newest at a time, 0: not known.
func (s *Shipper) fill(last base.SeqNum, now int64) (more bool, err error) {
	if s.pending != nil {
		return true, nil
	}
	p, err := s.src.Properties()
	if err != nil {
		return false, err
	}
	properties := encodeProperties(p)
	sum := crc32.Checksum(properties, castagnoli)
	if s.end.seq >= last && sum == s.end.properties && !s.end.alone {
		return false, nil
	}
	h := &header{kind: kindLog, dbid: s.src.DBID, epoch: s.epoch, slot: s.end.slot,
		lastSlot: s.end.slot, prev: s.end.prev, from: s.end.seq, fromHistory: s.end.history,
		seq: s.end.seq, history: s.end.history, properties: s.end.properties,
		ms: min(s.end.ms, s.src.History.Latest())}
	if cap(s.object) > 4*maxObjectBytes {
		s.object = nil
	}
	s.object = append(s.object[:0], make([]byte, headerBytes)...)
	if err := s.records(h, last); err != nil {
		return false, err
	}
	if h.seq >= last {
		if sum != h.properties {
			s.object = appendBytes(s.object, entryProperties, properties)
			h.properties = sum
		}
		if now > 0 {
			s.moment(h, now)
		}
	}
	h.seal(s.object)
	s.pending = h
	return true, nil
}

// records adds commits to the object, with what is known of their times.
func (s *Shipper) records(h *header, last base.SeqNum) error {
	if s.r == nil || s.next != h.seq+1 {
		s.closeReader()
		s.r, s.next = s.src.Log.NewReader(h.seq+1), h.seq+1
	}
	var moments []history.Moment
	if h.seq < last {
		moments = s.src.History.Moments(h.seq, last)
	}
	for len(s.object) < maxObjectBytes && h.seq < last {
		rec, ok, err := s.r.Next(last)
		if err != nil || !ok {
			s.closeReader()
			if err == nil {
				err = corrupt.New("log", -1, "record", fmt.Sprintf("commit %d", h.seq+1), "none")
			}
			return err
		}
		if rec.History != h.history {
			s.object = appendWord(s.object, entryHistory, rec.History)
		}
		if s.packed, err = appendPacked(s.packed[:0], rec.Payload); err != nil {
			return err
		}
		s.object = appendBytes(s.object, entryCommit, s.packed)
		h.seq, h.history, s.next = rec.Seq, rec.History, rec.Seq+1
		for ; len(moments) > 0 && moments[0].Seq <= rec.Seq; moments = moments[1:] {
			if moments[0].Seq == rec.Seq {
				s.moment(h, moments[0].Ms)
			}
		}
	}
	return nil
}

func (s *Shipper) moment(h *header, ms int64) {
	h.ms = max(h.ms, ms)
	s.object = appendWord(s.object, entryMoment, uint64(h.ms))
}

func (s *Shipper) closeReader() {
	if s.r != nil {
		if err := s.r.Close(); err != nil {
			s.o.Logger.Warn("release log segment", "err", err)
		}
		s.r = nil
	}
}

// place puts the object that is pending, or learns why it cannot.
func (s *Shipper) place(ctx context.Context) error {
	if err := s.checkPlace(ctx); err != nil {
		return err
	}
	h := s.pending
	name := logName(h.slot, h.lastSlot)
	err := s.put(ctx, name, s.object)
	if err == nil || errors.Is(err, errExist) {
		// The name is free also where another shipper has merged what was there.
		err = cmp.Or(s.checkEpoch(ctx), err)
	}
	switch {
	case errors.Is(err, errExist):
		return s.meet(ctx, name)
	case errors.Is(err, errTorn):
		s.skip()
	case err == nil:
		s.advance(h)
	}
	return err
}

// skip leaves the slot void.
func (s *Shipper) skip() {
	s.end.slot++
	s.slot.Store(s.end.slot)
	if h := s.pending; h != nil {
		h.slot, h.lastSlot = s.end.slot, s.end.slot
		h.seal(s.object)
	}
}

// meet handles an object in the slot of the next one.
func (s *Shipper) meet(ctx context.Context, name string) error {
	b, err := read(ctx, s.dest, name, 0, -1)
	if err != nil {
		return err
	}
	if bytes.Equal(b, s.object) { // put by an attempt that seemed to fail
		s.advance(s.pending)
		return nil
	}
	h, _, err := decodeObject(name, kindLog, b)
	if errors.Is(err, corrupt.ErrCorrupt) {
		err = cmp.Or(checkRead(ctx, s.dest, name, int64(len(b))), err)
	}
	switch {
	case isDamage(err):
		s.skip()
		return nil
	case err != nil:
		return err
	case h.epoch > s.epoch:
		return ErrFenced
	}
	follows := h.from == s.end.seq && h.fromHistory == s.end.history
	var gone *engine.GoneError
	err = s.check(h.seq, h.history)
	if err != nil && !errors.As(err, &gone) {
		return err
	}
	if err != nil && (follows || gone.Other) {
		return fmt.Errorf("%w: %w", ErrOther, err)
	}
	if follows {
		s.pending = &h
		s.advance(&h)
		return nil
	}
	s.end.prev, s.pending.prev = h.lastSlot, h.lastSlot // from before a gap
	s.skip()
	return nil
}

// check checks that the database has a commit of a history that was shipped. Why it looks for new
// commits before: beside the writing process another shipper may have seen more of them.
func (s *Shipper) check(seq base.SeqNum, history uint64) error {
	if err := s.src.Refresh(); err != nil {
		return err
	}
	return s.src.History.Check(engine.Position{Version: uint64(seq) + 1, History: history})
}

// advance goes on after an object that is there.
func (s *Shipper) advance(h *header) {
	s.end.slot, s.end.prev = h.lastSlot+1, h.lastSlot
	s.end.seq, s.end.history, s.end.ms, s.end.properties = h.seq, h.history, h.ms, h.properties
	s.slot.Store(s.end.slot)
	s.pending, s.end.alone = nil, false
	s.mu.Lock()
	s.chained = h.seq + 1
	s.m.LogObjects++
	s.m.LogBytes += headerBytes + h.bodyBytes
	s.m.Restorable = uint64(h.seq)
	s.changedLocked()
	s.mu.Unlock()
	// Only a consumer that was dropped is not known: then nothing is retained for the shipper.
	_ = s.ack(s.end.position())
}

// put makes an object and looks whether it is there. The error matches errExist, or errTorn.
func (s *Shipper) put(ctx context.Context, name string, content []byte) error {
	if err := s.putOnce(ctx, name, content); err != nil {
		return err
	}
	return s.checkPut(ctx, name, int64(len(content)))
}

func (s *Shipper) putOnce(ctx context.Context, name string, content []byte) error {
	if err := s.dest.Put(ctx, name, bytes.NewReader(content), int64(len(content))); err != nil {
		return fmt.Errorf("put %s: %w", name, err)
	}
	return nil
}

// checkPut looks whether an object is there that was put.
func (s *Shipper) checkPut(ctx context.Context, name string, size int64) error {
	info, err := s.dest.Head(ctx, name)
	if err != nil {
		return fmt.Errorf("%s is not there after it was put: %w", name, err)
	}
	if info.SizeBytes != size {
		return fmt.Errorf("%w: %s, %d of %d bytes", errTorn, name, info.SizeBytes, size)
	}
	return nil
}
