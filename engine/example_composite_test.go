package engine_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/composite"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// orderKeys returns the schema of keys that begin with a shard: two bytes and a delimiter.
func orderKeys(shards int, fields ...composite.Field) *composite.Schema {
	spec := &shard.Spec{Function: shard.MD5, Count: shards}
	s, err := composite.NewSchema(composite.Options{Shard: spec}, fields...)
	if err != nil {
		log.Fatal(err)
	}
	return s
}

var (
	orderUser   = composite.Field{Name: "user_id", Type: composite.String, Width: 32}
	orderDate   = composite.Field{Name: "order_date", Type: composite.Timestamp}
	orderID     = composite.Field{Name: "order_id", Type: composite.UUID}
	orderStatus = composite.Field{Name: "status", Type: composite.String, Width: 8}

	byUser   = orderKeys(256, orderUser, orderDate, orderID)
	byStatus = orderKeys(4, orderStatus, orderDate, orderUser, orderID)
)

// orderKey is the composite key of an order, byte for byte: the index and the shard are the
// partition, so that shards lie in different stripes, and the rest is the sort key.
func orderKey(index string, s *composite.Schema, values ...any) engine.Key {
	key, err := s.Append(nil, values...)
	if err != nil {
		log.Fatal(err)
	}
	return engine.Key{PK: append([]byte(index), key[:2]...), SK: key[2:]}
}

// orderSpans gathers spans of composite keys, one for each shard that may have some.
func orderSpans(index string, spans []keycodec.Span, err error) (g engine.Gather) {
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range spans {
		within := keycodec.Span{Start: s.Start[2:], End: s.End[2:]}
		g.PKs = append(g.PKs, append([]byte(index), s.Start[:2]...))
		g.Each = append(g.Each, []keycodec.Span{within})
	}
	return g
}

// Orders under two composite keys of version 1, whose bytes other programs know. Both are
// written in one commit; each of exact, prefix and range queries reads one range, or one for
// each shard, merged.
//
// Promise (keys): Orders are found by exact, prefix and range under two composite keys, byte for
// byte those of version 1.
func Example_compositeKeys() {
	ctx := context.Background()
	db := memory()
	defer db.Close()
	start := time.UnixMilli(1737100800000) // 2025-01-17 08:00 UTC
	for i, status := range []string{"paid", "sent", "paid", "new", "paid"} {
		user, date, id := "USR_12345", start.AddDate(0, 0, i), keycodec.UUID{byte(i)}
		if i == 4 {
			user = "USR_9"
		}
		primary := orderKey("u", byUser, user, date, id)
		b := engine.NewBatch()
		_ = b.Put(primary, fmt.Appendf(nil, "order %d", i))
		_ = b.Put(orderKey("s", byStatus, status, date, user, id), nil)
		if err := db.Apply(ctx, b); err != nil {
			log.Fatal(err)
		}
	}
	first := orderKey("u", byUser, "USR_12345", start, keycodec.UUID{})
	value, err := db.Get(first)
	fmt.Printf("exact: %s %x %v\n", value, first.PK[1:], err)

	show := func(what string, g engine.Gather) {
		for item, err := range db.Gather(ctx, g) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s: %s\n", what, item.Value)
		}
	}
	spans, err := byUser.Prefix("USR_12345")
	newest := orderSpans("u", spans, err)
	newest.Reverse, newest.Limit = true, 2
	show("newest of a user", newest)
	spans, err = byUser.Range([]any{"USR_12345"}, keycodec.Including(start),
		keycodec.Excluding(start.AddDate(0, 0, 2)))
	show("two days of a user", orderSpans("u", spans, err))
	spans, err = byUser.Range(nil, keycodec.Including("USR_2"), keycodec.Bound{})
	show("other users", orderSpans("u", spans, err))

	// The second key has no payload: its fields make the first one.
	spans, err = byStatus.Prefix("paid")
	for item, err := range db.Gather(ctx, orderSpans("s", spans, err)) {
		if err != nil {
			log.Fatal(err)
		}
		values, err := byStatus.Decode(append(item.Key.PK[1:3:3], item.Key.SK...))
		if err != nil {
			log.Fatal(err)
		}
		value, err := db.Get(orderKey("u", byUser, values[2], values[1], values[3]))
		fmt.Printf("paid: %s %s %v\n", values[2], value, err)
	}
	// Output:
	// exact: order 0 0010 <nil>
	// newest of a user: order 3
	// newest of a user: order 2
	// two days of a user: order 0
	// two days of a user: order 1
	// other users: order 4
	// paid: USR_12345 order 0 <nil>
	// paid: USR_12345 order 2 <nil>
	// paid: USR_9 order 4 <nil>
}
