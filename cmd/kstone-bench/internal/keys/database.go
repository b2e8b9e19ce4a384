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
	"github.com/kstonedb/kstone/engine/access"
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

// collections opens the two ways to keep the records, in a database each.
var collections = []struct {
	name     string
	parallel []access.Index
}{
	{"one key", nil},
	{"two keys", []access.Index{index("orders.category", 16, category, date, user, id)}},
}

var (
	user     = composite.Field{Name: "user_id", Type: composite.String, Width: 32}
	category = composite.Field{Name: "category", Type: composite.String, Width: 16}
	date     = composite.Field{Name: "order_date", Type: composite.Timestamp}
	id       = composite.Field{Name: "order_id", Type: composite.UUID}
)

func index(name string, shards int, fields ...composite.Field) access.Index {
	o := composite.Options{Shard: &shard.Spec{Function: shard.MD5, Count: shards}}
	keys, err := composite.NewSchema(o, fields...)
	if err != nil {
		panic(err) // the schemas are constants
	}
	return access.Index{Name: name, Keys: keys}
}

// record returns record n: those of a user are users apart.
func record(n int) access.Record {
	return access.Record{
		Fields: map[string]any{
			"user_id": userName(n), "order_date": 1737100800000 + int64(n)*1000,
			"category": fmt.Sprintf("C%d", n%5),
			"order_id": keycodec.UUID{13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)},
		},
		Payload: bytes.Repeat(fmt.Appendf(nil, "%010d", n), payloadBytes/10),
	}
}

func userName(n int) string { return fmt.Sprintf("USR_%05d", n%users) }

// measureDatabase takes the figures of both collections in turns, each round on new
// databases.
func measureDatabase(ctx context.Context, records, rounds int,
	emit func(result.Record) error) error {
	data := make([]access.Record, records)
	for i := range data {
		data[i] = record(i)
	}
	for round := range rounds {
		err := measure.Rotate(ctx, round, len(collections), func(i int) error {
			c := collections[i]
			f, err := measureRound(ctx, c.parallel, data)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			return emit(databaseRecord(c.name, round, f))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func measureRound(
	ctx context.Context, parallel []access.Index, data []access.Record,
) (out result.Figures, err error) {
	out = result.Figures{}
	db, err := engine.Open("keys", &engine.Options{InMemory: true})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := access.Open(db, index("orders", 256, user, date, id), parallel...)
	if err != nil {
		return out, err
	}
	err = rate(ctx, out, "writes", len(data), func(i int) error { return c.Put(ctx, data[i]) })
	if err != nil {
		return out, err
	}
	names := make([]map[string]any, len(data))
	for i, r := range data {
		names[i] = map[string]any{}
		for _, field := range []string{"user_id", "order_date", "order_id"} {
			names[i][field] = r.Fields[field]
		}
	}
	err = rate(ctx, out, "lookups", len(data), func(i int) error {
		n := i * 7919 % len(data) // a prime: neither in the order of writing nor of keys
		m, err := c.ExactLookup(names[n])
		if err == nil && !bytes.Equal(m.Payload, data[n].Payload) {
			err = fmt.Errorf("record %d has another payload", n)
		}
		return err
	})
	if err != nil {
		return out, err
	}
	err = rate(ctx, out, "scans", scansInRound, func(i int) error {
		return scan(ctx, c, i, data)
	})
	return out, err
}

// scan reads the records of a user and fails unless all are there, in their order.
func scan(ctx context.Context, c *access.Collection, i int, data []access.Record) error {
	n := i % users
	for m, err := range c.PrefixScan(ctx, map[string]any{"user_id": userName(n)}, 0) {
		if err != nil {
			return err
		}
		if n >= len(data) || !bytes.Equal(m.Payload, data[n].Payload) {
			return fmt.Errorf("a scan of user %s returns something else than record %d",
				userName(n), n)
		}
		n += users
	}
	if n < len(data) {
		return fmt.Errorf("a scan of user %s ends before record %d", userName(n), n)
	}
	return nil
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
