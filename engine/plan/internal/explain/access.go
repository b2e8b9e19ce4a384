package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// shownSpans is how many spans EXPLAIN writes out.
const shownSpans = 4

// parallelCost is the cost from which on several goroutines may read an access: an execution starts
// them when one has read some hundred items.
const parallelCost = 100e3

// accessText describes an access.
type accessText struct{ *operator.Access }

func (n accessText) describe(e *Explanation, parallel bool) {
	e.Operator = n.what()
	switch {
	case n.Index != nil:
		e.attr("index", indexText(n.Index))
	case n.Table.Sharded():
		e.attr("key", keyText(n.Table.Primary()))
	}
	if n.Probe != nil {
		e.attr("probe", n.probeText())
		e.attrIf(n.Probe.Unique, "at most one row each", "")
	} else {
		n.describeSpans(e)
	}
	e.attrIf(len(n.Order) > 0, "order", n.orderText())
	e.attrIf(n.Merge, "merge", fmt.Sprintf("%d streams", len(n.Streams)))
	e.attrIf(n.Reverse, "reverse", "")
	e.attrIf(n.Skip != nil, "skip scan", n.skipText())
	if n.Filter != nil {
		e.attr("filter", n.Filter.String())
	}
	if n.Index != nil {
		if n.Covering {
			e.attr("covering", "")
		} else {
			e.attr("fetch rows", "")
		}
	}
	if n.Residual != nil {
		e.attr("row filter", n.Residual.String())
	}
	if n.Zones != nil {
		text := n.Zones.String()
		e.attrIf(text != "", "zones", text)
	}
	e.attrIf(len(n.Extremes) > 0, "extremes", n.extremesText())
	e.attrIf(n.KeysOnly, "keys only", "")
	e.attrIf(parallel && n.Expected.Cost >= parallelCost, "parallel", "")
	e.attrIf(n.Limit >= 0, "limit", strconv.FormatInt(n.Limit, 10))
}

func (n accessText) what() string {
	var what string
	switch {
	case n.Point && n.Index == nil:
		what = "point get"
	case n.Point:
		what = "index point get"
	case n.FullScan && n.Spans.Empty() && !n.Deferred:
		what = "no scan"
	case n.FullScan && n.Index == nil:
		what = "FULL SCAN"
	case n.FullScan:
		what = "FULL SCAN of index"
	case n.Index == nil && n.Probe != nil:
		what = "row lookup"
	case n.Index == nil:
		what = "row scan"
	case n.Probe != nil:
		what = "index lookup"
	default:
		what = "index scan"
	}
	return what + " " + n.Name
}

// indexText names an index and its columns: by_seq (tidb:256(seq), seq, at DESC).
func indexText(x *schema.Index) string {
	text := x.Name + " " + keyText(x)
	if x.Unique {
		text = "unique " + text
	}
	if x.Placement == schema.Local {
		text = "local " + text
	}
	return text
}

// keyText names the columns of an index.
func keyText(x *schema.Index) string {
	fields := x.Fields()
	var parts []string
	if x.Sharded() {
		names := make([]string, max(1, x.ShardColumns))
		for i := range names {
			names[i] = fields[i].Name
		}
		parts = append(parts, x.Shard.String()+"("+strings.Join(names, ", ")+")")
	}
	for i, f := range fields {
		name := f.Name
		if x.Columns[i].Each {
			name += "[]"
		}
		parts = append(parts, name+Direction(f.Desc, f.NullsLast && f.Nullable))
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func (n accessText) probeText() string {
	terms := make([]string, len(n.Probe.Exprs))
	for i, x := range n.Probe.Exprs {
		terms[i] = n.Key.Fields[i].Name + " = " + x.String()
	}
	return strings.Join(terms, " AND ")
}

func (n accessText) describeSpans(e *Explanation) {
	x := n.Spread()
	switch {
	case n.Deferred:
		e.attr("spans", "known when it is run")
		return
	case n.Spans.Empty():
		e.attr("nothing", "the condition is never true")
		return
	case x != nil && x.Sharded() && !n.Spans.Whole():
		e.attr("spans", n.spansText(true))
	case n.Spans.Whole():
		e.attr("spans", "all")
	default:
		e.attr("spans", n.spansText(false))
	}
	e.attrIf(n.Spans.Truncated, "spans truncated", "")
	if x == nil {
		e.attr("stripes", fmt.Sprintf("%d/%d", n.stripesRead(), estimate.Stripes))
	} else if total := x.Buckets(); total > 1 {
		e.attr("buckets", fmt.Sprintf("%d/%d", n.bucketsRead(), total))
	}
}

// spansText writes the first spans as conditions; with the buckets as one would have to write
// them by hand for an index that has the bucket as its first column.
func (n accessText) spansText(buckets bool) string {
	var texts []string
	for i, s := range n.Spans.Spans {
		switch {
		case i == shownSpans:
			texts = append(texts, fmt.Sprintf("… (%d)", len(n.Spans.Spans)))
			return strings.Join(texts, "; ")
		case buckets:
			one := spans.Set{Spans: []spans.Span{s}}
			texts = append(texts, spans.Rewrite(n.Spread(), one))
		default:
			texts = append(texts, n.Key.Condition(s).String())
		}
	}
	return strings.Join(texts, "; ")
}

func (n accessText) bucketsRead() int {
	seen := map[int]bool{}
	for _, s := range n.Streams {
		seen[s.Bucket] = true
	}
	return len(seen)
}

func (n accessText) stripesRead() int {
	seen := map[uint8]bool{}
	for _, s := range n.Streams {
		if s.PK == nil {
			return estimate.Stripes
		}
		seen[keycodec.Stripe(s.PK)] = true
	}
	return len(seen)
}

func (n accessText) orderText() string {
	texts := make([]string, 0, len(n.Order))
	for _, o := range n.Order {
		c := expr.Column{Name: n.Table.Columns[o.Ordinal].Name}
		texts = append(texts, c.String()+Direction(o.Desc, o.NullsLast))
	}
	return strings.Join(texts, ", ")
}

func (n accessText) skipText() string {
	if n.Skip == nil {
		return ""
	}
	names := make([]string, n.Skip.Columns)
	for i := range names {
		names[i] = n.Key.Fields[i].Name
	}
	text := "each " + strings.Join(names, ", ")
	if n.Skip.Ranges == nil {
		return text + ", one entry"
	}
	rest := n.Key
	rest.Fields, rest.Ordinals = rest.Fields[n.Skip.Columns:], rest.Ordinals[n.Skip.Columns:]
	for i, s := range n.Skip.Spans.Spans {
		if i == shownSpans {
			return text + fmt.Sprintf("; … (%d)", len(n.Skip.Spans.Spans))
		}
		text += "; " + rest.Condition(s).String()
	}
	return text
}

// extremesText names the values that are wanted alone.
func (n accessText) extremesText() string {
	var texts []string
	for _, x := range n.Extremes {
		name := map[bool]string{false: "MIN", true: "MAX"}[x.Max]
		texts = append(texts, name+"("+n.Table.Columns[x.Ordinal].Name+")")
	}
	return strings.Join(texts, ", ")
}
