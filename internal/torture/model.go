package torture

import (
	"maps"
	"strings"

	"github.com/kstonedb/kstone/engine"
)

// progress is how far a worker has come and what it has stored by then.
type progress struct {
	worker int
	num    int // the last step
	count  int // the last step that wrote the counter
	items  map[string]string
}

func newProgress(worker int) progress {
	return progress{worker: worker, items: map[string]string{}}
}

func (p *progress) clone() progress {
	return progress{worker: p.worker, num: p.num, count: p.count, items: maps.Clone(p.items)}
}

// mapKey is the form of a key in a model.
func mapKey(k engine.Key) string { return string(k.PK) + "\x00" + string(k.SK) }

// apply brings the model forward by one step. It reports whether the step's condition,
// if it has one, holds.
func (p *progress) apply(s *step) bool {
	p.num = s.num
	if s.counts() {
		p.count = s.num
	}
	switch s.kind {
	case stepPutIfAbsent, stepPutIf, stepDeleteIf:
		_, there := p.items[mapKey(s.changes[0].key)]
		if there == (s.kind == stepPutIfAbsent) {
			return false
		}
	}
	for i := range s.changes {
		p.change(&s.changes[i])
	}
	return true
}

func (p *progress) change(c *change) {
	switch {
	case c.isRange():
		prefix := string(c.key.PK) + "\x00"
		for k := range p.items {
			if sk, ok := strings.CutPrefix(k, prefix); ok && sk >= c.from && sk <= c.to {
				delete(p.items, k)
			}
		}
	case c.value == nil:
		delete(p.items, mapKey(c.key))
	default:
		p.items[mapKey(c.key)] = string(c.value)
	}
}
