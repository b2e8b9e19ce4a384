package suite_test

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"
)

// reduceUntil is the end of all reductions of a run: failures after the first are often of the
// same cause.
var reduceUntil = sync.OnceValue(func() time.Time { return time.Now().Add(time.Minute) })

// Bounds of a reduction.
const (
	confirmations = 10 // runs of the reduced program
	minTries      = 3  // runs of a candidate
	// Disks kept in a stage of a candidate; if there is another crash later.
	maxKept, maxKeptEarlier = 12, 3
)

// reducer makes a failure smaller: fewer stages, and so fewer crashes; fewer operations and parts
// of them; arguments and options that are zero; nothing at the same time. What is left of each
// crash is the place of the last one that failed.
//
// When the goroutines of the database run is not repeated. So a candidate is run several
// times, more often if the failure is rare, with crashes at all operations on the disk like those
// of the failure.
type reducer struct {
	trial    trial
	best     *failure
	deadline time.Time
	most     int // runs of a candidate, one that fails less often is not taken
	tries    int // the same at the moment
	runs     int // so far
	confirms int // runs of the result that failed, of confirmations
}

// explain reduces a failure until the deadline and reports what is left.
func (c trial) explain(f *failure, deadline time.Time) string {
	r := c.reduce(f, deadline)
	return fmt.Sprintf("%s\nreduced in %d runs to %d operations and %d crashes, which fail %d "+
		"times of %d:\n%s\n%s\nto repeat that: %s=FILE go test ./engine/internal/suite "+
		"-run TestStoredPrograms", f.text, r.runs, r.steps(), len(r.best.path)-1, r.confirms,
		confirmations, r.best.text, format(r.best.path), programEnv)
}

// reduce reduces a failure until the deadline.
func (c trial) reduce(f *failure, deadline time.Time) *reducer {
	c.tally = nil
	r := &reducer{trial: c, best: f, deadline: deadline}
	if r.measure() {
		r.crashes()
		r.alone()
		r.stages()
		for level := 0; level < len(r.best.path); level++ { // there may be fewer after each
			r.fewer(level)
			r.zero(level, func(l *link) any { return &l.stage })
			r.zero(level, func(l *link) any { return &l.opts })
			r.zero(level, func(l *link) any {
				if l.at != nil {
					at := *l.at
					l.at = &at
				}
				return l.at
			})
			r.simplify(level)
			r.fewer(level)
		}
	}
	r.confirm()
	return r
}

// steps returns the number of operations that are left, in all stages.
func (r *reducer) steps() (n int) {
	for _, l := range r.best.path {
		n += len(l.ops)
	}
	return n
}

// confirm runs the result with its crashes only, or, if it fails more often with crashes at any
// operations like them, makes that the result.
func (r *reducer) confirm() {
	for _, path := range [][]link{r.best.path, r.with(0, func(*link) {})} {
		fails := 0
		for i := range uint64(confirmations) {
			if r.trial.repeat(path, i) != nil {
				fails++
			}
		}
		if fails > r.confirms {
			r.confirms, r.best = fails, &failure{r.best.text, path}
		}
		if fails > confirmations/2 {
			return
		}
	}
}

// repeat runs the stages of the path with its crashes only. The seed matters where a crash is
// at any operation.
func (c trial) repeat(path []link, seed uint64) *failure {
	first := path[0].stage
	first.opts.MustExist = false
	r := newRun(c, "repeated", first, seed)
	r.after = path[1:]
	r.policy = path[0].policy(path[1:])
	return r.run()
}

// policy takes the crash of the link: if it is at any operation of a kind, then not long
// before the operations have begun that had when it was found.
func (l *link) policy(later []link) policy {
	if l.at == nil {
		return policy{}
	}
	most := maxKept
	if len(later) > 1 {
		most = maxKeptEarlier
	}
	return policy{at: l.at, most: most, from: l.begun - 2}
}

// fails runs a candidate, and keeps it if it fails twice: one that fails only now and then
// would lead astray. A smaller program may fail more often, and the number of tries follows.
func (r *reducer) fails(path []link) bool {
	hits := 0
	for i := 1; i <= r.tries && i-hits <= r.tries-2 && time.Now().Before(r.deadline); i++ {
		f := r.once(path)
		if f == nil {
			continue
		}
		if hits++; hits == 2 {
			r.best = f
			r.tries = min(r.most, max(minTries, (r.tries+2*i+1)/2))
			return true
		}
	}
	return false
}

func (r *reducer) once(path []link) *failure {
	r.runs++
	return r.trial.repeat(path, uint64(r.runs))
}

// measure finds how often candidates have to be run: such that one that fails as often as
// what has been found does so twice, nine times in ten. It reports whether there is any
// hope. What had not begun when the crashes came is left out at once, if it can be.
func (r *reducer) measure() bool {
	short := r.with(0, func(*link) {})
	for i := range short {
		short[i].ops = short[i].ops[:short[i].begun]
	}
	for _, path := range [][]link{short, r.with(0, func(*link) {})} {
		hits, runs := 0, 0
		for hits < 3 && runs < 12 && time.Now().Before(r.deadline) {
			runs++
			if f := r.once(path); f != nil {
				hits++
				r.best = f
			}
		}
		r.most = max(minTries, 4*runs/max(1, hits))
		r.tries = r.most
		if hits > 0 {
			return true
		}
	}
	return false
}

