package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/composite"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// The set-up of the specification's figures: records of 100 users, in memory; a scan
// returns the records of one user.
const (
	users        = 100
	scansInRound = 1000
	payloadBytes = 100
)

// operations are what is measured of a set of composite keys.
var operations = []string{"writes", "lookups", "scans"}

func databaseRecord(name string, round int, f result.Figures) result.Record {
	return result.Record{Table: tableDatabase, Case: "records in memory", Engine: name,
		Round: round, Figures: f}
}

// specification is what the implementation that comes with it has measured of itself.
var specification = databaseRecord("specification", 0, result.Figures{
	"writes" + figRate: 202_714, "writes" + figBytes: 1_988,
	"lookups" + figRate: 173_641, "lookups" + figBytes: 1_296,
	"scans" + figRate: 195, "scans" + figBytes: 124_345,
})

// row is a record as a row of a table: orders of a user lie together, by date.
type row struct {
	User     string        `kstone:"user_id,pk"`
	Date     time.Time     `kstone:"order_date,sk,ms"`
	ID       keycodec.UUID `kstone:"order_id,sk"`
	Category string        `kstone:"category"`
	Payload  []byte        `kstone:"payload"`
}

// record returns record n: those of a user are users apart.
func record(n int) row {
	return row{
		User: userName(n), Date: time.UnixMilli(1737100800000 + int64(n)*1000).UTC(),
		ID:       keycodec.UUID{13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)},
		Category: fmt.Sprintf("C%d", n%5),
		Payload:  bytes.Repeat(fmt.Appendf(nil, "%010d", n), payloadBytes/10),
	}
}

func userName(n int) string { return fmt.Sprintf("USR_%05d", n%users) }

// way is a way to keep the records in a database.
type way struct {
	put  func(ctx context.Context, r *row) error
	get  func(ctx context.Context, r *row) ([]byte, error) // the payload, by primary key
	scan func(ctx context.Context, user string, next func(payload []byte) error) error
}

// ways open the ways to keep the records, in an empty database each.
var ways = []struct {
	name string
	open func(ctx context.Context, db *engine.DB) (way, func() error, error)
}{
	{"composite keys", openComposite},
	{"table", func(ctx context.Context, db *engine.DB) (way, func() error, error) {
		return openTable(ctx, db, false)
	}},
	{"table, an index", func(ctx context.Context, db *engine.DB) (way, func() error, error) {
		return openTable(ctx, db, true)
	}},
}

