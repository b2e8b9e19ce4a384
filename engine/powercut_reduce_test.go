package engine_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/kstonedb/kstone/engine"
)

// Bounds of a reduction.
const (
	cutReduceTime = time.Minute
	cutConfirm    = 10 // runs of the reduced program
	cutTriesLeast = 4  // runs of a candidate
	// Disks kept in a stage of a candidate; if there is another cut later.
	cutsKept, cutsKeptEarlier = 12, 3
)

// cutReducer makes a failure of a power-cut program smaller: fewer stages, and so fewer
// cuts; fewer steps; fewer and smaller operations; nothing at the same time; ordinary
// options. What is left of each cut is the place of the last one that failed.
//
// When the goroutines of the database run is not repeated. So a candidate is run several
// times, more often if the failure is rare, with cuts before all operations like those of
// the failure.
type cutReducer struct {
	trial    cutTrial
	best     *cutFailure
	deadline time.Time
	most     int // runs of a candidate, one that fails less often is none
	tries    int // the same at the moment
	runs     int // so far
	confirms int // runs of the result that failed, of cutConfirm
}

// explain reduces a failure until the deadline and reports what is left.
func (c cutTrial) explain(f *cutFailure, deadline time.Time) string {
	r := c.reduce(f, deadline)
	return fmt.Sprintf("%s\nreduced in %d runs to %d steps and %d cuts, which fail %d times of "+
		"%d:\n%s\n%s\nto repeat that: %s=FILE go test ./engine -run TestPowerCutPrograms",
		f.text, r.runs, r.steps(), len(r.best.path)-1, r.confirms, cutConfirm, r.best.text,
		formatCuts(r.best.path), powerCutProgramEnv)
}

// reduce reduces a failure until the deadline.
func (c cutTrial) reduce(f *cutFailure, deadline time.Time) *cutReducer {
	c.tally = nil
	r := &cutReducer{trial: c, best: f, deadline: deadline}
	if r.measure() {
		r.cuts()
		r.alone()
		r.stages()
		for level := 0; level < len(r.best.path); level++ { // there may be fewer after each
			r.fewer(level)
			r.simplify(level)
			r.commits(level)
			r.fewer(level)
		}
	}
	r.confirm()
	return r
}

// steps returns the number of steps that are left, in all stages.
func (r *cutReducer) steps() (n int) {
	for _, l := range r.best.path {
		n += len(l.stage.steps)
	}
	return n
}

// confirm runs the result with its cuts only, or, if it fails more often with cuts at any
// operations like them, makes that the result.
func (r *cutReducer) confirm() {
	for _, path := range [][]cutLink{r.best.path, r.with(0, func(*cutLink) {})} {
		fails := 0
		for i := range uint64(cutConfirm) {
			if r.trial.repeat(path, i) != nil {
				fails++
			}
		}
		if fails > r.confirms {
			r.confirms, r.best = fails, &cutFailure{r.best.text, path}
		}
		if fails > cutConfirm/2 {
			return
		}
	}
}

// repeat runs the stages of the path with its cuts only. The seed matters where a cut is
// at any operation.
func (c cutTrial) repeat(path []cutLink, seed uint64) *cutFailure {
	first := path[0].stage
	first.opts.MustExist = false
	r := newCutRun(c, "repeated", first, seed)
	r.after = path[1:]
	r.cutPolicy = path[0].policy(path[1:])
	return r.run()
}

// policy takes the cut of the link: if it is at any operation of a kind, then not long
// before the steps have begun that had when it was found.
func (l *cutLink) policy(later []cutLink) cutPolicy {
	if l.at == nil {
		return cutPolicy{}
	}
	most := cutsKept
	if len(later) > 1 {
		most = cutsKeptEarlier
	}
	return cutPolicy{at: l.at, most: most, from: l.begun - 2}
}

// fails runs a candidate, and keeps it if it fails twice: one that fails only now and then
// would lead astray. A smaller program may fail more often, and the number of tries follows.
func (r *cutReducer) fails(path []cutLink) bool {
	hits := 0
	for i := 1; i <= r.tries && time.Now().Before(r.deadline); i++ {
		f := r.once(path)
		if f == nil {
			continue
		}
		if hits++; hits == 2 {
			r.best = f
			r.tries = min(r.most, max(cutTriesLeast, (r.tries+2*i+1)/2))
			return true
		}
	}
	return false
}

func (r *cutReducer) once(path []cutLink) *cutFailure {
	r.runs++
	return r.trial.repeat(path, uint64(r.runs))
}

// measure finds how often candidates have to be run: such that one that fails as often as
// what has been found does so twice, nine times in ten. It reports whether there is any
// hope. What had not begun when the cuts came is left out at once, if it can be.
func (r *cutReducer) measure() bool {
	short := r.with(0, func(*cutLink) {})
	for i := range short {
		short[i].stage.steps = short[i].stage.steps[:short[i].begun]
	}
	for _, path := range [][]cutLink{short, r.with(0, func(*cutLink) {})} {
		hits, runs := 0, 0
		for hits < 3 && runs < 12 && time.Now().Before(r.deadline) {
			runs++
			if f := r.once(path); f != nil {
				hits++
				r.best = f
			}
		}
		r.most = max(cutTriesLeast, 4*runs/max(1, hits))
		r.tries = r.most
		if hits > 0 {
			return true
		}
	}
	return false
}

