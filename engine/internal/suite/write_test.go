package suite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kstonedb/kstone/engine"
)

// writer is what a batch and a transaction have in common.
type writer interface {
	Put(key engine.Key, value []byte, opts ...engine.ItemOption) error
	PutIf(key engine.Key, value []byte, cond engine.Condition, opts ...engine.ItemOption) error
	Delete(key engine.Key) error
	DeleteIf(key engine.Key, cond engine.Condition) error
	DeleteRange(pk []byte, sk engine.SKCondition) error
	DeleteScan(from, to engine.Key) error
}

// to adds a write to a batch or a transaction.
func (w *write) to(to writer) error {
	from, end, sk := w.ends()
	switch {
	case w.Kind == "require":
		return to.(*engine.Batch).Require(w.key, w.cond.of())
	case w.Kind == "put" && w.cond.unconditional:
		return to.Put(w.key, w.value, w.option)
	case w.Kind == "put":
		return to.PutIf(w.key, w.value, w.cond.of(), w.option)
	case w.Kind == "delete" && w.cond.unconditional:
		return to.Delete(w.key)
	case w.Kind == "delete":
		return to.DeleteIf(w.key, w.cond.of())
	case w.Kind == "delete-range":
		return to.DeleteRange(from.PK, sk)
	default:
		return to.DeleteScan(from, end)
	}
}

// alone does a write as a commit of its own.
func (w *write) alone(db *engine.DB, level engine.Durability) error {
	from, end, sk := w.ends()
	put, _ := w.option.(engine.WriteOption)
	switch {
	case w.Kind == "put" && w.cond.unconditional:
		return db.Put(w.key, w.value, put, level)
	case w.Kind == "put":
		return db.PutIf(w.key, w.value, w.cond.of(), put, level)
	case w.Kind == "delete" && w.cond.unconditional:
		return db.Delete(w.key, level)
	case w.Kind == "delete":
		return db.DeleteIf(w.key, w.cond.of(), level)
	case w.Kind == "delete-range":
		return db.DeleteRange(from.PK, sk, level)
	default:
		return db.DeleteScan(from, end, level)
	}
}

// ends returns the bounds of a range delete.
func (w *write) ends() (from, to engine.Key, sk engine.SKCondition) {
	if name := w.Key + w.From; name != "" {
		from = keyOf(name)
	}
	if w.To != "" {
		to = keyOf(w.To)
	}
	if w.Kind == "delete-range" {
		sk, _ = sortCondition(w.SK)
	}
	return from, to, sk
}

func levelOf(text string) engine.Durability {
	return map[string]engine.Durability{"sync": engine.Sync, "process": engine.Process}[text]
}

// writes reports whether a part of a transaction is a write.
func (o *op) writes() bool {
	return o.Kind == "put" || o.Kind == "delete" || o.Kind == "delete-range" ||
		o.Kind == "delete-scan"
}

// batchOf returns the batch of writes, and the number of each in it.
func batchOf(ws []write) (b *engine.Batch, numbers []int, err error) {
	b = engine.NewBatch()
	for i := range ws {
		numbers = append(numbers, b.Len())
		err = errors.Join(err, ws[i].to(b))
	}
	return b, numbers, err
}

var errOnPurpose = errors.New("on purpose")

// wantOutcome checks the error of a write whose condition should hold, or not.
func wantOutcome(err error, holds bool) error {
	if holds || err == nil && !holds {
		if !holds {
			return errors.New("the condition should have failed")
		}
		return err
	}
	if !errors.Is(err, engine.ErrConditionFailed) {
		return err
	}
	return nil
}

