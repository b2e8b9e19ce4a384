package tables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Cases that something is said about in other files.
const (
	casePrepared   = "point get by primary key, prepared"
	caseUnprepared = "point get by primary key, not prepared"
)

// Sizes of answers: of a range of At, and of the first rows by Seq.
const (
	rangeRows = 20
	firstRows = 10
)

// reader is what a goroutine reads with, again and again.
type reader struct {
	session
	rnd   *rand.Rand
	row   Row
	rows  []Row
	pairs []pair
}

// readCase draws a question, asks it, and checks of the answer what can be checked without a
// cost, or all of it.
type readCase struct {
	name string
	slow bool // for an engine that walks over the whole index
	ask  func(ctx context.Context, r *reader, d *data, all bool) error
}

// point is a case of one row.
func point(name string, get func(ctx context.Context, r *reader, d *data, id int64) error,
) readCase {
	return readCase{name, false, func(ctx context.Context, r *reader, d *data, all bool) error {
		id := 1 + r.rnd.Int64N(d.n)
		err := get(ctx, r, d, id)
		if all {
			return differs(err, r.row, d.row(id))
		}
		return differs(err, r.row.ID, id)
	}}
}

// several is a case of n rows, the first with value v of a column.
func several[T comparable](name string, n int64,
	get func(ctx context.Context, r *reader, v int64) ([]T, error),
	want func(d *data, v int64) T) readCase {
	return readCase{name, true, func(ctx context.Context, r *reader, d *data, all bool) error {
		v := r.rnd.Int64N(d.n - n)
		got, err := get(ctx, r, v)
		for i := range got {
			if all && i < int(n) {
				err = differs(err, got[i], want(d, v+int64(i)))
			}
		}
		return differs(err, len(got), int(n))
	}}
}

var readCases = []readCase{
	point(casePrepared, func(ctx context.Context, r *reader, _ *data, id int64) error {
		return r.get(ctx, id, &r.row)
	}),
	point(caseUnprepared, func(ctx context.Context, r *reader, _ *data, id int64) error {
		return r.getOnce(ctx, id, &r.row)
	}),
	point("point get by unique index", func(ctx context.Context, r *reader, d *data,
		id int64) error {
		return r.getCode(ctx, d.code(id), &r.row)
	}),
	several("index range of 20 rows, covering", rangeRows,
		func(ctx context.Context, r *reader, v int64) (_ []pair, err error) {
			r.pairs, err = r.rangeCovered(ctx, r.pairs[:0], v, v+rangeRows)
			return r.pairs, err
		}, func(d *data, v int64) pair { r := d.byAt(v); return pair{r.At, r.Amount} }),
	several("index range of 20 rows, whole rows", rangeRows,
		func(ctx context.Context, r *reader, v int64) (_ []Row, err error) {
			r.rows, err = r.rangeAt(ctx, r.rows[:0], v, v+rangeRows)
			return r.rows, err
		}, (*data).byAt),
	several("ORDER BY seq LIMIT 10", firstRows,
		func(ctx context.Context, r *reader, v int64) (_ []Row, err error) {
			r.rows, err = r.firstBySeq(ctx, r.rows[:0], v, firstRows)
			return r.rows, err
		}, (*data).bySeq),
}

func differs[T comparable](err error, got, want T) error {
	if err == nil && got != want {
		err = fmt.Errorf("the answer is %+v, not %+v", got, want)
	}
	return err
}

// slowQuestions is how long an engine is asked questions that it may answer slowly.
const slowQuestions = 10 * time.Second

// verify asks an engine questions of every kind and compares the answers with the data. All
// engines that pass return equal rows.
func verify(ctx context.Context, s session, d *data, questions int) error {
	r := &reader{session: s, rnd: rand.New(rand.NewPCG(4, uint64(d.n)))}
	if s.get(ctx, d.n+1, &r.row) == nil {
		return fmt.Errorf("row %d is there", d.n+1)
	}
	start := time.Now()
	for i := range questions {
		for _, c := range readCases {
			if c.slow && i > 0 && (i > questions/10 || time.Since(start) > slowQuestions) {
				continue
			}
			if err := c.ask(ctx, r, d, true); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

// readGoroutines are the numbers of goroutines that read.
var readGoroutines = []int{1, 2}

// verified is the number of questions of each kind that an engine has to answer correctly.
const verified = 200

// reads verifies the answers of all engines, then measures them. All engines get the same
// questions in a round.
func (b *bench) reads(all []*contestant) error {
	readers := make([][]*reader, len(all))
	for i, c := range all {
		for range slices.Max(readGoroutines) {
			s, err := c.session(b.ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			readers[i] = append(readers[i], &reader{session: s})
		}
		if err := verify(b.ctx, readers[i][0], b.data, verified); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for round := range b.Repeat {
		for _, rc := range readCases {
			for _, n := range readGoroutines {
				err := b.turns(round, len(all), func(i int) entry {
					for g, r := range readers[i] {
						r.rnd = rand.New(rand.NewPCG(uint64(round), uint64(g)))
					}
					return entry{groupReads, rc.name, all[i].name, n, 1, b.Turn,
						func(g int) error { return rc.ask(b.ctx, readers[i][g], b.data, false) }}
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return b.own(all[0].store.(*kstoneStore))
}

// insertBatches are the numbers of rows in a transaction.
var insertBatches = []int{1, 100}

func insertCase(p phase, batch int) string {
	name := fmt.Sprintf("insert, %d indexes, ", p.indexes)
	if p.indexes == 1 {
		name = "insert, 1 index, "
	}
	name += rowsCase(batch)
	if p.sync {
		name += ", synced"
	}
	return name
}

func rowsCase(batch int) string {
	if batch == 1 {
		return "single rows"
	}
	return fmt.Sprintf("batches of %d", batch)
}

// inserts measures insertion after the rows that are loaded, and reads a sample back. Making
// the rows is part of the time, the same for all.
func (b *bench) inserts(p phase, all []*contestant, d *data) error {
	first := d.n + 1
	for round := range b.Repeat {
		for _, batch := range insertBatches {
			rows := make([]Row, batch)
			err := b.turns(round, len(all), func(i int) entry {
				c := all[i]
				return entry{groupInserts, insertCase(p, batch), c.name, 1, batch, b.Turn,
					func(int) error {
						for i := range rows {
							rows[i] = d.row(c.next)
							c.next++
						}
						return c.insert(b.ctx, rows)
					}}
			})
			if err != nil {
				return err
			}
		}
	}
	for _, c := range all {
		s, err := c.session(b.ctx)
		step := max(1, (c.next-1-first)/50)
		for id := first; id < c.next && err == nil; id += step {
			var got Row
			err = errors.Join(s.get(b.ctx, id, &got), differs(nil, got, d.row(id)))
		}
		if err != nil {
			return fmt.Errorf("%s: after insertion: %w", c.name, err)
		}
	}
	return nil
}
