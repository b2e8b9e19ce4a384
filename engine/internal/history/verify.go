package history

import (
	"context"
	"errors"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/wal"
)

// verifyEvery is how many records pass between two looks at the context.
const verifyEvery = 1 << 10

// Verified is what Verify has found.
type Verified struct {
	Records int64
	Bytes   int64
	Errors  []error // the damage, one error a file
}

// Verify reads all retained segments: checksums, the sequence of the records, the operations in
// them, and that each segment leads up to the next. It also reads the time index. What is
// forgotten meanwhile is left out. Passed is called after each segment with what has been found.
// The error is the cause of ctx.
func (h *History) Verify(ctx context.Context, passed func(Verified)) (v Verified, err error) {
	if !h.On() {
		return v, nil
	}
	if err := h.env.Log.Broken(); err != nil {
		v.Errors = append(v.Errors, err)
	}
	for _, s := range h.env.Log.Retained() {
		damage := h.verifySegment(ctx, &s, &v)
		if ctx.Err() != nil {
			return v, context.Cause(ctx)
		}
		if damage != nil && !errors.Is(damage, wal.ErrGone) {
			v.Errors = append(v.Errors, damage)
		}
		v.Bytes += s.SizeBytes
		passed(v)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.times.verify(h.env.Log.LastSeq()); err != nil {
		v.Errors = append(v.Errors, err)
	}
	return v, nil
}

func (h *History) verifySegment(ctx context.Context, s *wal.SegmentInfo, v *Verified) (err error) {
	r := h.env.Log.NewReader(s.FirstSeq)
	defer func() { err = errors.Join(err, r.Close()) }()
	for n := 0; n%verifyEvery > 0 || ctx.Err() == nil; n++ {
		rec, ok, err := r.Next(s.LastSeq)
		if err != nil || !ok {
			return err
		}
		v.Records++
		ops := wal.NewOpReader(rec.Payload)
		var op wal.Op
		for more := true; more; {
			if more, err = ops.Next(&op); err != nil {
				return corrupt.New(s.Num.FileName(), -1, "log record", "operations of commit "+
					Position{Version: uint64(rec.Seq)}.String(), err.Error())
			}
		}
	}
	return nil
}

// verify checks all entries.
func (t *times) verify(last base.SeqNum) error {
	if t.file == nil {
		return t.broken
	}
	var before entry
	for i := range t.n {
		e, err := t.at(i)
		if err != nil {
			return err
		}
		if e.seq < before.seq || e.ms < before.ms || e.seq > last {
			return corrupt.New(timesName, timesHeader+i*timesEntry, "entry of the time index",
				before, e)
		}
		before = e
	}
	return nil
}