// commit does one commit, or none if that is rolled back.
func (r *run) commit(o *op) error {
	before, now := r.latest(), r.clock.Load()
	after := maps.Clone(before)
	w := commit{
		run: r, op: o, before: before, after: after, now: now, level: levelOf(o.Level),
		name: r.nextName(),
	}
	var err error
	silent := o.Rollback
	switch o.Kind {
	case "batch":
		err = w.batch()
	case "update":
		err = w.update()
	case "insert-new":
		silent, err = w.insertNew()
	default:
		ws := w.resolve(o, 0, before)
		holds := after.applyBatch(w.known([]write{ws}), now) < 0
		w.publish()
		err = wantOutcome(ws.alone(r.db, w.level), holds)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done = len(r.now.states) - 1; r.beside {
		r.tally.add("commits beside others", 1)
	}
	if sync := r.opts.Durability != engine.Process; !silent &&
		(w.level == engine.Sync || w.level == 0 && sync) {
		r.now.acked = r.done // a write at Sync covers what came before, also if it changes nothing
	}
	return nil
}

// nextName names the next commit. After a crash there are other names, so that nothing lost comes
// back unnoticed.
func (r *run) nextName() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d.%d", 1000*len(r.before)+r.lives, len(r.now.states))
}

// commit is one that is being made.
type commit struct {
	*run
	*op
	before, after items
	now           int64
	level         engine.Durability
	name          string
}

// publish notes the state after the commit, right before it is made.
func (c *commit) publish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run.now.states = append(c.run.now.states, c.after)
}

func (c *commit) resolve(o *op, i int, m items) write {
	return writeOf(o, fmt.Sprintf("%s.%d", c.name, i), c.now, func(k engine.Key) *item {
		return m.at(k, c.now)
	})
}

// known leaves out the writes that the model forgets.
func (c *commit) known(ws []write) []write {
	if c.forget == nil {
		return ws
	}
	return slices.DeleteFunc(slices.Clone(ws), func(w write) bool { return c.forget(w.op) })
}

func (c *commit) batch() error {
	var ws []write
	for i := range c.Ops {
		ws = append(ws, c.resolve(&c.Ops[i], i, c.before))
	}
	b, numbers, err := batchOf(ws)
	if err != nil {
		return err
	}
	failed := c.after.applyBatch(c.known(ws), c.now)
	c.publish()
	err = c.db.Apply(ctx, b, c.level)
	if failed < 0 || c.forget != nil {
		return err
	}
	var ce *engine.ConditionError
	exists := c.before.at(ws[failed].key, c.now) != nil
	if !errors.As(err, &ce) || ce.Op != numbers[failed] ||
		compareKeys(ce.Key, ws[failed].key) != 0 || ce.Exists != exists {
		return fmt.Errorf("operation %d should fail (exists %v): %w", failed, exists, err)
	}
	return nil
}

func (c *commit) update() error {
	if err := c.within(nil, c.after); err != nil {
		return err
	}
	if !c.Rollback {
		c.publish()
	}
	do := c.db.Update
	switch {
	case c.Way == 1:
		do = c.begun
	case c.Retry:
		do = c.db.UpdateRetry
	}
	err := do(ctx, func(tx *engine.Tx) error { return c.within(tx, maps.Clone(c.before)) }, c.level)
	if c.Rollback {
		if !errors.Is(err, errOnPurpose) {
			return fmt.Errorf("rolled back: %w", err)
		}
		return nil
	}
	return err
}

