package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/kstonedb/kstone/engine"
)

// Order is what a child is to do; it travels as JSON in the environment.
type Order struct {
	Dir     string // of the database
	Seed    uint64 // of the programs
	Cycle   int
	Workers int
	From    []int // the last step of each worker that is in the database
	// NoSync writes everything with Durability Process and says that it was synced:
	// a control that a check for power cuts must catch.
	NoSync bool
}

// Env is the environment variable that makes a program run Child with the order in it.
const Env = "KSTONE_TORTURE_CHILD"

// reporter writes one line a message, each with one write, so that a kill between two
// loses nothing that was said.
type reporter struct {
	mu  sync.Mutex
	out io.Writer
}

func (r *reporter) say(format string, args ...any) error {
	line := fmt.Appendf(nil, format+"\n", args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.out.Write(line)
	return err
}

// Child writes until it is killed. What was acknowledged goes to out, one line each:
//
//	ready                     the database is open
//	ack WORKER STEP SYNCED    1 if the step survives a power cut
//	copying NAME              a checkpoint begins
//	copied NAME               it is complete
//	dropping NAME             it is about to be removed
//
// It returns an error if the database fails or gives a wrong answer. An interrupt from the
// keyboard, which goes to parent and child, does not end it: only the parent may.
func Child(ctx context.Context, order string, out io.Writer) error {
	signal.Ignore(os.Interrupt)
	ctx = context.WithoutCancel(ctx)
	var o Order
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return fmt.Errorf("order of the child: %w", err)
	}
	db, err := engine.Open(dbDir(o.Dir), options(o.Seed, o.Cycle))
	if err != nil {
		return err
	}
	// Before the first commit, so that all of them are retained.
	if _, err := db.Consumer(consumerName, engine.Position{}); err != nil {
		return err
	}
	c := &child{db: db, o: o, report: &reporter{out: out}}
	models := make([]progress, o.Workers)
	for w := range models {
		if models[w], err = readBack(ctx, db, w, o.From[w]); err != nil {
			return err
		}
	}
	if err := c.openAccounts(ctx); err != nil {
		return err
	}
	if err := c.report.say("ready"); err != nil {
		return err
	}
	failed := make(chan error, o.Workers+2)
	for w := range models {
		go func() { failed <- c.work(ctx, &models[w]) }()
	}
	go func() { failed <- c.upkeep(ctx) }()
	go func() { failed <- c.follow(ctx) }()
	return <-failed
}

// options returns small buffers and odd settings, others for each cycle.
func options(seed uint64, cycle int) *engine.Options {
	rng := rand.New(rand.NewPCG(seed, uint64(cycle)|1<<40))
	pick := func(of ...int) int { return of[rng.IntN(len(of))] }
	return &engine.Options{
		Durability:    engine.Process,
		RetainBytes:   1 << 30,
		MemtableBytes: 1 << 20, LogBytes: 8 << 20, CacheBytes: 1 << 20,
		FlushRecords: pick(0, 0, 10, 100), MaxRuns: pick(2, 4),
		BlockBytes: pick(1<<10, 4<<10), FileBytes: int64(pick(64<<10, 1<<20)),
		Compression: engine.Compression(pick(1, 2, 3)), CompactionWorkers: pick(1, 2),
		LargeValue: pick(engine.NoLargeValue, 1, 60, 200),
	}
}

// readBack makes the model of a worker from the database, which Check has found right.
func readBack(ctx context.Context, db *engine.DB, worker, num int) (progress, error) {
	p := newProgress(worker)
	p.num = num
	for i := range partitions {
		pk := fmt.Appendf(nil, "w%d/%d", worker, i)
		for it, err := range db.Query(ctx, engine.Query{PK: pk}) {
			if err != nil {
				return p, err
			}
			p.items[mapKey(it.Key)] = string(it.Value)
		}
	}
	return p, nil
}

// follow reads the changes beside the workers.
func (c *child) follow(ctx context.Context) error {
	consumer, err := c.db.Consumer(consumerName, engine.Position{})
	if err != nil {
		return err
	}
	from, err := consumer.Position()
	if err != nil {
		return err
	}
	return contiguous(ctx, c.db, from, nil, func(*engine.Change) {})
}

type child struct {
	db     *engine.DB
	o      Order
	report *reporter
}

// openAccounts fills the accounts unless they are there, in one batch.
func (c *child) openAccounts(ctx context.Context) error {
	if ok, err := c.db.Has(accountKey(0)); err != nil || ok {
		return err
	}
	b := engine.NewBatch()
	for i := range accounts {
		if err := b.Put(accountKey(i), []byte(strconv.Itoa(startAmount))); err != nil {
			return err
		}
	}
	return c.db.Apply(ctx, b, engine.Sync)
}

// work follows the program of one worker.
func (c *child) work(ctx context.Context, p *progress) error {
	w := p.worker
	for {
		s := stepOf(c.o.Seed, w, p.num+1)
		expected := p.apply(&s)
		if err := c.do(ctx, &s, p, expected); err != nil {
			return fmt.Errorf("worker %d, step %d: %w", w, s.num, err)
		}
		if err := c.report.say("ack %d %d %d", w, s.num, btoi(s.durable)); err != nil {
			return err
		}
		if s.num%16 == 0 {
			if err := c.look(&s, p); err != nil {
				return fmt.Errorf("worker %d, after step %d: %w", w, s.num, err)
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// look reads a key of the worker, which no other goroutine writes.
func (c *child) look(s *step, p *progress) error {
	probe := s.random(rand.New(rand.NewPCG(c.o.Seed, uint64(s.num))), stepDelete)
	got, err := c.db.Get(probe.key)
	want, there := p.items[mapKey(probe.key)]
	switch {
	case errors.Is(err, engine.ErrNotFound) && !there:
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", probe.key, err)
	case !there || string(got) != want:
		return fmt.Errorf("%s is %.60q, want %.60q (there: %v)", probe.key, got, want, there)
	}
	return nil
}

// upkeep flushes, merges, makes checkpoints.
func (c *child) upkeep(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(c.o.Seed, uint64(c.o.Cycle)))
	for n := 0; ; n++ {
		var err error
		switch rng.IntN(4) {
		case 0:
			err = c.db.Compact(ctx)
		case 1:
			name := fmt.Sprintf("copy-%d-%d", c.o.Cycle, n)
			if err = c.report.say("copying %s", name); err != nil {
				return err
			}
			if err = c.db.Checkpoint(ctx, filepath.Join(c.o.Dir, name), nil); err == nil {
				err = c.report.say("copied %s", name)
			}
			if err == nil && rng.IntN(2) == 0 {
				if err = c.report.say("dropping %s", name); err == nil {
					err = os.RemoveAll(filepath.Join(c.o.Dir, name))
				}
			}
		default:
			err = c.db.Flush(ctx)
		}
		if err != nil {
			return fmt.Errorf("upkeep: %w", err)
		}
	}
}
