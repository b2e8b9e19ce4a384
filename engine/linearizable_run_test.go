package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/kstonedb/kstone/engine"
)

// regRun makes a history.
type regRun struct {
	t     *testing.T
	db    *engine.DB
	clock atomic.Int64 // orders calls and returns: a return before a call has a lower time

	before int // calls of each client in the phases before

	mu       sync.Mutex
	history  []porcupine.Operation // guarded by mu
	pictures []picture             // guarded by mu
}

// picture is what somebody saw of several registers at one moment.
type picture struct {
	version uint64 // of the newest commit in it, if that is known
	seen    map[int]sight
}

// regClient is one of those who work at the same time.
type regClient struct {
	*regRun
	number, keys int
	first        int // of the registers in use
	rnd          *rand.Rand
	now          int64         // when the call under way began
	seen         map[int]sight // what was read last, for conditions that may hold
	old          *engine.Snapshot
	oldFirst     int      // of the registers that were in use when it was taken
	taken        [2]int64 // when it was: call and return
	mine         []porcupine.Operation
	pictures     []picture
}

// regOp is what a call did to one register. Call is 0 if it did so when it was made.
type regOp struct {
	regInput
	regOutput
	call, ret int64
}

// regCall makes a call of the database and returns what it did; nothing if it lost against
// another.
type regCall func(*regClient) ([]regOp, error)

func (r *regRun) client(number, keys int, rnd *rand.Rand) *regClient {
	return &regClient{regRun: r, number: number, keys: keys, rnd: rnd, seen: map[int]sight{}}
}

// call makes a call and notes it.
func (c *regClient) call(f regCall) {
	c.now = c.clock.Add(1)
	ops, err := f(c)
	ret := c.clock.Add(1)
	if err != nil {
		c.t.Error(err)
		return
	}
	for _, op := range ops {
		if op.call == 0 {
			op.call, op.ret = c.now, ret
		}
		if op.was.there {
			c.seen[op.key] = op.was
		}
		c.note(op, op.call, op.ret)
	}
}

func (c *regClient) note(op regOp, call, ret int64) {
	c.mine = append(c.mine, porcupine.Operation{
		ClientId: c.number, Call: call, Return: ret, Input: op.regInput, Output: op.regOutput,
	})
}

// watch reads the first register again and again until done, as fast as it can, with its
// version or without, and notes what is not as it was before.
func (c *regClient) watch(done *atomic.Bool, version bool) {
	key := regKey(0)
	var last sight
	var it engine.Item
	var err error
	for first := true; !done.Load(); first = false {
		// Why not Add: it would have the readers wait for each other. Calls that begin when
		// others end count as concurrent then, which permits more.
		call := c.clock.Load()
		if version {
			it, err = c.db.GetItem(key)
		} else {
			it.Value, err = c.db.AppendGet(it.Value[:0], key)
		}
		ret := c.clock.Load()
		if there := err == nil; first || there != last.there || string(it.Value) != last.value {
			if last, err = sightOf(it, err); err != nil {
				c.t.Error(err)
				return
			}
			c.note(op(regGet, 0, "", "", regOutput{was: last}), call, ret)
		}
	}
}

// done adds the client's calls to the history.
func (c *regClient) done() {
	if c.old != nil {
		ok(c.t, c.old.Close())
		c.old = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, c.mine...)
	c.regRun.pictures = append(c.regRun.pictures, c.pictures...)
}

// value returns what the call under way writes to a register: another one each time, that
// begins with the number of the call.
func (c *regClient) value(key int) string { return fmt.Sprintf("%d/%d", c.now, key) }

func commitOf(value string) string {
	commit, _, _ := strings.Cut(value, "/")
	return commit
}

// advance changes to other registers after so many calls. Why: the time that the check
// takes may grow with the square of a history, and more.
func (c *regClient) advance(calls, each int) { c.first = calls / each * c.keys }

// key returns one of the registers in use.
func (c *regClient) key() int { return c.first + c.rnd.IntN(c.keys) }

// all returns the registers in use.
func (c *regClient) all() (registers []int) {
	for i := range c.keys {
		registers = append(registers, c.first+i)
	}
	return registers
}

// some returns some of them, in random order.
func (c *regClient) some() []int {
	registers := c.all()
	c.rnd.Shuffle(len(registers), func(i, j int) {
		registers[i], registers[j] = registers[j], registers[i]
	})
	return registers[:1+c.rnd.IntN(len(registers))]
}

// chance is true one time in n.
func (c *regClient) chance(n int) bool { return c.rnd.IntN(n) == 0 }

func regKey(n int) engine.Key { return pksk(fmt.Sprintf("register#%04d", n), "r") }

// pictureOf notes that the registers were seen at one moment, and returns that as operations.
func (c *regClient) pictureOf(version uint64, seen map[int]sight) (ops []regOp) {
	c.pictures = append(c.pictures, picture{version, seen})
	for k, s := range seen {
		ops = append(ops, op(regGet, k, "", "", regOutput{was: s}))
	}
	return ops
}

func sightOf(it engine.Item, err error) (sight, error) {
	if errors.Is(err, engine.ErrNotFound) {
		return sight{}, nil
	}
	return sight{err == nil, string(it.Value), it.Version}, err
}

// check judges the history and returns how many operations it has.
func (r *regRun) check(t *testing.T) int {
	t.Helper()
	versions := r.versions(t)
	for i := range r.history {
		if in := r.history[i].Input.(regInput); in.arg != "" {
			in.version = versions[commitOf(in.arg)]
			r.history[i].Input = in
		}
	}
	r.checkPictures(t, versions)
	wantLinearizable(t, r.history, true)
	return len(r.history)
}

// versions returns those of the commits of which somebody has seen one.
func (r *regRun) versions(t *testing.T) map[string]uint64 {
	t.Helper()
	versions := map[string]uint64{}
	commits := map[uint64]string{}
	for _, op := range r.history {
		was := op.Output.(regOutput).was
		if was.value == neverSeen {
			t.Errorf("operation %+v has seen what nobody may see", op)
		}
		if was.version == 0 {
			continue
		}
		commit := commitOf(was.value)
		if v, known := versions[commit]; known && v != was.version {
			t.Errorf("commit %s has versions %d and %d", commit, v, was.version)
		}
		if other, known := commits[was.version]; known && other != commit {
			t.Errorf("commits %s and %s have version %d", other, commit, was.version)
		}
		versions[commit], commits[was.version] = was.version, commit
	}
	return versions
}

// checkPictures checks that what was seen at one moment is whole: who sees a commit, in
// any register, sees no register as it was before.
func (r *regRun) checkPictures(t *testing.T, versions map[string]uint64) {
	t.Helper()
	writes := map[int][]uint64{} // versions of what was written, by register
	for _, op := range r.history {
		in := op.Input.(regInput)
		if in.version > 0 && !op.Output.(regOutput).failed {
			writes[in.key] = append(writes[in.key], in.version)
		}
	}
	for _, p := range r.pictures {
		newest := p.version
		for _, s := range p.seen {
			newest = max(newest, versions[commitOf(s.value)])
		}
		for k, s := range p.seen {
			shown := versions[commitOf(s.value)]
			for _, w := range writes[k] {
				if s.there && shown < w && w <= newest {
					t.Errorf("register %d shows version %d in %+v, and %d is newer", k, shown, p, w)
				}
			}
		}
	}
}

// forever is a time to live that does not end in a test.
const forever = time.Hour
