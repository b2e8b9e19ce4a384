package plan

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/conjunct"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
)

// variants are the plans of one query for values of its parameters. A Prepared holds for all
// values, but one plan is not the best for all: a range that is a parameter may have a row or
// all of them. What the values leave of the rows, column by column, is their signature; values
// whose signatures differ by less than a factor of two in each column share a plan.
//
// A signature costs some look-ups in histograms. The number of signatures is bounded: when it is
// reached, the plan of the nearest one is taken. Most of them lead to few different plans, and
// equal plans are kept once.
type variants struct {
	sel     *Select
	opt     Options
	watched []watched

	mu   sync.RWMutex
	kept []variant // Guarded by mu
}

// watched is what parameters decide about a column: the terms of an AND that compare it.
type watched struct {
	estimator *estimate.Estimator
	terms     []expr.Expr
}

// signature holds the binary logarithms of what is left of the rows, by watched.
type signature [maxWatched]float32

// variant is a plan and values that it is good for.
type variant struct {
	signature signature
	prepared  *Prepared
	id        string
}

const (
	maxWatched  = 8  // columns
	maxVariants = 64 // signatures
	// alike is how far signatures of values with one plan may be apart.
	alike = 1
)

// Fitting returns the query with the plan for values like these, p itself if they make no
// difference. The result of the query does not depend on it.
func (p *Prepared) Fitting(params []expr.Value) *Prepared {
	if p.variants == nil || len(params) < p.q.scope.params {
		return p
	}
	return p.variants.fitting(p, params)
}

func (v *variants) fitting(base *Prepared, params []expr.Value) *Prepared {
	var s signature
	for i := range v.watched {
		w := &v.watched[i]
		e := w.estimator.With(params)
		s[i] = float32(math.Log2(max(e.Selectivity(w.terms), 1e-30)))
	}
	v.mu.RLock()
	nearest, distance := v.nearest(&s)
	full := len(v.kept) >= maxVariants
	v.mu.RUnlock()
	if distance <= alike || full {
		return nearest
	}
	opt := v.opt
	opt.Values = params
	p, err := prepare(v.sel, opt)
	if err != nil {
		return base // what it refuses the base has been allowed
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if nearest, distance = v.nearest(&s); distance <= alike || len(v.kept) >= maxVariants {
		return nearest
	}
	id := string(appendPlanID(nil, p.root))
	for _, k := range v.kept {
		if k.id == id {
			p, id = k.prepared, k.id
			break
		}
	}
	v.kept = append(v.kept, variant{s, p, id})
	return p
}

// nearest returns the plan whose signature differs least. The caller holds mu.
func (v *variants) nearest(s *signature) (p *Prepared, distance float32) {
	distance = math.MaxFloat32
	for i := range v.kept {
		far := float32(0)
		for j, f := range v.kept[i].signature {
			far = max(far, f-s[j], s[j]-f)
		}
		if far < distance {
			p, distance = v.kept[i].prepared, far
		}
	}
	return p, distance
}

// watch returns the variants of a query that was planned for no values, nil if values make no
// difference.
func (p *Prepared) watch(sel *Select) *variants {
	opt := p.q.scope.opt
	if opt.Values != nil || p.q.scope.params == 0 || p.physical != nil && p.physical.Point {
		return nil
	}
	v := &variants{sel: sel, opt: opt}
	v.watchQuery(p)
	if len(v.watched) == 0 {
		return nil
	}
	return v
}

func (v *variants) watchQuery(p *Prepared) {
	v.watchRelations(p.q)
	for _, s := range p.subs {
		v.watchQuery(s.prepared)
	}
}

func (v *variants) watchRelations(q *query) {
	for _, r := range q.rels {
		switch {
		case r.table == nil:
			v.watchRelations(r.sub.query)
		case len(q.rels) > 1 || len(r.table.Indexes) > 0:
			v.watchTerms(newEstimator(r, &v.opt), r.pred)
		}
	}
}

// watchTerms adds the columns that the terms of an AND compare with parameters.
func (v *variants) watchTerms(e *estimate.Estimator, terms []expr.Expr) {
	var groups [][]expr.Expr
	var ordinals []int
	for _, t := range terms {
		if or, ok := t.(expr.Or); ok {
			for _, b := range or.Terms {
				v.watchTerms(e, conjunct.Split(nil, b))
			}
			continue
		}
		ordinal, ok := conjunct.Restricted(t)
		if !ok {
			continue
		}
		at := 0
		for at < len(ordinals) && ordinals[at] != ordinal {
			at++
		}
		if at == len(ordinals) {
			ordinals, groups = append(ordinals, ordinal), append(groups, nil)
		}
		groups[at] = append(groups[at], t)
	}
	for i, terms := range groups {
		if len(v.watched) < maxWatched && e.Depends(ordinals[i], terms) {
			v.watched = append(v.watched, watched{e, terms})
		}
	}
}

// appendPlanID appends what was chosen for an operator and those below it.
func appendPlanID(dst []byte, n Node) []byte {
	flags := func(list ...bool) {
		for _, b := range list {
			if dst = append(dst, '0'); b {
				dst[len(dst)-1] = '1'
			}
		}
	}
	switch n := n.(type) {
	case *access:
		dst = append(dst, 'a')
		if n.Index != nil {
			dst = binary.AppendUvarint(dst, uint64(n.Index.ID))
		}
		flags(n.Index != nil, n.Reverse, n.Ordered, n.Point, n.Skip != nil, n.path.probe != nil,
			n.path.takesAfter)
		dst = append(dst, byte(n.path.fixed), byte(n.Source))
	case *JoinNode:
		dst = append(dst, 'j', byte(n.Method), byte(n.Kind))
	case *Group:
		dst = append(dst, 'g', byte(n.Mode))
	case *Distinct:
		dst = append(dst, 'd', byte(n.Mode))
	default:
		dst = fmt.Appendf(dst, "%T", n)
	}
	dst = append(dst, '(')
	for _, c := range n.Children() {
		dst = appendPlanID(dst, c)
	}
	return append(dst, ')')
}
