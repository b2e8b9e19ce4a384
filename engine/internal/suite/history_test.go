package suite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/kstonedb/kstone/engine"
)

// history is what concurrent clients have done to registers, which are keys. Porcupine checks
// that each register is linearizable, with the model as the sequential specification.
type history struct {
	t     *testing.T
	db    *engine.DB
	clock atomic.Int64 // orders calls and returns: a return before a call has a lower time

	before int // calls of each client in the phases before

	mu       sync.Mutex
	ops      []porcupine.Operation // Guarded by mu
	pictures []picture             // Guarded by mu
}

// now is the time of all histories: nothing expires while they are made.
const now = 1_000_000

// event is what a call did to one register at one moment: a read of it, or a write.
type event struct {
	saw    sight
	write  *write // nil for a read
	failed bool   // the condition of the write
}

// call is what a call did to one register.
type call struct {
	register string
	commit   string // "" for none
	version  uint64 // of the commit, 0 if it has not been seen
	batch    bool   // the conditions are about the state before all events
	events   []event
}

// register is the state of one: what is there, and the highest version among the commits so far
// whose version is known.
type register struct {
	item   *item
	newest uint64
}

// registers is the sequential specification.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(*call).register
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) { return input.(*call).step(state.(register)) },
	Equal: func(a, b any) bool {
		x, y := a.(register), b.(register)
		return x.newest == y.newest && (x.item == nil) == (y.item == nil) &&
			(x.item == nil || string(x.item.value) == string(y.item.value))
	},
}

// step reports whether the call may have had that outcome in that state, and the next state.
func (c *call) step(s register) (bool, register) {
	next, at := items{}, keyOf(c.register)
	if s.item != nil {
		next[id(at)] = s.item
	}
	var ws []write
	failed := false
	for _, e := range c.events {
		it := next.at(at, now)
		if e.write == nil {
			if e.saw.there != (it != nil) ||
				it != nil && e.saw.valued && string(e.saw.item.Value) != string(it.value) {
				return false, s
			}
			continue
		}
		ws, failed = append(ws, *e.write), failed || e.failed
		if !c.batch {
			if e.write.cond.holds(it) == e.failed {
				return false, s
			}
			if !e.failed {
				next.apply(e.write)
			}
		}
	}
	if c.batch && next.applyBatch(ws, now) >= 0 != failed {
		return false, s
	}
	if len(ws) > 0 && !failed && c.version > 0 {
		if c.version <= s.newest {
			return false, s
		}
		s.newest = c.version
	}
	return true, register{next.at(at, now), s.newest}
}

// picture is what was seen of several registers at one moment.
type picture struct {
	version uint64 // of the newest commit in it, if that is known
	seen    map[string]sight
}

// client is one of those that work at the same time.
type client struct {
	*history
	drawer
	number   int
	keys     int              // registers in use
	now      int64            // when the call under way began
	last     map[string]*item // what was read last, for conditions that may hold
	old      *engine.Snapshot
	oldKeys  []string // the registers that were in use when it was taken
	taken    [2]int64 // when it was: call and return
	mine     []porcupine.Operation
	pictures []picture
}

func (h *history) client(number, keys int, rnd *rand.Rand) *client {
	c := &client{
		history: h, drawer: drawer{Rand: rnd, plain: true}, number: number, keys: keys,
		last: map[string]*item{},
	}
	c.use(0)
	return c
}

// use changes to other registers. Why: the time that the check takes may grow with the square of
// a history, and more.
func (c *client) use(group int) {
	c.registers = nil
	for i := range c.keys {
		c.registers = append(c.registers, fmt.Sprintf("register#%04d/r", group*c.keys+i))
	}
}

// historyKinds are the calls that clients choose from.
var historyKinds = slices.Concat(txKinds, slices.Repeat([]string{
	"batch", "batch", "update", "update", "insert-new", "view", "new", "snapshot", "snapshot",
}, 5))

// do makes a call and notes it.
func (c *client) do(o op) {
	c.now = c.clock.Add(1)
	calls, err := c.make(&o)
	if err != nil {
		c.t.Errorf("%s: %v", o, err)
		return
	}
	c.note(calls, c.now, c.clock.Add(1))
}