// openComposite keeps the records under the composite keys of the specification. The shard
// is the partition, so that the shards lie in different stripes.
func openComposite(_ context.Context, db *engine.DB) (way, func() error, error) {
	s, err := composite.NewSchema(
		composite.Options{Shard: &shard.Spec{Function: shard.MD5, Count: 256}},
		composite.Field{Name: "user_id", Type: composite.String, Width: 32},
		composite.Field{Name: "order_date", Type: composite.Timestamp},
		composite.Field{Name: "order_id", Type: composite.UUID})
	if err != nil {
		return way{}, nil, err
	}
	key := func(r *row) (engine.Key, error) {
		k, err := s.Append(make([]byte, 0, s.Size()), r.User, r.Date, r.ID)
		if err != nil {
			return engine.Key{}, err
		}
		return engine.Key{PK: k[:2], SK: k[2:]}, nil
	}
	return way{
		put: func(_ context.Context, r *row) error {
			k, err := key(r)
			if err != nil {
				return err
			}
			return db.Put(k, r.Payload, nil)
		},
		get: func(_ context.Context, r *row) ([]byte, error) {
			k, err := key(r)
			if err != nil {
				return nil, err
			}
			return db.Get(k)
		},
		scan: func(ctx context.Context, user string, next func([]byte) error) error {
			spans, err := s.Prefix(user)
			if err != nil {
				return err
			}
			q := engine.Query{PK: spans[0].Start[:2],
				SK: engine.SKRange(spans[0].Start[2:], spans[0].End[2:])}
			for item, err := range db.Query(ctx, q) {
				if err == nil {
					err = next(item.Value)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}, func() error { return nil }, nil
}

// openTable keeps the records in a table, with a second key by category and date or without.
func openTable(ctx context.Context, e *engine.DB, second bool) (way, func() error, error) {
	rows := typed.NewTable[row]("orders")
	user := typed.Col(rows, func(r *row) *string { return &r.User })
	date := typed.Col(rows, func(r *row) *time.Time { return &r.Date })
	category := typed.Col(rows, func(r *row) *string { return &r.Category })
	if second {
		rows.Index("by_category", category.Asc(), date.Asc()).Shard(16)
	}
	db, err := local.Open(ctx, e, nil)
	if err != nil {
		return way{}, nil, err
	}
	if err := typed.Migrate(ctx, db, rows); err != nil {
		return way{}, nil, errors.Join(err, db.Close())
	}
	return way{
		put: func(ctx context.Context, r *row) error { return rows.Put(ctx, db, r) },
		get: func(ctx context.Context, r *row) ([]byte, error) {
			found := row{User: r.User, Date: r.Date, ID: r.ID}
			err := rows.Load(ctx, db, &found)
			return found.Payload, err
		},
		scan: func(ctx context.Context, name string, next func([]byte) error) error {
			for r, err := range rows.Where(user.Eq(name)).OrderBy(date.Asc()).Each(ctx, db) {
				if err == nil {
					err = next(r.Payload)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}, db.Close, nil
}

// measureDatabase takes the figures of all ways in turns, each round on new databases.
func measureDatabase(ctx context.Context, records, rounds int,
	emit func(result.Record) error) error {
	data := make([]row, records)
	for i := range data {
		data[i] = record(i)
	}
	for round := range rounds {
		err := measure.Rotate(ctx, round, len(ways), func(i int) error {
			f, err := measureRound(ctx, ways[i].open, data)
			if err != nil {
				return fmt.Errorf("%s: %w", ways[i].name, err)
			}
			return emit(databaseRecord(ways[i].name, round, f))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func measureRound(ctx context.Context,
	open func(context.Context, *engine.DB) (way, func() error, error), data []row,
) (out result.Figures, err error) {
	out = result.Figures{}
	db, err := engine.Open("keys", &engine.Options{InMemory: true})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w, closeWay, err := open(ctx, db)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, closeWay()) }()
	err = errors.Join(
		rate(ctx, out, "writes", len(data), func(i int) error { return w.put(ctx, &data[i]) }),
		rate(ctx, out, "lookups", len(data), func(i int) error {
			n := i * 7919 % len(data) // a prime: neither in the order of writing nor of keys
			payload, err := w.get(ctx, &data[n])
			if err == nil && !bytes.Equal(payload, data[n].Payload) {
				err = fmt.Errorf("record %d has another payload", n)
			}
			return err
		}),
		rate(ctx, out, "scans", scansInRound, func(i int) error { return scan(ctx, w, i, data) }))
	return out, err
}

// scan reads the records of a user and fails unless all are there, in their order.
func scan(ctx context.Context, w way, i int, data []row) error {
	n := i % users
	err := w.scan(ctx, userName(n), func(payload []byte) error {
		if n >= len(data) || !bytes.Equal(payload, data[n].Payload) {
			return fmt.Errorf("a scan of user %s returns something else than record %d",
				userName(n), n)
		}
		n += users
		return nil
	})
	if err == nil && n < len(data) {
		err = fmt.Errorf("a scan of user %s ends before record %d", userName(n), n)
	}
	return err
}

// rate measures n calls of an operation.
func rate(ctx context.Context, f result.Figures, name string, n int, op func(i int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	memory, err := allocated(n, op)
	f[name+figRate] = float64(n) / time.Since(start).Seconds()
	f[name+figBytes], f[name+figAllocs] = memory.bytes, memory.allocs
	return err
}
