package torture

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/kstonedb/kstone/engine"
)

// consumerName is that of the consumer for which the database retains its log: the replica.
const consumerName = "replica"

// replica is a copy of a database that is made of its changes alone, over all kills.
type replica struct {
	at    engine.Position
	items map[string]string
	read  int // changes
}

// follow reads the changes since the last time; each must come once, whole and in order,
// and compares the copy with the database.
func (r *replica) follow(ctx context.Context, db *engine.DB) error {
	c, err := db.Consumer(consumerName, engine.Position{})
	if err != nil {
		return err
	}
	if r.items == nil {
		r.items = map[string]string{}
	}
	err = contiguous(ctx, db, r.at, &engine.ChangesOptions{Stop: true}, func(c *engine.Change) {
		r.read, r.at = r.read+1, c.Next()
		switch c.Kind {
		case engine.ChangeDelete:
			delete(r.items, mapKey(c.Key))
		case engine.ChangeDeleteRange:
			maps.DeleteFunc(r.items, func(k, _ string) bool {
				pk, sk, _ := strings.Cut(k, "\x00")
				key := engine.Key{PK: []byte(pk), SK: []byte(sk)}
				if sk == "" {
					key.SK = nil
				}
				return c.Covers(key)
			})
		default:
			r.items[mapKey(c.Key)] = string(c.Value)
		}
	})
	if err != nil {
		return err
	}
	got := map[string]string{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		if err != nil {
			return err
		}
		got[mapKey(it.Key)] = string(it.Value)
	}
	if !maps.Equal(r.items, got) {
		return fmt.Errorf("after all changes, up to %s: %s", r.at, difference(got, r.items))
	}
	return c.Ack(r.at)
}

// contiguous reads changes, and checks that none is missing and none comes twice.
func contiguous(ctx context.Context, db *engine.DB, from engine.Position,
	o *engine.ChangesOptions, fn func(*engine.Change)) error {
	next, first := engine.Position{Version: max(from.Version, 1), Index: from.Index}, true
	for c, err := range db.Changes(ctx, from, o) {
		if err != nil {
			return fmt.Errorf("changes: %w", err)
		}
		// A position after the last change of a commit is the same as that of the next commit.
		if first && from.Index > 0 && c.Version == from.Version+1 {
			next = engine.Position{Version: c.Version}
		}
		first = false
		if c.Version != next.Version || c.Index != next.Index || c.Last != (c.Index+1 == c.Of) {
			return fmt.Errorf("change %d.%d of %d, last %v, in place of %d.%d", c.Version,
				c.Index, c.Of, c.Last, next.Version, next.Index)
		}
		if next.Index++; c.Last {
			next = engine.Position{Version: c.Version + 1}
		}
		fn(&c)
	}
	return nil
}