func (c *client) note(calls []call, from, to int64) {
	for i := range calls {
		if len(calls[i].events) == 0 {
			continue
		}
		for _, e := range calls[i].events {
			if e.saw.there && e.saw.valued {
				it := e.saw.item
				c.last[calls[i].register] = &item{it.Key, it.Value, 0, it.Version}
			}
		}
		c.mine = append(c.mine, porcupine.Operation{
			ClientId: c.number, Call: from, Return: to, Input: &calls[i],
		})
	}
}

// make makes a call of the database and returns what it did to each register; nothing if it
// lost against another.
func (c *client) make(o *op) ([]call, error) {
	r := recorder{client: c, name: fmt.Sprint(c.now), calls: make([]call, len(c.registers))}
	for i, name := range c.registers {
		r.calls[i].register = name
	}
	var err error
	switch o.Kind {
	case "put", "delete", "delete-range", "delete-scan":
		w := r.resolve(o, 0)
		err = w.alone(c.db, 0)
		r.wrote(&w, errors.Is(err, engine.ErrConditionFailed))
	case "batch":
		return r.batch(o)
	case "update":
		return r.update(o)
	case "insert-new":
		return r.insertNew()
	case "new":
		var isNew []bool
		isNew, _, err = c.db.FilterNew(ctx, c.allKeys(), nil, nil)
		for i := range isNew {
			r.calls[i].events = []event{{saw: sight{there: !isNew[i]}}}
		}
	case "view":
		err = c.db.View(ctx, func(tx *engine.Tx) error {
			for i := range o.Ops {
				if err := r.read(tx, &o.Ops[i]); err != nil {
					return err
				}
			}
			return nil
		})
		r.picture(0)
	case "snapshot":
		return nil, c.snapshot()
	default:
		err = r.read(c.db, o)
		r.picture(0)
	}
	if errors.Is(err, engine.ErrConditionFailed) {
		err = nil
	}
	return r.calls, err
}

func (c *client) allKeys() []engine.Key { return keysOf(strings.Join(c.registers, ",")) }

// snapshot takes a snapshot, or reads in one that was taken some calls before: what it shows is
// what was there then.
func (c *client) snapshot() (err error) {
	switch {
	case c.old == nil:
		c.taken[0] = c.clock.Add(1)
		c.old, err = c.db.Snapshot()
		c.taken[1] = c.clock.Add(1)
		c.oldKeys = c.registers
		return err
	case c.oneIn(6):
		err = c.old.Close()
		c.old = nil
		return err
	}
	recent := c.registers
	c.registers = c.oldKeys
	defer func() { c.registers = recent }()
	r := recorder{client: c, calls: make([]call, len(c.registers))}
	for i, name := range c.registers {
		r.calls[i].register = name
	}
	o := c.op(viewKinds[c.IntN(len(viewKinds))])
	err = r.read(c.old, &o)
	r.picture(c.old.Version())
	c.note(r.calls, c.taken[0], c.taken[1])
	return err
}

// watch reads the first register again and again until done, as fast as it can, with its
// version or without, and notes what is not as it was before.
func (c *client) watch(done *atomic.Bool, version bool) {
	key := keyOf(c.registers[0])
	var last sight
	for first := true; !done.Load(); first = false {
		// Why not Add: it would have the readers wait for each other. Calls that begin when
		// others end count as concurrent then, which permits more.
		from := c.clock.Load()
		s := sight{valued: true, versions: version}
		var err error
		if version {
			s.item, err = c.db.GetItem(key)
		} else {
			s.item.Value, err = c.db.AppendGet(nil, key)
		}
		to := c.clock.Load()
		s.there = err == nil
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			c.t.Error(err)
			return
		}
		if first || s.there != last.there || string(s.item.Value) != string(last.item.Value) {
			last = s
			c.note([]call{{register: c.registers[0], events: []event{{saw: s}}}}, from, to)
		}
	}
}

// done adds the client's calls to the history.
func (c *client) done() {
	if c.old != nil {
		if err := c.old.Close(); err != nil {
			c.t.Error(err)
		}
		c.old = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, c.mine...)
	c.history.pictures = append(c.history.pictures, c.pictures...)
}

