package tables

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// Groups of cases.
const (
	groupReads   = "reads"
	groupInserts = "inserts"
	groupOwn     = "own"
	groupSpans   = "spans"
	groupShards  = "shards"
)

// Cases that something is said about in other files.
const (
	casePrepared   = "point get by primary key, prepared"
	caseUnprepared = "point get by primary key, not prepared"
)

// reader is what a goroutine reads with, again and again.
type reader struct {
	session
	rnd   *rand.Rand
	row   Row
	rows  []Row
	pairs []pair
}

type readCase struct {
	name string
	op   func(ctx context.Context, r *reader, d *data) error
}

// readCases check of every answer what can be checked without a cost.
var readCases = []readCase{
	{casePrepared, func(ctx context.Context, r *reader, d *data) error {
		id := 1 + r.rnd.Int64N(d.n)
		err := r.get(ctx, id, &r.row)
		return differs(err, r.row.ID, id)
	}},
	{caseUnprepared, func(ctx context.Context, r *reader, d *data) error {
		id := 1 + r.rnd.Int64N(d.n)
		err := r.getOnce(ctx, id, &r.row)
		return differs(err, r.row.ID, id)
	}},
	{"point get by unique index", func(ctx context.Context, r *reader, d *data) error {
		code := d.code(1 + r.rnd.Int64N(d.n))
		err := r.getCode(ctx, code, &r.row)
		return differs(err, r.row.Code, code)
	}},
	{"index range of 20 rows, covering", func(ctx context.Context, r *reader, d *data) error {
		lo := r.rnd.Int64N(d.n - rangeRows)
		var err error
		r.pairs, err = r.rangeCovered(ctx, r.pairs[:0], lo, lo+rangeRows)
		return differs(err, len(r.pairs), rangeRows)
	}},
	{"index range of 20 rows, whole rows", func(ctx context.Context, r *reader, d *data) error {
		lo := r.rnd.Int64N(d.n - rangeRows)
		var err error
		r.rows, err = r.rangeAt(ctx, r.rows[:0], lo, lo+rangeRows)
		return differs(err, len(r.rows), rangeRows)
	}},
	{"ORDER BY seq LIMIT 10", func(ctx context.Context, r *reader, d *data) error {
		from := r.rnd.Int64N(d.n - firstRows)
		var err error
		r.rows, err = r.firstBySeq(ctx, r.rows[:0], from, firstRows)
		return differs(err, len(r.rows), firstRows)
	}},
}

// readGoroutines are the numbers of goroutines that read.
var readGoroutines = []int{1, 2}

// verified is the number of questions of each kind that an engine has to answer correctly.
const verified = 200

// reads verifies the answers of all engines, then measures them.
func (b *bench) reads(all []*contestant) (err error) {
	most := readGoroutines[len(readGoroutines)-1]
	readers := make([][]*reader, len(all))
	defer func() {
		for _, rs := range readers {
			for _, r := range rs {
				err = errors.Join(err, r.close())
			}
		}
	}()
	for i, c := range all {
		for range most {
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
				err := measure.Rotate(b.ctx, round, len(all), func(i int) error {
					return b.read(all[i], readers[i][:n], rc, round)
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return b.own(all[0].store.(*kstoneStore))
}

// read measures one turn. All engines get the same questions in a round.
func (b *bench) read(c *contestant, rs []*reader, rc readCase, round int) error {
	for g, r := range rs {
		r.rnd = rand.New(rand.NewPCG(uint64(round), uint64(g)))
	}
	cost, err := turn(b.ctx, len(rs), b.Turn, func(g int) error {
		return rc.op(b.ctx, rs[g], b.data)
	})
	if err != nil {
		return fmt.Errorf("%s: %s: %w", c.name, rc.name, err)
	}
	return b.emit(cost.record(groupReads, rc.name, c.name, len(rs), round))
}

// record has the figures of a turn.
func (c cost) record(group, name, engine string, goroutines, round int) result.Record {
	return result.Record{Table: group, Case: name, Engine: engine, Goroutines: goroutines,
		Round: round, Figures: result.Figures{
			result.Ops: float64(c.ops), result.Seconds: c.seconds,
			result.PerSecond: float64(c.ops) / c.seconds,
			result.Allocs:    c.allocs, result.AllocatedBytes: c.bytes,
		}}
}
