package main

import (
	"context"

	"github.com/magiconair/properties"
	"github.com/pingcap/go-ycsb/pkg/util"
	"github.com/pingcap/go-ycsb/pkg/ycsb"

	"github.com/kstonedb/kstone/engine"
)

// Properties of the driver.
const (
	propDir       = "kstone.dir"
	propSync      = "kstone.sync"
	propPartition = "kstone.partition" // all records of a table are one partition
)

func init() { ycsb.RegisterDBCreator("kstone", creator{}) }

type creator struct{}

// Create implements ycsb.DBCreator.
func (creator) Create(p *properties.Properties) (ycsb.DB, error) {
	o := &engine.Options{Durability: engine.Process}
	if p.GetBool(propSync, false) {
		o.Durability = engine.Sync
	}
	db, err := engine.Open(p.GetString(propDir, "kstone"), o)
	if err != nil {
		return nil, err
	}
	return &driver{db: db, rows: util.NewRowCodec(p), one: p.GetBool(propPartition, false)}, nil
}

// driver implements ycsb.DB. A record is a partition of one item, or an item of its table's
// partition.
type driver struct {
	db   *engine.DB
	rows *util.RowCodec
	one  bool
}

func (d *driver) key(table, key string) engine.Key {
	if d.one {
		return engine.K(table, key)
	}
	return engine.Key{PK: []byte(key)}
}

func (d *driver) Close() error { return d.db.Close() }

func (d *driver) InitThread(ctx context.Context, _, _ int) context.Context { return ctx }

func (d *driver) CleanupThread(context.Context) {}

func (d *driver) Read(_ context.Context, table, key string, fields []string) (map[string][]byte,
	error) {
	value, err := d.db.Get(d.key(table, key))
	if err != nil {
		return nil, err
	}
	return d.rows.Decode(value, fields)
}

func (d *driver) Scan(ctx context.Context, table, start string, count int, fields []string) (
	[]map[string][]byte, error) {
	found := make([]map[string][]byte, 0, count)
	add := func(value []byte) (err error) {
		row, err := d.rows.Decode(append([]byte(nil), value...), fields)
		found = append(found, row)
		return err
	}
	items := d.db.Scan(ctx, engine.Scan{From: d.key(table, start), Limit: count})
	if d.one {
		from := engine.SKGreaterEqual([]byte(start))
		items = d.db.Query(ctx, engine.Query{PK: []byte(table), SK: from, Limit: count})
	}
	for item, err := range items {
		if err == nil {
			err = add(item.Value)
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Update replaces some fields of a record.
func (d *driver) Update(ctx context.Context, table, key string, values map[string][]byte) error {
	row, err := d.Read(ctx, table, key, nil)
	if err != nil {
		return err
	}
	for name, value := range values {
		row[name] = value
	}
	return d.Insert(ctx, table, key, row)
}

func (d *driver) Insert(_ context.Context, table, key string, values map[string][]byte) error {
	row, err := d.rows.Encode(nil, values)
	if err != nil {
		return err
	}
	return d.db.Put(d.key(table, key), row)
}

func (d *driver) Delete(_ context.Context, table, key string) error {
	return d.db.Delete(d.key(table, key))
}