// recorder notes what one call does to the registers.
type recorder struct {
	*client
	name  string // of the commit
	calls []call // one for each register in use
}

func (r *recorder) resolve(o *op, i int) write {
	return writeOf(o, fmt.Sprintf("%s.%d", r.name, i), now, func(engine.Key) *item {
		return r.last[o.Key]
	})
}

// wrote notes a write to all registers that it selects.
func (r *recorder) wrote(w *write, failed bool) {
	for i := range r.calls {
		if c := &r.calls[i]; w.match(keyOf(c.register)) {
			c.commit, c.events = r.name, append(c.events, event{write: w, failed: failed})
		}
	}
}

// read reads and notes what is seen of each register.
func (r *recorder) read(from engine.Reader, o *op) error {
	seen := map[string]sight{}
	if o.Kind == "get" || o.Kind == "many" {
		points, err := o.points(from)
		if err != nil {
			return err
		}
		for i, k := range keysOf(o.Key) {
			seen[id(k)] = points[i]
		}
	} else {
		got, err := o.sequence(from)
		if err != nil {
			return err
		}
		match := o.selects()
		for i := range r.calls {
			if k := keyOf(r.calls[i].register); match(k) {
				seen[id(k)] = sight{}
			}
		}
		for _, it := range got {
			seen[id(it.Key)] = sight{item: it, there: true, valued: true, versions: true}
		}
	}
	for i := range r.calls {
		if s, is := seen[id(keyOf(r.calls[i].register))]; is {
			r.calls[i].events = append(r.calls[i].events, event{saw: s})
		}
	}
	return nil
}

// picture notes that what was read was seen at one moment.
func (r *recorder) picture(version uint64) {
	p := picture{version, map[string]sight{}}
	for _, c := range r.calls {
		for _, e := range c.events {
			if e.saw.versions {
				p.seen[c.register] = e.saw
			}
		}
	}
	r.pictures = append(r.pictures, p)
}

func (r *recorder) batch(o *op) ([]call, error) {
	var ws []write
	for i := range o.Ops {
		ws = append(ws, r.resolve(&o.Ops[i], i))
	}
	b, numbers, err := batchOf(ws)
	if err != nil {
		return nil, err
	}
	err = r.db.Apply(ctx, b)
	var failed *engine.ConditionError
	if err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	for i := range ws {
		r.wrote(&ws[i], false)
	}
	for i := range r.calls {
		r.calls[i].batch = true
	}
	if failed == nil {
		return r.calls, nil
	}
	// Of the other registers nothing is known. What has no effect at all has no number.
	n := len(numbers) - 1
	for ; n >= 0 && numbers[n] != failed.Op; n-- {
	}
	if n < 0 || compareKeys(ws[n].key, failed.Key) != 0 {
		return nil, fmt.Errorf("an unknown condition has failed: %w", err)
	}
	c := call{register: ws[n].Key, batch: true, events: []event{{write: &ws[n], failed: true}}}
	return []call{c}, nil
}

func (r *recorder) update(o *op) ([]call, error) {
	f := func(tx *engine.Tx) error {
		for i := range r.calls { // another try reads again
			r.calls[i].events, r.calls[i].commit = nil, ""
		}
		for i := range o.Ops {
			part := &o.Ops[i]
			if !part.writes() {
				if err := r.read(tx, part); err != nil {
					return err
				}
				continue
			}
			w := r.resolve(part, i)
			err := w.to(tx)
			failed := errors.Is(err, engine.ErrConditionFailed)
			if err != nil && !failed {
				return err
			}
			r.wrote(&w, failed)
		}
		return nil
	}
	if o.Retry {
		return r.calls, r.db.UpdateRetry(ctx, f)
	}
	if err := r.db.Update(ctx, f); !errors.Is(err, engine.ErrConflict) {
		return r.calls, err
	}
	return nil, nil
}

