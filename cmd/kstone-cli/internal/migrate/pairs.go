package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/bulk"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/overview"
)

const (
	examples = 5
	// A group of pairs is one commit.
	groupPairs = 1000
	groupBytes = 1 << 20
)

// migratePairs shows the rule, copies pairs and verifies them.
func migratePairs(ctx context.Context, a *cli.App, f *flags, src Pairs, to string) error {
	rule, err := parseRule(f.rule, src.Buckets())
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "rule %s: %s\n", rule.name, rule.text)
	n := 0
	for p, err := range src.All(ctx) {
		if err != nil {
			return err
		}
		if n++; n > examples {
			fmt.Fprintln(a.Err, "  …")
			break
		}
		fmt.Fprintln(a.Err, rule.shown(&p))
	}
	if n == 0 {
		fmt.Fprintln(a.Err, "  the source has no keys")
	}
	if f.dry {
		left(a, src.Left())
		return nil
	}
	a.Durability = "process" // and a sync at the end
	return a.WithDB(to, cli.Create, func(d *cli.Database) error {
		c := &pairCopy{app: a, db: d, src: src, rule: rule, batch: engine.NewBatch()}
		c.rejects = rejects{app: a, most: f.shown}
		if err := c.copy(ctx); err != nil {
			return interrupted(ctx, err)
		}
		if err := c.verify(ctx); err != nil {
			return err
		}
		left(a, src.Left())
		fmt.Fprintf(a.Out, "%s: %s written, %s were there; verified, checksum %s\n",
			figure.Plural(c.read.Rows(), "pair"), figure.Count(c.written),
			figure.Count(c.read.Rows()-c.written), c.read)
		if err := c.others(ctx); err != nil {
			return err
		}
		return c.rejects.verdict("pair", "another --rule may divide these keys; values have at "+
			"most 64 MiB")
	})
}

// pairCopy copies the pairs of a source.
type pairCopy struct {
	app  *cli.App
	db   *cli.Database
	src  Pairs
	rule *rule

	bar     *meter.Meter
	total   int64 // pairs, as far as it is known
	now     int64 // in Unix milliseconds, when this began: expired pairs are left out
	fresh   bool  // the database had no items
	read    bulk.Checksum
	written int64
	rejects rejects

	batch *engine.Batch
	found engine.Results
	items []engine.Item // of the present group
	bytes int
}

// copy writes the pairs that the database does not have.
func (c *pairCopy) copy(ctx context.Context) error {
	c.now, c.fresh = time.Now().UnixMilli(), true
	for _, err := range c.db.Scan(ctx, engine.Scan{Limit: 1}) {
		if err != nil {
			return err
		}
		c.fresh = false
	}
	err := c.each(ctx, "copying", &c.read, c.write)
	c.total = c.read.Rows()
	return errors.Join(err, c.db.Sync(ctx))
}

// each reads the pairs in groups, with the keys that they get.
func (c *pairCopy) each(ctx context.Context, doing string, sum *bulk.Checksum,
	handle func(context.Context) error) error {
	total := c.total
	if total == 0 {
		total = -1
	}
	c.bar = meter.New(c.app.Err, c.app.ErrTTY, total, doing)
	defer c.bar.Done()
	c.rejects.note, c.rejects.count = c.bar.Note, 0
	if doing != "copying" {
		c.rejects.note = func(string) {} // they have been listed
	}
	for p, err := range c.src.All(ctx) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if p.Expiry != 0 && p.Expiry <= c.now {
			continue
		}
		if !c.take(&p) {
			continue
		}
		addItem(sum, &c.items[len(c.items)-1])
		if len(c.items) == groupPairs || c.bytes >= groupBytes {
			if err := c.flush(ctx, handle); err != nil {
				return err
			}
			c.bar.Set(sum.Rows())
		}
	}
	return c.flush(ctx, handle)
}

func (c *pairCopy) flush(ctx context.Context, handle func(context.Context) error) error {
	if len(c.items) == 0 {
		return nil
	}
	err := handle(ctx)
	c.items, c.bytes = c.items[:0], 0
	return err
}

