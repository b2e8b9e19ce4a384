package ship

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/base"
)

// upkeep makes bases, merges log objects and removes what is not kept.
func (s *Shipper) upkeep(ctx context.Context) {
	t := time.NewTicker(s.o.upkeepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-s.copies:
			s.makeBase(ctx, p)
		case <-t.C:
			s.upkeepErr(s.round(ctx))
		case reply := <-s.rounds:
			s.upkeepErr(s.round(ctx))
			close(reply)
		}
	}
}

// makeBase makes a base that the log waits for, at the first attempt that succeeds.
func (s *Shipper) makeBase(ctx context.Context, p *pinned) {
	defer p.copy.Release()
	for {
		err := s.putBase(ctx, p)
		if s.upkeepErr(err); err == nil || errors.Is(err, errSuperseded) {
			return
		}
		if errors.Is(err, engine.ErrStale) {
			s.letGo(p)
			return
		}
		if base.Sleep(ctx, s.o.Interval) != nil {
			return
		}
	}
}

// upkeepErr remembers the result of an attempt.
func (s *Shipper) upkeepErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || errors.Is(err, errSuperseded) {
		s.failing, s.upkeepCause = time.Time{}, nil
		return
	}
	if s.upkeepCause = err; s.failing.IsZero() {
		s.failing = now()
	}
	s.m.Failures++
	s.o.Logger.Warn("upkeep of the destination is tried again", "err", err)
}

// round is one round of upkeep.
func (s *Shipper) round(ctx context.Context) error {
	if err := s.checkEpoch(ctx); err != nil {
		return err
	}
	found, err := s.look(ctx)
	if err != nil {
		return err
	}
	if why := s.baseDue(found); why != "" {
		s.o.Logger.Info("a base is made", "why", why)
		p, err := s.pin(ctx, s.slot.Load(), found.end())
		if err != nil {
			return err
		}
		err = s.putBase(ctx, p)
		p.copy.Release()
		if err != nil {
			return err
		}
		if found, err = s.look(ctx); err != nil {
			return err
		}
	}
	if err := s.removeStrays(ctx, found); err != nil {
		return err
	}
	removed, err := s.retain(ctx, found)
	if err == nil && removed {
		found, err = s.look(ctx)
	}
	if err != nil {
		return err
	}
	return s.merge(ctx, found)
}

// baseDue returns why a base is to be made now, or "".
func (s *Shipper) baseDue(found *survey) string {
	s.mu.Lock()
	waiting, end := s.based != nil, s.m.Restorable
	s.mu.Unlock()
	n := len(found.bases)
	if waiting {
		return "" // one is being made
	}
	if n == 0 || s.lost || found.last(&found.bases[n-1]).Version < found.newest() {
		return "objects are damaged or missing"
	}
	last, log := &found.bases[n-1], int64(0)
	for _, o := range found.reach(last) {
		log += o.bodyBytes
	}
	switch age := s.src.NowMs() - last.ms; {
	case end == uint64(last.seq):
		return "" // nothing is new
	case age < 0:
		return "the clock was ahead at the last one"
	case age >= s.o.BaseEvery.Milliseconds():
		return "the last one is old"
	case log >= max(s.o.minBaseLog, s.db.Metrics().Total.DiskBytes):
		return "the log since is long"
	}
	return ""
}

// merge makes one object of many neighbours that are old and small. Each is merged twice at most.
func (s *Shipper) merge(ctx context.Context, found *survey) error {
	now, fan := s.src.NowMs(), s.o.mergeFan
	for i := 0; i+fan <= len(found.chain); {
		n, size := 1, found.chain[i].bodyBytes
		width := found.chain[i].width(fan)
		for n < fan && found.chain[i+n].follows && found.chain[i+n].width(fan) == width &&
			found.chain[i+n].prev == found.chain[i+n-1].lastSlot {
			size += found.chain[i+n].bodyBytes
			n++
		}
		age := s.o.mergeAge.Milliseconds()
		if width > 0 {
			age *= int64(fan)
		}
		since := now - found.chain[i+n-1].ms // below 0: the clock was ahead
		if n < fan || width > 1 || size > maxObjectBytes || 0 <= since && since < age {
			i++
			continue
		}
		if err := s.mergeRun(ctx, found.chain[i:i+n]); err != nil {
			return err
		}
		i += n
	}
	return nil
}

// width returns how often what is in an object has been merged.
func (o *logObject) width(fan int) int {
	switch n := int(o.lastSlot - o.slot + 1); {
	case n < fan:
		return 0
	case n < fan*fan:
		return 1
	}
	return 2
}