func (r *recorder) insertNew() ([]call, error) {
	var all []engine.Item
	for i, name := range r.registers {
		w := r.resolve(&op{Kind: "put", Key: name, If: "absent"}, i)
		all = append(all, engine.Item{Key: w.key, Value: w.value})
		r.wrote(&w, false)
	}
	inserted, _, err := r.db.InsertNew(ctx, all, nil)
	for i := range inserted {
		r.calls[i].events[0].failed = !inserted[i]
	}
	return r.calls, err
}

// phase runs clients on a database, and flushes and merges as long as they work.
func (h *history) phase(calls int, rnd *rand.Rand) {
	const clients, keys, callsEach = 6, 3, 40
	seed := rnd.Uint64()
	beside(h.t, h.db, clients, func(n int) {
		c := h.client(n, keys, rand.New(rand.NewPCG(seed, uint64(n))))
		for i := range calls {
			c.use((h.before + i) / callsEach)
			c.do(c.op(historyKinds[c.IntN(len(historyKinds))]))
		}
		c.done()
	})
	h.before += calls
}

// beside runs n goroutines, and flushes and merges as long as they work.
func beside(t testing.TB, db *engine.DB, n int, f func(n int)) {
	var workers, side sync.WaitGroup
	stop := make(chan struct{})
	side.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			err := db.Flush(ctx)
			if n%3 == 2 {
				err = errors.Join(err, db.Compact(ctx))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range n {
		workers.Go(func() { f(i) })
	}
	workers.Wait()
	close(stop)
	side.Wait()
}

// check judges the history and returns how many calls it has.
func (h *history) check() int {
	h.t.Helper()
	versions := h.versions()
	writes := map[string][]uint64{} // versions of what was written, by register
	for _, op := range h.ops {
		c := op.Input.(*call)
		if c.commit == "" {
			continue
		}
		c.version = versions[c.commit]
		failed := slices.ContainsFunc(c.events, func(e event) bool { return e.failed })
		writing := slices.ContainsFunc(c.events, func(e event) bool {
			return e.write != nil && e.write.Kind != "require"
		})
		if c.version > 0 && writing && !failed {
			writes[c.register] = append(writes[c.register], c.version)
		}
	}
	for _, p := range h.pictures {
		p.check(h.t, versions, writes)
	}
	wantLinearizable(h.t, h.ops, true)
	return len(h.ops)
}

// commitOf returns the commit that has written a value.
func commitOf(value []byte) string {
	commit, _, _ := strings.Cut(string(value), ".")
	return commit
}

// versions returns the versions of the commits that were seen with one.
func (h *history) versions() map[string]uint64 {
	h.t.Helper()
	versions, commits := map[string]uint64{}, map[uint64]string{}
	for _, op := range h.ops {
		for _, e := range op.Input.(*call).events {
			v, commit := e.saw.item.Version, commitOf(e.saw.item.Value)
			if v == 0 {
				continue
			}
			if other, known := versions[commit]; known && other != v {
				h.t.Errorf("commit %s has versions %d and %d", commit, other, v)
			}
			if other, known := commits[v]; known && other != commit {
				h.t.Errorf("commits %s and %s have version %d", other, commit, v)
			}
			versions[commit], commits[v] = v, commit
		}
	}
	return versions
}

// check checks that what was seen at one moment is whole: a reader that sees a commit, in any
// register, sees no register as it was before.
func (p *picture) check(t *testing.T, versions map[string]uint64, writes map[string][]uint64) {
	t.Helper()
	newest := p.version
	for _, s := range p.seen {
		newest = max(newest, s.item.Version)
	}
	for k, s := range p.seen {
		for _, w := range writes[k] {
			if s.there && s.item.Version < w && w <= newest {
				t.Errorf("register %s shows version %d in %+v, and %d is newer", k, s.item.Version,
					p, w)
			}
		}
	}
}

func wantLinearizable(t *testing.T, history []porcupine.Operation, want bool) {
	t.Helper()
	got := porcupine.CheckOperationsTimeout(registers, history, 2*time.Minute)
	if got == porcupine.Unknown {
		t.Fatalf("no answer for %d operations", len(history))
	}
	if (got == porcupine.Ok) != want {
		t.Fatalf("history of %d operations: %v, want linearizable %v", len(history), got, want)
	}
}
