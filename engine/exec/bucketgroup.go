package exec

import (
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// bucketGroup groups every stream of an access by itself, several at a time: no group has
// rows in two streams. Without keys the results of the streams are combined.
type bucketGroup struct {
	*runner
	node  *plan.Group
	input *plan.Access
	each  plan.Access // a copy of input, whose counters change while streams are read
}

// perBucket returns the parallel operator, nil if it would not be parallel.
func (r *runner) perBucket(n *plan.Group) (operator, error) {
	input, ok := n.Input.(*plan.Access)
	if !ok || len(input.Streams) < 2 || r.opt.Workers < 2 ||
		r.applied != nil {
		return nil, nil
	}
	for _, a := range n.Aggregates {
		if a.Distinct && len(n.Keys) == 0 {
			return nil, nil
		}
	}
	return &bucketGroup{r, n, input, *input}, nil
}

// part is one stream of a bucketGroup that has been read.
type part struct {
	rows [][]expr.Value // with keys
	accs []accumulator  // without
	aggs []aggregate
	used plan.Actual
	err  error
}

func (b *bucketGroup) run(yield func([]expr.Value) bool) error {
	workers := min(b.opt.Workers, len(b.input.Streams))
	jobs := make(chan int)
	done := make(chan part)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range jobs {
				select {
				case done <- b.stream(i, workers):
				case <-stop:
					return
				}
			}
		})
	}
	go func() {
		defer close(jobs)
		for i := range b.input.Streams {
			select {
			case jobs <- i:
			case <-stop:
				return
			}
		}
	}()
	defer wg.Wait()
	defer close(stop)
	return b.collect(done, yield)
}

// collect takes the parts as they come.
func (b *bucketGroup) collect(done <-chan part, yield func([]expr.Value) bool) error {
	var total part
	b.input.Actual().Loops++
	for range b.input.Streams {
		p := <-done
		if p.err != nil {
			return p.err
		}
		a := b.input.Actual()
		a.Rows, a.Keys = a.Rows+p.used.Rows, a.Keys+p.used.Keys
		a.Bytes, a.Seeks = a.Bytes+p.used.Bytes, a.Seeks+p.used.Seeks
		a.Blocks.Add(p.used.Blocks)
		b.node.Actual().Spilled += p.used.Spilled
		for _, row := range p.rows {
			if !yield(row) {
				return nil
			}
		}
		if total.accs == nil {
			total.accs, total.aggs = p.accs, p.aggs
			continue
		}
		for i := range p.accs {
			if err := total.accs[i].merge(&p.aggs[i], &p.accs[i]); err != nil {
				return err
			}
		}
	}
	if len(b.node.Keys) > 0 {
		return nil
	}
	row := make([]expr.Value, len(total.accs))
	for i := range row {
		var err error
		if row[i], err = total.accs[i].result(&total.aggs[i]); err != nil {
			return err
		}
	}
	yield(row)
	return nil
}

// stream groups one stream. It runs beside others, with a share of the memory.
func (b *bucketGroup) stream(i, workers int) part {
	r := &runner{ctx: b.ctx, reader: b.reader, params: b.params, opt: b.opt}
	r.budget.limit, r.budget.spills = b.budget.limit/int64(workers), b.budget.spills
	node := b.each
	*node.Actual() = plan.Actual{}
	node.Streams, node.Merge, node.Ordered = b.input.Streams[i:i+1], false, true
	input, err := r.compile(&node)
	if err != nil {
		return part{err: err}
	}
	p := part{}
	var own plan.Actual // of the group: streams run at the same time
	g, err := r.groupOver(b.node, input, &own)
	if err != nil {
		return part{err: err}
	}
	g.mode = plan.GroupStreaming
	p.aggs = g.aggs
	if len(b.node.Keys) == 0 {
		p.accs, p.err = g.total()
	} else {
		p.err = g.run(func(row []expr.Value) bool {
			p.rows = append(p.rows, clone(row))
			return true
		})
	}
	p.used = *node.Actual()
	p.used.Spilled = own.Spilled
	return p
}
