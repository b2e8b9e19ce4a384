package torture

import "context"

// Tester checks a database after each of several children, for callers that end them in
// their own way. It belongs to one goroutine.
type Tester struct {
	seed  uint64
	cycle int
	state []progress // of the workers, as last found
	copy  replica
	ready bool // some child has said that the database is there, with the accounts
}

// NewTester returns a Tester for a database that does not exist yet.
func NewTester(seed uint64, workers int) *Tester {
	t := &Tester{seed: seed}
	for w := range workers {
		t.state = append(t.state, newProgress(w))
	}
	return t
}

// Order returns what the next child is to do in dir.
func (t *Tester) Order(dir string) Order {
	t.cycle++
	o := Order{Dir: dir, Seed: t.seed, Cycle: t.cycle, Workers: len(t.state)}
	for _, p := range t.state {
		o.From = append(o.From, p.num)
	}
	return o
}

// Check opens the database of dir, verifies it, and checks that every worker is at floor
// at least, with exactly what its steps up to some number have written, and that the changes of
// all commits make what the database has. The states found are what the next child goes on from.
// It returns how many steps were found.
func (t *Tester) Check(ctx context.Context, dir string, floor []int) (steps int, err error) {
	found, err := check(ctx, dbDir(dir), options(t.seed, t.cycle), t.seed, t.state, floor, t.ready,
		&t.copy)
	if err != nil {
		return 0, err
	}
	for w := range found {
		steps += found[w].num - t.state[w].num
	}
	t.state = found
	return steps, nil
}

// checkCopy is Check of a checkpoint, from which nothing goes on.
func (t *Tester) checkCopy(ctx context.Context, dir string, floor []int) error {
	_, err := check(ctx, dir, options(t.seed, t.cycle), t.seed, t.state, floor, true, nil)
	return err
}
