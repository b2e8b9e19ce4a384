package engine_test

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/engine"
)

// Commits that touch a register several times. Of what they write before the last
// operation nobody may see anything.

const neverSeen = "never seen"

// rewrite removes a register and writes it again, in one commit.
func rewrite(c *regClient) ([]regOp, error) {
	k := c.key()
	v := c.value(k)
	b := engine.NewBatch()
	var err error
	switch c.rnd.IntN(4) {
	case 0:
		err = b.DeleteRange(regKey(k).PK, c.anyRange())
	case 1:
		err = b.Put(regKey(k), []byte(neverSeen))
	default:
		err = b.Delete(regKey(k))
	}
	err = errors.Join(err, b.Put(regKey(k), []byte(v)), c.db.Apply(ctx, b))
	return one(op(regPut, k, v, "", regOutput{}), err)
}

// regWriter is what batches and transactions have in common.
type regWriter interface {
	Put(key engine.Key, value []byte, opts ...engine.ItemOption) error
	Delete(engine.Key) error
	DeleteRange(pk []byte, sk engine.SKCondition) error
}

// noise writes something to a register that a later operation of the commit replaces.
func (c *regClient) noise(w regWriter, k int) error {
	switch key := regKey(k); c.rnd.IntN(6) {
	case 0:
		return w.Put(key, []byte(neverSeen))
	case 1:
		return w.Put(key, []byte(neverSeen), engine.TTL(forever))
	case 2:
		return w.Put(key, []byte(neverSeen), engine.Expiry(1))
	case 3:
		return w.Delete(key)
	case 4:
		return w.DeleteRange(key.PK, c.anyRange())
	}
	return nil
}

// write writes v to a register.
func (c *regClient) write(w regWriter, k int, v string) error {
	if c.chance(4) {
		return w.Put(regKey(k), []byte(v), engine.TTL(forever))
	}
	return w.Put(regKey(k), []byte(v))
}

// remove takes what is there away, or has it expire at once.
func (c *regClient) remove(w regWriter, k int) error {
	switch key := regKey(k); c.rnd.IntN(3) {
	case 0:
		return w.Put(key, []byte(neverSeen), engine.Expiry(1))
	case 1:
		return w.DeleteRange(key.PK, c.anyRange())
	default:
		return w.Delete(key)
	}
}

// batch writes some registers at once, each of them several times.
func batch(c *regClient) (ops []regOp, err error) {
	b, keys := engine.NewBatch(), c.some()
	for range c.rnd.IntN(3) {
		for _, k := range keys {
			err = errors.Join(err, c.noise(b, k))
		}
	}
	for _, k := range keys {
		if c.chance(3) {
			ops = append(ops, op(regDelete, k, "", "", regOutput{}))
			err = errors.Join(err, c.remove(b, k))
			continue
		}
		v := c.value(k)
		ops = append(ops, op(regPut, k, v, "", regOutput{}))
		err = errors.Join(err, c.write(b, k, v))
	}
	return ops, errors.Join(err, c.db.Apply(ctx, b))
}

// batchIf is batch with conditions, which are about the state before it.
func batchIf(c *regClient) (ops []regOp, err error) {
	b, keys := engine.NewBatch(), c.some()
	numbers := make([]int, len(keys)) // of the operations with conditions
	for i, k := range keys {
		if c.chance(2) {
			err = errors.Join(err, c.noise(b, k))
		}
		key, v := regKey(k), c.value(k)
		cond, want := c.same(k)
		numbers[i] = b.Len()
		switch c.rnd.IntN(4) {
		case 0:
			ops = append(ops, op(regAbsent, k, v, "", regOutput{}))
			err = errors.Join(err, b.PutIf(key, []byte(v), engine.IfAbsent()))
		case 1:
			ops = append(ops, op(regIf, k, v, want, regOutput{}))
			err = errors.Join(err, b.PutIf(key, []byte(v), cond))
		case 2:
			ops = append(ops, op(regDelSame, k, "", want, regOutput{}))
			err = errors.Join(err, b.DeleteIf(key, cond))
		default:
			ops = append(ops, op(regIf, k, v, want, regOutput{}))
			err = errors.Join(err, b.Require(key, cond), c.noise(b, k), c.write(b, k, v))
		}
	}
	if err != nil {
		return nil, err
	}
	err = c.db.Apply(ctx, b)
	var failed *engine.ConditionError
	if !errors.As(err, &failed) {
		return ops, err
	}
	for i, k := range keys {
		if id(failed.Key) == id(regKey(k)) && failed.Op == numbers[i] {
			ops[i].failed = true
			return ops[i : i+1], nil // of the others one knows nothing
		}
	}
	return nil, fmt.Errorf("an unknown condition has failed: %w", err)
}

// anyUpdate runs a transaction; lost reports that another one was faster.
func (c *regClient) anyUpdate(f func(*engine.Tx) error) (lost bool, err error) {
	if c.chance(2) {
		return false, c.db.UpdateRetry(ctx, f)
	}
	err = c.db.Update(ctx, f)
	if errors.Is(err, engine.ErrConflict) {
		return true, nil
	}
	return false, err
}

// update reads a register and writes it.
func update(c *regClient) ([]regOp, error) {
	k := c.key()
	v := c.value(k)
	var was sight
	lost, err := c.anyUpdate(func(tx *engine.Tx) (err error) {
		if was, err = sightOf(tx.GetItem(regKey(k))); err != nil {
			return err
		}
		return errors.Join(c.noise(tx, k), c.write(tx, k, v), wantOwn(tx, k, v))
	})
	if lost || err != nil {
		return nil, err
	}
	return one(op(regUpdate, k, v, "", regOutput{was: was}), nil)
}

// move takes one register away and writes another, as a row does whose key changes.
func move(c *regClient) ([]regOp, error) {
	from := c.key()
	to := c.first + (from-c.first+1+c.rnd.IntN(c.keys-1))%c.keys
	v := c.value(to)
	var was [2]sight
	lost, err := c.anyUpdate(func(tx *engine.Tx) (err error) {
		if was[0], err = sightOf(tx.GetItem(regKey(from))); err != nil {
			return err
		}
		if was[1], err = sightOf(tx.GetItem(regKey(to))); err != nil {
			return err
		}
		return errors.Join(c.noise(tx, from), c.noise(tx, to), c.write(tx, to, v),
			c.noise(tx, from), c.remove(tx, from), wantOwn(tx, from, ""), wantOwn(tx, to, v))
	})
	if lost || err != nil {
		return nil, err
	}
	return []regOp{
		op(regTake, from, "", "", regOutput{was: was[0]}),
		op(regUpdate, to, v, "", regOutput{was: was[1]}),
	}, nil
}

// wantOwn checks that the transaction sees what it has written; "" is nothing.
func wantOwn(tx *engine.Tx, k int, want string) error {
	s, err := sightOf(tx.GetItem(regKey(k)))
	if err == nil && (s.there != (want != "") || s.value != want || s.version != 0) {
		err = fmt.Errorf("register %d is %+v in a transaction that has written %q", k, s, want)
	}
	return err
}