// with returns the path of the failure with one link changed, and all cuts at any
// operation of their kind.
func (r *cutReducer) with(level int, change func(*cutLink)) []cutLink {
	path := slices.Clone(r.best.path)
	for i := range path {
		if path[i].at != nil {
			at := *path[i].at
			at.nth = 0
			path[i].at = &at
		}
	}
	change(&path[level])
	return path
}

// cuts moves the cuts to before or after Close, where nothing happens at the same time.
// Before it shows what was acknowledged and is not durable, after it what never is.
func (r *cutReducer) cuts() {
	for level := 0; level < len(r.best.path); level++ {
		if r.best.path[level].at == nil {
			continue
		}
		for _, at := range []cutPoint{
			{op: cutBeforeClose}, {op: cutBeforeClose, kill: true},
			{op: cutAfterClose}, {op: cutAfterClose, kill: true},
		} {
			if r.fails(r.with(level, func(l *cutLink) { l.at = &at })) {
				break
			}
		}
	}
}

// alone does one step after the other.
func (r *cutReducer) alone() {
	path := r.with(0, func(*cutLink) {})
	for i := range path {
		path[i].stage.each(func(s *cutStep) { s.beside = false })
	}
	r.fails(path)
}

// stages leaves out stages, with the cuts in them, or does the steps of two in one.
func (r *cutReducer) stages() {
	for level := 0; level < len(r.best.path) && len(r.best.path) > 1; {
		without := slices.Delete(r.with(0, func(*cutLink) {}), level, level+1)
		last := len(without) - 1
		without[last].at, without[last].begun = nil, len(without[last].stage.steps)
		if r.fails(without) {
			continue
		}
		if level > last {
			return
		}
		joined := slices.Clone(without)
		l, steps := &joined[level], r.best.path[level].stage.steps
		l.stage.steps, l.begun = slices.Concat(steps, l.stage.steps), len(steps)+l.begun
		if !r.fails(joined) {
			level++
		}
	}
}

// fewer leaves out steps: those that had not begun when the cut came, and others.
func (r *cutReducer) fewer(level int) {
	if level >= len(r.best.path) {
		return
	}
	l := r.best.path[level]
	head, tail := l.stage.steps[:l.begun], l.stage.steps[l.begun:]
	try := func(head, tail []cutStep) bool {
		return level < len(r.best.path) && r.fails(r.with(level, func(l *cutLink) {
			l.stage.steps, l.begun = slices.Concat(head, tail), len(head)
		}))
	}
	if len(tail) > 0 && try(head, nil) {
		tail = nil
	}
	if !try(nil, tail) {
		reduce(head, func(head []cutStep) bool { return try(head, tail) }, r.deadline)
	}
}

// simplify gives the stage ordinary options and a simple cut.
func (r *cutReducer) simplify(level int) {
	cut := func(keep float64) func(*cutLink) {
		return func(l *cutLink) {
			if l.at != nil && !l.at.kill {
				at := *l.at
				at.keep = keep
				l.at = &at
			}
		}
	}
	for _, change := range []func(*cutLink){
		func(l *cutLink) { l.stage.opts.FlushRecords = 0 },
		func(l *cutLink) { l.stage.opts.MaxRuns = 0 },
		func(l *cutLink) { l.stage.opts.Durability = engine.Sync },
		func(l *cutLink) { l.stage.padding = 0 },
		cut(1), cut(0),
	} {
		if level < len(r.best.path) {
			r.fails(r.with(level, change))
		}
	}
}

// each changes a copy of the steps.
func (s *cutStage) each(change func(*cutStep)) {
	s.steps = slices.Clone(s.steps)
	for i := range s.steps {
		change(&s.steps[i])
	}
}

// commits makes each commit simpler.
func (r *cutReducer) commits(level int) {
	for i := 0; level < len(r.best.path) && i < len(r.best.path[level].stage.steps); i++ {
		change := func(f func(*cutStep)) bool {
			return level < len(r.best.path) && i < len(r.best.path[level].stage.steps) &&
				r.fails(r.with(level, func(l *cutLink) {
					l.stage.steps = slices.Clone(l.stage.steps)
					f(&l.stage.steps[i])
				}))
		}
		s := r.best.path[level].stage.steps[i]
		if s.beside {
			change(func(s *cutStep) { s.beside = false })
		}
		if s.kind != 'c' {
			continue
		}
		reduce(s.ops, func(ops []cutOp) bool {
			return len(ops) > 0 && change(func(s *cutStep) { s.ops = ops })
		}, r.deadline)
		change(func(s *cutStep) {
			s.ops = slices.Clone(s.ops)
			for i := range s.ops {
				s.ops[i].bytes = 0
			}
		})
		if s.tx {
			change(func(s *cutStep) { s.tx = false })
		}
		if s.sync {
			change(func(s *cutStep) { s.sync = false })
		}
	}
}