// mergeRun puts an object with the content of neighbours, reads it again, and removes them.
func (s *Shipper) mergeRun(ctx context.Context, run []logObject) error {
	first, last := &run[0], &run[len(run)-1]
	h := header{kind: kindLog, dbid: s.src.DBID, epoch: s.epoch, slot: first.slot,
		lastSlot: last.lastSlot, prev: first.prev, from: first.from,
		fromHistory: first.fromHistory, seq: last.seq, history: last.history, ms: last.ms,
		properties: last.properties}
	var body []byte
	for i := range run {
		_, b, err := get(ctx, s.dest, run[i].name, kindLog)
		if err != nil {
			return err
		}
		body = append(body, b...)
	}
	object := h.encode(body)
	name := logName(h.slot, h.lastSlot)
	if err := s.putOnce(ctx, name, object); err != nil && !errors.Is(err, errExist) {
		return err
	}
	b, err := read(ctx, s.dest, name, 0, -1)
	if err != nil {
		return err
	}
	if got, gotBody, err := decodeObject(name, kindLog, b); err != nil ||
		!bytes.Equal(gotBody, body) || got.slot != h.slot || got.lastSlot != h.lastSlot {
		return nil // the name is spoilt: the objects stay as they are
	}
	for i := range run {
		if err := s.remove(ctx, run[i].name); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.Merges++
	s.m.MergedBytes += int64(len(object))
	return nil
}

// retain removes what is needed for no moment that is kept: bases before the last one that is old
// enough, then the log before that, then SSTs of no base. A base that is not whole, since it came
// late or objects were lost, takes the place of no other.
//
// Why before merges: what they make is not among the objects that were found, and would stay alone
// when those around it go.
func (s *Shipper) retain(ctx context.Context, found *survey) (removed bool, err error) {
	old := func(b baseObject) bool {
		return s.o.Keep >= 0 && s.src.NowMs()-b.ms >= s.o.Keep.Milliseconds()
	}
	// Times of bases do not only rise: a clock may have been ahead.
	n := len(found.bases)
	if n == 0 || s.tidied && (n == 1 || !slices.ContainsFunc(found.bases[1:], old)) {
		return false, nil
	}
	there, err := s.dest.List(ctx, sstPrefix)
	if err != nil {
		return false, err
	}
	files, size, oldest := make([][]file, n), sizes(there), 0
	for i := range found.bases {
		b := &found.bases[i]
		files[i], err = getFiles(ctx, s.dest, b)
		if err == nil {
			err = checkWhole(files[i], size)
		}
		if err != nil && !isDamage(err) {
			return false, err
		}
		if s.lost = err != nil; s.lost {
			s.o.Logger.Error("a base is damaged", "base", b.name, "err", err)
		} else if old(*b) {
			oldest = i
		}
	}
	s.tidied = false // until all is removed
	kept := found.bases[oldest:]
	for i := range found.bases[:oldest] {
		if err := s.remove(ctx, found.bases[i].name); err != nil {
			return true, err
		}
	}
	first := kept[0].slot
	for i := range kept {
		first = min(first, kept[i].slot)
	}
	for _, o := range found.logs {
		if o.last < first {
			if err := s.remove(ctx, o.info.Name); err != nil {
				return true, err
			}
		}
	}
	if err := s.removeSSTs(ctx, there, files[oldest:]); err != nil {
		return true, err
	}
	s.tidied = true
	return true, nil
}

// removeStrays removes what a merge has left.
func (s *Shipper) removeStrays(ctx context.Context, found *survey) error {
	for _, o := range found.stray {
		if _, _, err := get(ctx, s.dest, o.by, kindLog); err != nil {
			return err
		}
		if err := s.remove(ctx, o.name); err != nil {
			return err
		}
	}
	return nil
}

// removeSSTs removes SSTs that are in none of the bases, unless they are young: they may be of a
// base that another shipper makes.
func (s *Shipper) removeSSTs(ctx context.Context, there []Info, bases [][]file) error {
	needed := map[string]bool{}
	for _, files := range bases {
		for i := range files {
			needed[files[i].object()] = true
		}
	}
	clear(s.placed) // see putSST
	for _, info := range there {
		if needed[info.Name] || now().Sub(info.Modified) < s.o.tidyAge {
			continue
		}
		if err := s.remove(ctx, info.Name); err != nil {
			return err
		}
	}
	return nil
}

// remove removes an object, if no other shipper has begun.
func (s *Shipper) remove(ctx context.Context, name string) error {
	if err := s.checkEpoch(ctx); err != nil {
		return err
	}
	if err := s.dest.Delete(ctx, name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.Removed++
	return nil
}