// with returns the path of the failure with one link changed, and all crashes at any
// operation of their kind.
func (r *reducer) with(level int, change func(*link)) []link {
	path := slices.Clone(r.best.path)
	for i := range path {
		if path[i].at != nil {
			at := *path[i].at
			at.Nth = 0
			path[i].at = &at
		}
	}
	change(&path[level])
	return path
}

// crashes moves the crashes to before or after Close, where nothing happens at the same time.
// Before it shows what was acknowledged and is not durable, after it what never is.
func (r *reducer) crashes() {
	for level := 0; level < len(r.best.path); level++ {
		if r.best.path[level].at == nil {
			continue
		}
		for _, at := range []point{
			{At: beforeClose}, {At: beforeClose, Kill: true},
			{At: afterClose}, {At: afterClose, Kill: true},
		} {
			if r.fails(r.with(level, func(l *link) { l.at = &at })) {
				break
			}
		}
	}
}

// alone does one operation after the other.
func (r *reducer) alone() {
	path := r.with(0, func(*link) {})
	for i := range path {
		path[i].ops = slices.Clone(path[i].ops)
		for j := range path[i].ops {
			path[i].ops[j].Beside = false
		}
	}
	r.fails(path)
}

// stages leaves out stages, with the crashes in them, or does the operations of two in one.
func (r *reducer) stages() {
	for level := 0; level < len(r.best.path) && len(r.best.path) > 1; {
		without := slices.Delete(r.with(0, func(*link) {}), level, level+1)
		last := len(without) - 1
		without[last].at, without[last].begun = nil, len(without[last].ops)
		if r.fails(without) {
			continue
		}
		if level > last {
			return
		}
		joined := slices.Clone(without)
		l, ops := &joined[level], r.best.path[level].ops
		l.ops, l.begun = slices.Concat(ops, l.ops), len(ops)+l.begun
		if !r.fails(joined) {
			level++
		}
	}
}

// fewer leaves out operations: those that had not begun when the crash came, and others.
func (r *reducer) fewer(level int) {
	if level >= len(r.best.path) {
		return
	}
	l := r.best.path[level]
	head, tail := l.ops[:l.begun], l.ops[l.begun:]
	try := func(head, tail []op) bool {
		return level < len(r.best.path) && r.fails(r.with(level, func(l *link) {
			l.ops, l.begun = slices.Concat(head, tail), len(head)
		}))
	}
	if len(tail) > 0 && try(head, nil) {
		tail = nil
	}
	if !try(nil, tail) {
		reduce(head, func(head []op) bool { return try(head, tail) }, r.deadline)
	}
}

// zero makes those fields of a part of the link zero that can be.
func (r *reducer) zero(level int, part func(*link) any) {
	for i := 0; level < len(r.best.path); i++ {
		l := r.best.path[level]
		v := reflect.ValueOf(part(&l)).Elem()
		if !v.IsValid() || i >= v.NumField() {
			return
		}
		if f := v.Type().Field(i); f.IsExported() && f.Name != "At" && !v.Field(i).IsZero() {
			r.fails(r.with(level, func(l *link) {
				reflect.ValueOf(part(l)).Elem().Field(i).SetZero()
			}))
		}
	}
}

// simplify makes each operation simpler.
func (r *reducer) simplify(level int) {
	for i := 0; level < len(r.best.path) && i < len(r.best.path[level].ops); i++ {
		own := func(l *link) *op {
			if i >= len(l.ops) {
				return new(op)
			}
			l.ops = slices.Clone(l.ops)
			return &l.ops[i]
		}
		o := r.best.path[level].ops[i]
		reduce(o.Ops, func(ops []op) bool {
			return len(ops) > 0 && level < len(r.best.path) &&
				r.fails(r.with(level, func(l *link) { own(l).Ops = ops }))
		}, r.deadline)
		ops := reflect.ValueOf(&o).Elem()
		for f := range ops.NumField() {
			name := ops.Type().Field(f).Name
			if name == "Kind" || name == "Key" || name == "Ops" || ops.Field(f).IsZero() ||
				level >= len(r.best.path) {
				continue
			}
			r.fails(r.with(level, func(l *link) {
				reflect.ValueOf(own(l)).Elem().Field(f).SetZero()
			}))
		}
	}
}

// reduce returns a part of the program that still fails, as small as can be found until
// the deadline (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input):
// leave out a half, then quarters, and so on down to single operations.
func reduce[T any](program []T, fails func([]T) bool, deadline time.Time) []T {
	for size := (len(program) + 1) / 2; size > 0; {
		removed := false
		for at := 0; at < len(program) && time.Now().Before(deadline); {
			end := min(at+size, len(program))
			rest := slices.Concat(program[:at], program[end:])
			if fails(rest) {
				program, removed = rest, true
			} else {
				at = end
			}
		}
		switch {
		case !time.Now().Before(deadline):
			return program
		case size == 1 && !removed:
			return program
		case size > 1:
			size = (size + 1) / 2
		}
	}
	return program
}

// The reduction leaves what the failure takes and nothing else.
func TestReduceFindsTheCause(t *testing.T) {
	program := make([]int, 5000)
	program[700], program[2500], program[4900] = 1, 2, 3
	runs := 0
	fails := func(p []int) bool {
		runs++
		return slices.Equal(slices.DeleteFunc(slices.Clone(p), func(n int) bool { return n == 0 }),
			[]int{1, 2, 3})
	}
	small := reduce(program, fails, time.Now().Add(time.Minute))
	if len(small) != 3 || !fails(small) || runs > 500 {
		t.Errorf("%d operations are left after %d runs", len(small), runs)
	}
}
