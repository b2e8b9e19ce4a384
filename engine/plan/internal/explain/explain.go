// Package explain describes operators for people and programs: the text of EXPLAIN.
package explain

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/internal/stats"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Explanation is a plan for people and programs: a tree of steps. Its text is stable: it
// changes only if the plan does.
type Explanation struct {
	// Operator is a word or two: "index scan", "lookup join", "sort".
	Operator string `json:"operator"`
	// Attributes stand in the order of the text.
	Attributes []Attribute `json:"attributes,omitempty"`
	Rows       float64     `json:"rows"` // expected
	Cost       float64     `json:"cost"` // expected, nanoseconds, with the steps below
	// Reads is how many items are expected to be read from the store, with the steps below.
	Reads float64 `json:"reads"`
	// Actual is what an execution has counted, nil of a plan that was not run.
	Actual   *operator.Actual `json:"actual,omitempty"`
	Children []*Explanation   `json:"children,omitempty"`
	// Notes are about the whole plan: lines after the tree.
	Notes []string `json:"notes,omitempty"`
}

// Attribute is one property of a step.
type Attribute struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// Node describes an operator and those below it; analyze adds what they have counted.
func Node(n operator.Node, d *operator.Divisions, analyze bool) *Explanation {
	e := &Explanation{}
	e.describe(n, d)
	e.Rows, e.Cost = n.Estimate().Rows, n.Estimate().Cost
	if analyze {
		a := *n.Actual()
		e.Actual = &a
	}
	for _, c := range n.Children() {
		e.Children = append(e.Children, Node(c, d, analyze))
	}
	e.Reads = reads(n, e.Children)
	return e
}

// reads returns Explanation.Reads of a step.
func reads(n operator.Node, below []*Explanation) (sum float64) {
	for _, c := range below {
		sum += c.Reads
	}
	switch n := n.(type) {
	case *operator.Access:
		return n.Reads
	case *operator.Fetch:
		return sum + below[0].Rows
	case *operator.Fallback: // the second one seldom runs
		return below[0].Reads
	case *operator.Join:
		if n.Method == operator.JoinLookup {
			return below[0].Reads + below[0].Rows*below[1].Reads
		}
	case *operator.Limit: // as little of what is below as it takes of its time
		return sum * min(1, n.Expected.Cost/max(below[0].Cost, 1))
	}
	return sum
}

// Value describes a subquery whose value is a parameter.
func Value(sub *Explanation, kind string, param int) *Explanation {
	return &Explanation{
		Operator: "subquery " + kind, Rows: sub.Rows, Cost: sub.Cost, Reads: sub.Reads,
		Attributes: []Attribute{{Name: "value", Value: "$" + strconv.Itoa(param+1)}},
		Children:   []*Explanation{sub},
	}
}

// attr adds an attribute. One without a value is a property that holds.
func (e *Explanation) attr(name, value string) {
	e.Attributes = append(e.Attributes, Attribute{Name: name, Value: value})
}

func (e *Explanation) attrIf(ok bool, name, value string) {
	if ok {
		e.attr(name, value)
	}
}

// Find returns the first step, from the top, whose operator begins with the text, or
// nil.
func (e *Explanation) Find(operator string) *Explanation {
	if strings.HasPrefix(e.Operator, operator) {
		return e
	}
	for _, c := range e.Children {
		if f := c.Find(operator); f != nil {
			return f
		}
	}
	return nil
}

// Attr returns the value of an attribute, and whether there is one of that name.
func (e *Explanation) Attr(name string) (value string, ok bool) {
	for _, a := range e.Attributes {
		if a.Name == name {
			return a.Value, true
		}
	}
	return "", false
}

// String returns the tree, a line for each step.
func (e *Explanation) String() string {
	var b strings.Builder
	e.write(&b, "", "")
	for _, n := range e.Notes {
		b.WriteString(n + "\n")
	}
	return b.String()
}

func (e *Explanation) write(b *strings.Builder, first, rest string) {
	b.WriteString(first + e.Operator)
	for _, a := range e.Attributes {
		b.WriteString(" | " + a.Name)
		if a.Value != "" {
			b.WriteString(": " + a.Value)
		}
	}
	fmt.Fprintf(b, " | rows ~%s cost ~%s", number(e.Rows), Cost(e.Cost))
	if a := e.Actual; a != nil {
		count := stats.Grouped
		fmt.Fprintf(b, " | actual rows %s seeks %s keys %s bytes %s time %s", count(a.Rows),
			count(a.Seeks), count(a.Keys), count(a.Bytes), a.Time.Round(time.Microsecond))
		if a.Blocks != (zone.BlockCounts{}) {
			fmt.Fprintf(b, " blocks %s skipped %s", count(a.Blocks.Read), count(a.Blocks.Skipped))
		}
		if a.Spilled > 0 {
			fmt.Fprintf(b, " spilled %s", count(a.Spilled))
		}
		if a.Turned > 0 {
			b.WriteString(" bound passed")
		}
		if a.Workers > 1 {
			fmt.Fprintf(b, " workers %d", a.Workers)
		}
		if a.Loops > 1 {
			fmt.Fprintf(b, " loops %s", count(a.Loops))
		}
	}
	b.WriteByte('\n')
	for i, c := range e.Children {
		if i == len(e.Children)-1 {
			c.write(b, rest+"└─ ", rest+"   ")
		} else {
			c.write(b, rest+"├─ ", rest+"│  ")
		}
	}
}

// number renders an estimate: three digits are more than it is worth.
func number(f float64) string {
	for _, unit := range [...]struct {
		of   float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if f >= 0.9995*unit.of { // 999.5 is written as 1k
			return strconv.FormatFloat(f/unit.of, 'g', 3, 64) + unit.name
		}
	}
	if f >= 100 || f == math.Trunc(f) {
		return strconv.FormatFloat(math.Round(f), 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', 2, 64)
}

// Cost renders nanoseconds.
func Cost(ns float64) string {
	switch {
	case ns < 999.5:
		return strconv.FormatFloat(ns, 'f', 0, 64) + "ns"
	case ns < 999.5e3:
		return strconv.FormatFloat(ns/1e3, 'g', 3, 64) + "µs"
	case ns < 999.5e6:
		return strconv.FormatFloat(ns/1e6, 'g', 3, 64) + "ms"
	}
	return strconv.FormatFloat(ns/1e9, 'f', 1, 64) + "s"
}
