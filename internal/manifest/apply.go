package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// Apply returns the state that results from e. It is pure: s stays as it is, and
// the result shares the untouched stripes and the runs of e. An edit that does not
// fit s (an unknown run removed, files that overlap, a number going backwards) is
// an error.
func Apply(s *State, e *Edit) (*State, error) {
	t := *s
	if err := t.advance(e); err != nil {
		return nil, err
	}
	if e.Settings != nil {
		t.Settings = e.Settings
	}
	for i := range e.Stripes {
		se := &e.Stripes[i]
		st, err := applyStripe(&t.Stripes[se.Stripe], se)
		if err == nil {
			err = t.checkStripe(se.Stripe, &st)
		}
		if err != nil {
			return nil, fmt.Errorf("stripe %d: %w", se.Stripe, err)
		}
		t.Stripes[se.Stripe] = st
	}
	return &t, nil
}

// advance moves the counters of s forward to those of e.
func (s *State) advance(e *Edit) error {
	return errors.Join(
		forward("next file", &s.NextFile, e.NextFile),
		forward("next run", &s.NextRun, e.NextRun),
		forward("log start", &s.LogStart, e.LogStart),
		forward("log sequence number", &s.LogSeq, e.LogSeq),
		forward("last sequence number", &s.LastSeq, e.LastSeq),
	)
}

func forward[T ~uint64](what string, now *T, next T) error {
	if next == 0 {
		return nil
	}
	if next < *now {
		return fmt.Errorf("%s goes back from %d to %d", what, *now, next)
	}
	*now = next
	return nil
}

func applyStripe(st *StripeState, se *StripeEdit) (StripeState, error) {
	out := *st
	if err := forward("flushed sequence number", &out.FlushedSeq, se.FlushedSeq); err != nil {
		return out, err
	}
	at := 0
	if len(se.Remove) > 0 {
		at = slices.IndexFunc(st.Runs, func(r *Run) bool { return r.ID == se.Remove[0] })
		if at < 0 {
			return out, fmt.Errorf("removes unknown run %d", se.Remove[0])
		}
		for i, id := range se.Remove {
			if at+i >= len(st.Runs) || st.Runs[at+i].ID != id {
				return out, fmt.Errorf("removes run %d, which does not follow run %d",
					id, se.Remove[i-1]) // the first one is at its place
			}
		}
	}
	out.Runs = slices.Concat(st.Runs[:at], se.Add, st.Runs[at+len(se.Remove):])
	return out, nil
}

// checkStripe checks what must hold of every stripe of every state.
func (s *State) checkStripe(id base.StripeID, st *StripeState) error {
	if st.FlushedSeq > s.LastSeq {
		return fmt.Errorf("flushed sequence number %d is above the last one, %d",
			st.FlushedSeq, s.LastSeq)
	}
	uses := make(map[base.FileNum]base.ValueUse) // of value files, summed up
	runs := make(map[uint64]bool, len(st.Runs))
	files := make(map[base.FileNum]bool)
	for _, r := range st.Runs {
		switch {
		case r.ID == 0 || r.ID >= s.NextRun:
			return fmt.Errorf("run %d is outside [1, %d)", r.ID, s.NextRun)
		case runs[r.ID]:
			return fmt.Errorf("run %d occurs twice", r.ID)
		case len(r.Files) == 0:
			return fmt.Errorf("run %d has no files", r.ID)
		}
		runs[r.ID] = true
		for i, f := range r.Files {
			if err := s.checkFile(id, f); err != nil {
				return fmt.Errorf("run %d: file %d: %w", r.ID, f.Num, err)
			}
			if files[f.Num] {
				return fmt.Errorf("run %d: file %d occurs twice", r.ID, f.Num)
			}
			files[f.Num] = true
			if err := s.checkValues(uses, f.Values); err != nil {
				return fmt.Errorf("run %d: file %d: %w", r.ID, f.Num, err)
			}
			if i > 0 && !disjoint(r.Files[i-1], f) {
				return fmt.Errorf("run %d: files %d and %d overlap",
					r.ID, r.Files[i-1].Num, f.Num)
			}
		}
	}
	for num := range uses {
		if files[num] {
			return fmt.Errorf("file %d is an SST and a value file", num)
		}
	}
	return nil
}

// checkValues checks what a file needs of value files, and adds it to the uses of its stripe.
func (s *State) checkValues(uses map[base.FileNum]base.ValueUse, list []base.ValueUse) error {
	for i, v := range list {
		use, known := uses[v.Num]
		use.Bytes += v.Bytes
		switch {
		case v.Num == 0 || v.Num >= s.NextFile || i > 0 && v.Num <= list[i-1].Num:
			return fmt.Errorf("value file %d is outside [1, %d), or out of order", v.Num,
				s.NextFile)
		case known && use.FileBytes != v.FileBytes:
			return fmt.Errorf("value file %d has %d and %d bytes", v.Num, use.FileBytes,
				v.FileBytes)
		case v.Bytes == 0 || v.FileBytes < 0 || use.Bytes > uint64(v.FileBytes):
			return fmt.Errorf("value file %d has %d bytes, %d are used", v.Num, v.FileBytes,
				use.Bytes)
		}
		use.FileBytes = v.FileBytes
		uses[v.Num] = use
	}
	return nil
}

// disjoint reports whether all keys of a are below all keys of b, or a has none: files of
// range tombstones alone come first.
func disjoint(a, b *base.FileMeta) bool {
	return len(a.Largest) == 0 || bytes.Compare(a.Largest, b.Smallest) < 0
}

func (s *State) checkFile(id base.StripeID, f *base.FileMeta) error {
	switch {
	case f.Stripe != id:
		return fmt.Errorf("belongs to stripe %d", f.Stripe)
	case f.Num == 0 || f.Num >= s.NextFile:
		return fmt.Errorf("number is outside [1, %d)", s.NextFile)
	case f.SizeBytes < 0:
		return fmt.Errorf("negative size %d", f.SizeBytes)
	case bytes.Compare(f.Smallest, f.Largest) > 0:
		return fmt.Errorf("smallest key %x is above largest key %x", f.Smallest, f.Largest)
	case f.MinSeq > f.MaxSeq:
		return fmt.Errorf("lowest sequence number %d is above the highest, %d",
			f.MinSeq, f.MaxSeq)
	case f.MaxSeq > s.LastSeq:
		return fmt.Errorf("sequence number %d is above the last one, %d", f.MaxSeq, s.LastSeq)
	case f.Tombstones > f.Entries || f.TTLEntries > f.Entries:
		return fmt.Errorf("%d tombstones and %d entries with expiry among %d entries",
			f.Tombstones, f.TTLEntries, f.Entries)
	}
	return nil
}

// check checks a whole state, as a snapshot record brings it.
func (s *State) check() error {
	if s.DBID == [16]byte{} {
		return errors.New("database identity is zero")
	}
	for i := range s.Stripes {
		id := base.StripeID(i)
		if err := s.checkStripe(id, &s.Stripes[i]); err != nil {
			return fmt.Errorf("stripe %d: %w", id, err)
		}
	}
	return nil
}