// take adds a pair to the group, unless a database cannot hold it.
func (c *pairCopy) take(p *Pair) bool {
	key, err := c.rule.key(p)
	if err == nil && len(p.Value) > engine.MaxValueBytes {
		err = fmt.Errorf("the value has %s, and at most %s are possible",
			figure.Bytes(int64(len(p.Value))), figure.Bytes(engine.MaxValueBytes))
	}
	if err != nil {
		what := short(p.Key)
		if p.Bucket != "" {
			what = short([]byte(p.Bucket)) + "  " + what
		}
		c.rejects.add(what, cli.PlainText(err))
		return false
	}
	it := engine.Item{Key: engine.Key{PK: bytes.Clone(key.PK), SK: bytes.Clone(key.SK)},
		Value: bytes.Clone(p.Value), Expiry: p.Expiry}
	c.items = append(c.items, it)
	c.bytes += len(it.Key.PK) + len(it.Key.SK) + len(it.Value)
	return true
}

// addItem adds what an item consists of to a checksum.
func addItem(sum *bulk.Checksum, it *engine.Item) {
	value := it.Value
	if value == nil {
		value = []byte{} // an empty value is one
	}
	sum.Add(it.Key.PK, it.Key.SK, value, fmt.Append(nil, it.Expiry))
}

// lookUp finds what the database has of the group.
func (c *pairCopy) lookUp(ctx context.Context) error {
	keys := make([]engine.Key, len(c.items))
	for i := range c.items {
		keys[i] = c.items[i].Key
	}
	return c.db.MultiGet(ctx, keys, &c.found)
}

// same reports whether the database has an item of the group as it is.
func (c *pairCopy) same(i int) bool {
	have, ok := c.found.Item(i)
	return ok && bytes.Equal(have.Value, c.items[i].Value) && have.Expiry == c.items[i].Expiry
}

// write writes those of a group that are missing or differ, in one commit.
func (c *pairCopy) write(ctx context.Context) error {
	if !c.fresh {
		if err := c.lookUp(ctx); err != nil {
			return err
		}
	}
	c.batch.Reset()
	for i := range c.items {
		if it := &c.items[i]; c.fresh || !c.same(i) {
			if err := c.batch.Put(it.Key, it.Value, engine.Expiry(it.Expiry)); err != nil {
				return err
			}
		}
	}
	if c.batch.Len() == 0 {
		return nil
	}
	c.written += int64(c.batch.Len())
	return c.db.Apply(ctx, c.batch, engine.Process)
}

// verify reads the source again, and compares each pair with what the database has.
func (c *pairCopy) verify(ctx context.Context) error {
	var again, have bulk.Checksum
	first := ""
	err := c.each(ctx, "verifying", &again, func(ctx context.Context) error {
		if err := c.lookUp(ctx); err != nil {
			return err
		}
		for i := range c.items {
			if it, ok := c.found.Item(i); ok {
				addItem(&have, &it)
			}
			if first == "" && !c.same(i) {
				first = short(c.items[i].Key.PK) + " " + short(c.items[i].Key.SK)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return interrupted(ctx, err)
	case again != c.read:
		return cli.Advise(fmt.Errorf("the source has changed: it had %s with the checksum %s, and "+
			"then %s with %s", figure.Plural(c.read.Rows(), "pair"), c.read,
			figure.Count(again.Rows()), again),
			"end what writes to it, and run the same command again")
	case have != again:
		return cli.Advise(fmt.Errorf("the database is not the same: the source has %s with the "+
			"checksum %s, the database %s with %s; the first that differs is %s",
			figure.Plural(again.Rows(), "pair"), again, figure.Count(have.Rows()), have, first),
			"another program has written to it meanwhile, or pairs have expired; run it again")
	}
	return nil
}

// others counts the items that do not come from this source, by number: items of before, or pairs
// that have been removed from the source since an earlier migration.
func (c *pairCopy) others(ctx context.Context) error {
	owners, err := overview.OwnersOf(ctx, c.db.DB)
	if err != nil {
		return err
	}
	tally := &overview.Tally{Owners: owners}
	keep, n := tally.Outer(), int64(0)
	items := c.db.Scan(ctx, engine.Scan{Unordered: true})
	for it, err := range cli.Followed(c.app, "counting", c.read.Rows(), items) {
		if err != nil {
			return interrupted(ctx, err)
		}
		if keep == nil || keep(it) {
			n++
		}
	}
	if n -= c.read.Rows(); n > 0 {
		fmt.Fprintf(c.app.Err, "the database has %s that the source does not have: they were there"+
			" before, or the source has lost them since\n", figure.Plural(n, "other item"))
	}
	return nil
}
