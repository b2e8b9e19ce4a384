package engine_test

import (
	"errors"
	"iter"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// regCalls are the calls of which clients choose; those that stand here more than once they
// choose more often.
var regCalls = []regCall{
	get, getItem, getItem, has, multiGet, multiHas, filterNew, scan, gather, view, age, age, age,
	put, put, remove, removeRange, putAbsent, putIf, removeIf, insertNew,
	rewrite, rewrite, batch, batch, batch, batchIf, batchIf, update, update, move, move,
}

// op makes an operation of a register.
func op(kind regKind, key int, arg, want string, out regOutput) regOp {
	return regOp{regInput: regInput{kind: kind, key: key, arg: arg, want: want}, regOutput: out}
}

func one(o regOp, err error) ([]regOp, error) { return []regOp{o}, err }

// conditional is one for a call with a condition.
func conditional(o regOp, err error) ([]regOp, error) {
	if errors.Is(err, engine.ErrConditionFailed) {
		o.failed, err = true, nil
	}
	return one(o, err)
}

func get(c *regClient) ([]regOp, error) {
	k := c.key()
	v, err := c.db.Get(regKey(k))
	s, err := sightOf(engine.Item{Value: v}, err)
	return one(op(regGet, k, "", "", regOutput{was: s}), err)
}

func getItem(c *regClient) ([]regOp, error) {
	k := c.key()
	s, err := sightOf(c.db.GetItem(regKey(k)))
	return one(op(regGet, k, "", "", regOutput{was: s}), err)
}

// hasOp is not a sight to remember: it has no value.
func hasOp(k int, there bool) regOp {
	return op(regHas, k, "", "", regOutput{was: sight{there: there}})
}

func has(c *regClient) ([]regOp, error) {
	k := c.key()
	there, err := c.db.Has(regKey(k))
	return one(hasOp(k, there), err)
}

func (c *regClient) allKeys() (keys []engine.Key) {
	for _, k := range c.all() {
		keys = append(keys, regKey(k))
	}
	return keys
}

func (c *regClient) sightsOf(r *engine.Results) map[int]sight {
	seen := map[int]sight{}
	for i := range r.Len() {
		it, there := r.Item(i)
		seen[c.first+i] = sight{there, string(it.Value), it.Version}
	}
	return seen
}

func multiGet(c *regClient) ([]regOp, error) {
	var r engine.Results
	if err := c.db.MultiGet(ctx, c.allKeys(), &r); err != nil {
		return nil, err
	}
	return c.pictureOf(0, c.sightsOf(&r)), nil
}

func multiHas(c *regClient) (ops []regOp, err error) {
	there, err := c.db.MultiHas(ctx, c.allKeys(), nil)
	for i := range there {
		ops = append(ops, hasOp(c.first+i, there[i]))
	}
	return ops, err
}

func filterNew(c *regClient) (ops []regOp, err error) {
	isNew, _, err := c.db.FilterNew(ctx, c.allKeys(), nil, nil)
	for i := range isNew {
		ops = append(ops, hasOp(c.first+i, !isNew[i]))
	}
	return ops, err
}

// sightsIn reads the registers in a sequence of items, those of all of them if it is not
// stopped.
func (c *regClient) sightsIn(seq iter.Seq2[engine.Item, error]) (map[int]sight, error) {
	byID, seen := map[string]int{}, map[int]sight{}
	for _, k := range c.all() {
		byID[id(regKey(k))], seen[k] = k, sight{}
	}
	for it, err := range seq {
		if err != nil {
			return nil, err
		}
		if k, known := byID[id(it.Key)]; known {
			seen[k] = sight{true, string(it.Value), it.Version}
		}
	}
	return seen, nil
}

func (c *regClient) anyScan() engine.Scan {
	return engine.Scan{Unordered: c.chance(2), Reverse: c.chance(2)}
}

func (c *regClient) anyGather() engine.Gather {
	g := engine.Gather{Reverse: c.chance(2), ByPartition: c.chance(3)}
	for _, k := range c.allKeys() {
		g.PKs = append(g.PKs, k.PK)
	}
	if c.chance(2) {
		g.Spans = []keycodec.Span{{Start: []byte("a"), End: []byte("z")}}
	}
	return g
}

func scan(c *regClient) ([]regOp, error) {
	seen, err := c.sightsIn(c.db.Scan(ctx, c.anyScan()))
	return c.pictureOf(0, seen), err
}

func gather(c *regClient) ([]regOp, error) {
	seen, err := c.sightsIn(c.db.Gather(ctx, c.anyGather()))
	return c.pictureOf(0, seen), err
}

// view reads in a transaction.
func view(c *regClient) (ops []regOp, err error) {
	err = c.db.View(ctx, func(tx *engine.Tx) (err error) {
		seen := map[int]sight{}
		if c.chance(2) {
			seen, err = c.sightsIn(tx.Gather(ctx, c.anyGather()))
		} else {
			for _, k := range c.all() {
				s, e := sightOf(tx.GetItem(regKey(k)))
				seen[k], err = s, errors.Join(err, e)
			}
		}
		ops = c.pictureOf(0, seen)
		return err
	})
	return ops, err
}

// age takes a snapshot, or reads in one that was taken some calls before: what it shows is
// what was there then.
func age(c *regClient) (ops []regOp, err error) {
	switch {
	case c.old == nil:
		c.taken[0] = c.clock.Add(1)
		c.old, err = c.db.Snapshot()
		c.taken[1] = c.clock.Add(1)
		c.oldFirst = c.first
		return nil, err
	case c.chance(6):
		err = c.old.Close()
		c.old = nil
		return nil, err
	}
	now := c.first
	c.first = c.oldFirst
	defer func() { c.first = now }()
	s, seen := c.old, map[int]sight{}
	switch c.rnd.IntN(5) {
	case 0:
		var r engine.Results
		err = s.MultiGet(ctx, c.allKeys(), &r)
		seen = c.sightsOf(&r)
	case 1:
		seen, err = c.sightsIn(s.Scan(ctx, c.anyScan()))
	case 2:
		seen, err = c.sightsIn(s.Gather(ctx, c.anyGather()))
	case 3:
		k := c.key()
		for it, e := range s.Query(ctx, engine.Query{PK: regKey(k).PK, Reverse: c.chance(2)}) {
			seen[k], err = sightOf(it, e)
		}
	default:
		k := c.key()
		seen[k], err = sightOf(s.GetItem(regKey(k)))
	}
	ops = c.pictureOf(s.Version(), seen)
	for i := range ops {
		ops[i].call, ops[i].ret = c.taken[0], c.taken[1]
	}
	return ops, err
}

func put(c *regClient) ([]regOp, error) {
	k := c.key()
	v := c.value(k)
	var o engine.WriteOption
	if c.chance(3) {
		o = engine.TTL(forever)
	}
	return one(op(regPut, k, v, "", regOutput{}), c.db.Put(regKey(k), []byte(v), o))
}

func remove(c *regClient) ([]regOp, error) {
	k := c.key()
	return one(op(regDelete, k, "", "", regOutput{}), c.db.Delete(regKey(k)))
}

func removeRange(c *regClient) ([]regOp, error) {
	k := c.key()
	err := c.db.DeleteRange(regKey(k).PK, c.anyRange())
	return one(op(regDelete, k, "", "", regOutput{}), err)
}

// anyRange is a condition that holds for a register.
func (c *regClient) anyRange() engine.SKCondition {
	return []engine.SKCondition{
		{}, engine.SKBeginsWith([]byte("r")), engine.SKBetween([]byte("a"), []byte("z")),
	}[c.rnd.IntN(3)]
}

// same is a condition that holds if the register is as the client has seen it last; want is
// its value then.
func (c *regClient) same(k int) (cond engine.Condition, want string) {
	s := c.seen[k]
	if s.version > 0 && c.chance(2) {
		return engine.IfVersion(s.version), s.value
	}
	return engine.IfValue([]byte(s.value)), s.value
}

func putAbsent(c *regClient) ([]regOp, error) {
	k := c.key()
	v := c.value(k)
	err := c.db.PutIf(regKey(k), []byte(v), engine.IfAbsent())
	return conditional(op(regAbsent, k, v, "", regOutput{}), err)
}

func putIf(c *regClient) ([]regOp, error) {
	k := c.key()
	v := c.value(k)
	cond, want := c.same(k)
	err := c.db.PutIf(regKey(k), []byte(v), cond)
	return conditional(op(regIf, k, v, want, regOutput{}), err)
}

func removeIf(c *regClient) ([]regOp, error) {
	k := c.key()
	if c.chance(2) {
		err := c.db.DeleteIf(regKey(k), engine.IfPresent())
		return conditional(op(regDelIf, k, "", "", regOutput{}), err)
	}
	cond, want := c.same(k)
	err := c.db.DeleteIf(regKey(k), cond)
	return conditional(op(regDelSame, k, "", want, regOutput{}), err)
}

func insertNew(c *regClient) (ops []regOp, err error) {
	var items []engine.Item
	for _, k := range c.all() {
		ops = append(ops, op(regAbsent, k, c.value(k), "", regOutput{}))
		items = append(items, engine.Item{Key: regKey(k), Value: []byte(c.value(k))})
	}
	inserted, _, err := c.db.InsertNew(ctx, items, nil)
	for k := range inserted {
		ops[k].failed = !inserted[k]
	}
	return ops, err
}