// begun is DB.Update by Begin and Commit.
func (c *commit) begun(_ context.Context, fn func(*engine.Tx) error,
	opts ...engine.CommitOption) error {
	tx, err := c.db.Begin(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit(ctx, opts...)
}

// saved is a savepoint of a transaction with the state of the model.
type saved struct {
	point engine.Savepoint
	m     items
}

// save does what a part of a transaction does to its savepoints.
func (o *op) save(tx *engine.Tx, m items, all []saved) ([]saved, error) {
	if o.Kind == "save" {
		s := saved{m: maps.Clone(m)}
		if tx != nil {
			s.point = tx.Savepoint()
		}
		return append(all, s), nil
	}
	if o.Snapshot > len(all) {
		return all, nil
	}
	at := len(all) - o.Snapshot
	s := all[at]
	if o.Kind == "release" {
		if tx == nil {
			return all[:at], nil
		}
		return all[:at], tx.Release(s.point)
	}
	clear(m)
	maps.Copy(m, s.m)
	if tx == nil {
		return all[:at+1], nil
	}
	return all[:at+1], tx.RollbackTo(s.point)
}

// within does what a transaction does to a state and, if tx is not nil, in the transaction.
func (c *commit) within(tx *engine.Tx, m items) error {
	var savepoints []saved
	for i := range c.Ops {
		o := &c.Ops[i]
		if slices.Contains(savepointKinds, o.Kind) {
			var err error
			if savepoints, err = o.save(tx, m, savepoints); err != nil {
				return fmt.Errorf("%.200s: %w", o, err)
			}
			continue
		}
		if !o.writes() {
			if tx == nil {
				continue
			}
			if err := c.run.compare(o, tx, m, c.now, true); err != nil {
				return fmt.Errorf("%.200s: %w", o, err)
			}
			continue
		}
		w := c.resolve(o, i, m)
		holds := w.cond.unconditional || w.cond.holds(m.at(w.key, c.now))
		if tx != nil {
			if err := wantOutcome(w.to(tx), holds); err != nil {
				return fmt.Errorf("%.200s: %w", o, err)
			}
		}
		if holds && len(c.known([]write{w})) > 0 {
			m.apply(&w)
		}
	}
	if tx != nil && c.Rollback {
		return errOnPurpose
	}
	return nil
}

// insertNew inserts items; some are there, and some repeat others. Silent says that
// nothing was committed.
func (c *commit) insertNew() (silent bool, err error) {
	var all []engine.Item
	var want []bool
	fresh := 0
	for i, k := range keysOf(c.Key) {
		one := *c.op
		one.Kind, one.If, one.TTL = "put", "absent", (c.Bytes+i)%40
		w := writeOf(&one, fmt.Sprintf("%s.%d", c.name, i), c.now, c.at)
		w.key = k
		want = append(want, c.after.at(k, c.now) == nil)
		if want[i] {
			fresh++
			c.after.apply(&w)
		}
		all = append(all, engine.Item{Key: k, Value: w.value, Expiry: w.expiry})
	}
	c.publish()
	got, stats, err := c.db.InsertNew(ctx, all, nil, c.level)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("inserted %v, want %v", got, want)
	}
	if err == nil && (stats.Keys != int64(len(all)) || stats.New != int64(fresh) ||
		stats.Repeated > stats.Keys-stats.New) {
		err = fmt.Errorf("%+v, want %d new of %d", stats, fresh, len(all))
	}
	return fresh == 0, err
}

func (c *commit) at(k engine.Key) *item { return c.after.at(k, c.now) }

// view reads in a transaction that only reads.
func (r *run) view(o *op) error {
	m, now := r.latest(), r.clock.Load()
	return r.db.View(ctx, func(tx *engine.Tx) error {
		for i := range o.Ops {
			if err := r.compare(&o.Ops[i], tx, m, now, false); err != nil {
				return fmt.Errorf("%.200s: %w", o.Ops[i], err)
			}
		}
		if err := tx.Put(engine.K("a"), nil); !errors.Is(err, engine.ErrReadOnly) {
			return fmt.Errorf("put in a view: %w", err)
		}
		return nil
	})
}

// filterNew asks which keys are new, exactly and approximately.
func (r *run) filterNew(o *op) error {
	from, m := r.reader(o)
	filter := r.db.FilterNew
	if s, is := from.(*engine.Snapshot); is {
		filter = s.FilterNew
	}
	return compareNew(filter, keysOf(o.Key), m, r.clock.Load(), r.unfiltered)
}

func compareNew(filter func(context.Context, []engine.Key, []bool, *engine.FilterOptions) ([]bool,
	engine.DedupStats, error), keys []engine.Key, m items, now int64, unfiltered bool,
) error {
	seen, want := map[string]bool{}, make([]bool, len(keys))
	for i, k := range keys {
		want[i] = m.at(k, now) == nil && !seen[id(k)]
		seen[id(k)] = true
	}
	got, stats, err := filter(ctx, keys, nil, nil)
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) || int(stats.New) > len(keys) || stats.Keys != int64(len(keys)) {
		return fmt.Errorf("new are %v, want %v: %+v", got, want, stats)
	}
	got, stats, err = filter(ctx, keys, got, &engine.FilterOptions{Approximate: true})
	if err != nil {
		return err
	}
	for i := range keys {
		if got[i] && !want[i] {
			return fmt.Errorf("%s is called new approximately", shown(keys[i]))
		}
	}
	if stats.DataReads != 0 && !unfiltered {
		return fmt.Errorf("%d data reads for an approximate answer", stats.DataReads)
	}
	return nil
}
