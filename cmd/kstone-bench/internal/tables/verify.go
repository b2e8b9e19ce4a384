package tables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Sizes of answers: of a range of At, and of the first rows by Seq.
const (
	rangeRows = 20
	firstRows = 10
)

// slowQuestions is how long an engine is asked questions that it may answer slowly.
const slowQuestions = 10 * time.Second

// verify asks an engine questions of every kind and compares the answers with the data. All
// engines that pass return equal rows.
func verify(ctx context.Context, s session, d *data, questions int) error {
	rnd := rand.New(rand.NewPCG(4, uint64(d.n)))
	late := after(slowQuestions)
	for i := range questions {
		for _, q := range questionsOfAllKinds {
			if q.slow && (i >= questions/10+1 || i > 0 && late()) {
				continue
			}
			if err := q.ask(ctx, s, d, rnd); err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
		}
	}
	return nil
}

type question struct {
	name string
	slow bool // for an engine that walks over the whole index
	ask  func(ctx context.Context, s session, d *data, rnd *rand.Rand) error
}

var questionsOfAllKinds = []question{
	{"get", false, func(ctx context.Context, s session, d *data, rnd *rand.Rand) error {
		want, got := d.row(1+rnd.Int64N(d.n)), Row{}
		err := s.get(ctx, want.ID, &got)
		return differs(err, got, want)
	}},
	{"get, not prepared", false, func(ctx context.Context, s session, d *data,
		rnd *rand.Rand) error {
		want, got := d.row(1+rnd.Int64N(d.n)), Row{}
		err := s.getOnce(ctx, want.ID, &got)
		return differs(err, got, want)
	}},
	{"get of a missing row", false, func(ctx context.Context, s session, d *data,
		_ *rand.Rand) error {
		if err := s.get(ctx, d.n+1, new(Row)); err == nil {
			return fmt.Errorf("row %d is there", d.n+1)
		}
		return nil
	}},
	{"get by code", false, func(ctx context.Context, s session, d *data, rnd *rand.Rand) error {
		want, got := d.row(1+rnd.Int64N(d.n)), Row{}
		err := s.getCode(ctx, want.Code, &got)
		return differs(err, got, want)
	}},
	{"range", true, func(ctx context.Context, s session, d *data, rnd *rand.Rand) error {
		lo := rnd.Int64N(d.n)
		got, err := s.rangeAt(ctx, nil, lo, lo+rangeRows)
		return differSlices(err, got, d.rowsByAt(lo))
	}},
	{"covered range", true, func(ctx context.Context, s session, d *data, rnd *rand.Rand) error {
		lo := rnd.Int64N(d.n)
		var want []pair
		for _, r := range d.rowsByAt(lo) {
			want = append(want, pair{r.At, r.Amount})
		}
		got, err := s.rangeCovered(ctx, nil, lo, lo+rangeRows)
		return differSlices(err, got, want)
	}},
	{"first by seq", true, func(ctx context.Context, s session, d *data, rnd *rand.Rand) error {
		from := rnd.Int64N(d.n)
		var want []Row
		for v := from; v < min(d.n, from+firstRows); v++ {
			want = append(want, d.bySeq(v))
		}
		got, err := s.firstBySeq(ctx, nil, from, firstRows)
		return differSlices(err, got, want)
	}},
}

// rowsByAt returns the rows of the range that begins at lo.
func (d *data) rowsByAt(lo int64) []Row {
	var out []Row
	for v := lo; v < min(d.n, lo+rangeRows); v++ {
		out = append(out, d.byAt(v))
	}
	return out
}

func differs[T comparable](err error, got, want T) error {
	if err == nil && got != want {
		err = fmt.Errorf("the answer is %+v, not %+v", got, want)
	}
	return err
}

func differSlices[T comparable](err error, got, want []T) error {
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("the answer is %+v, not %+v", got, want)
	}
	return err
}

// verifyInserted reads a sample of the rows first to last back.
func verifyInserted(ctx context.Context, st store, d *data, first, last int64) (err error) {
	s, err := st.session(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	step := max(1, (last-first)/50)
	for id := first; id <= last; id += step {
		var got Row
		err := s.get(ctx, id, &got)
		if err := differs(err, got, d.row(id)); err != nil {
			return fmt.Errorf("row %d after insertion: %w", id, err)
		}
	}
	return nil
}
