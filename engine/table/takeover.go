package table

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/base"
)

// Builds in shared storage: one process builds an index at a time. Its job has the process, and is
// replaced with each chunk: that is its heartbeat. Another process that is to build the index
// waits, and takes the job over when it has not changed for takeoverLeases. Every commit of a
// builder requires the job that it has stored last, and the definition. So a builder that was only
// slow writes nothing more, and goes back to waiting.

// takeoverLeases is how many times Options.Lease a build may seem to stand still.
const takeoverLeases = 10

// errOvertaken: the job or the definition has changed since the builder has read them.
var errOvertaken = errors.New("table: another process goes on with the build")

// hold makes the job that of this process. Value is the job as it is stored. It reports whether the
// index is ready, built by another process.
func (b *builder) hold(ctx context.Context, value []byte) (ready bool, err error) {
	if b.db.fences == 0 {
		return false, nil
	}
	key := catalogueKey(markJob, b.core.state.Load().Schema.ID, b.id)
	last, since := value, b.db.Now()
	for {
		if err := b.db.catchUp(ctx); err != nil {
			return false, err
		}
		st := b.core.state.Load()
		x := st.Schema.IndexByID(b.id)
		switch {
		case x != nil && x.State == schema.Ready:
			return true, nil
		case x == nil || x.State != schema.Building || st.gone:
			return false, errStopped
		}
		if b.job.Holder == "" || b.job.Holder == b.db.name ||
			b.db.Now().Sub(since) > takeoverLeases*b.db.opt.Lease {
			taken, err := b.take(ctx, st, key, last)
			if taken || err != nil {
				return false, err
			}
		}
		if err := base.Sleep(ctx, b.db.opt.Lease/pollsPerLease); err != nil {
			return false, err
		}
		value, err := b.db.store.Get(ctx, nil, key)
		if absent(err) != nil {
			return false, err
		}
		if !bytes.Equal(value, last) {
			last, since, b.job = value, b.db.Now(), buildJob{}
			if len(value) > 0 {
				if err := json.Unmarshal(value, &b.job); err != nil {
					return false, damaged("state of a build", "JSON", err)
				}
			}
		}
	}
}

// take replaces the job if it is still the last one that was read.
func (b *builder) take(ctx context.Context, st *tableState, key store.Key, last []byte) (bool,
	error) {
	job := b.job
	job.Holder = b.db.name
	data, err := json.Marshal(job)
	if err != nil {
		return false, err
	}
	cond := store.Absent()
	if len(last) > 0 {
		cond = store.ValueIs(last)
	}
	var set store.WriteSet
	set.PutIf(key, data, cond)
	b.db.prove(&set, st)
	err = b.db.store.Commit(ctx, &set)
	if errors.Is(err, store.ErrConditionFailed) || errors.Is(err, ErrConflict) {
		return false, nil
	}
	if err == nil {
		b.job, b.held = job, data
	}
	return err == nil, err
}

// commit commits what the builder writes, with the job if it is not nil.
func (b *builder) commit(ctx context.Context, set *store.WriteSet, st *tableState,
	job []byte) error {
	key, own := catalogueKey(markJob, st.Schema.ID, b.id), len(set.Ops)
	switch {
	case b.held == nil && job != nil:
		set.Put(key, job)
	case b.held != nil && job != nil:
		set.PutIf(key, job, store.ValueIs(b.held))
	case b.held != nil:
		set.Require(key, store.ValueIs(b.held))
	}
	b.db.prove(set, st)
	err := b.db.store.Commit(ctx, set)
	var failed *store.ConditionError
	if errors.As(err, &failed) && failed.Op >= own {
		return errOvertaken
	}
	if err == nil && job != nil && b.held != nil {
		b.held = job
	}
	return err
}
