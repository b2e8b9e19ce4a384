package suite_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine"
)

// drawer draws operations and options. All random tests here draw with it, so that what one of
// them can meet all can.
type drawer struct {
	*rand.Rand
	large bool // values that fill log segments
	plain bool // short keys only
	// registers, if not nil, are the keys instead of those below. What is read then is all of
	// what an operation selects.
	registers []string
}

// Keys come from a small space, so that programs meet them again, with zero and FF bytes and
// prefixes of each other among them. Now and then one is as long as can be, or nearly: runs of one
// byte, which are the longest in ordered form and have nothing after them, and keys that differ in
// their last byte alone.
var (
	parts = []string{
		"a", "b", `a\x00`, `a\x00\x01`, `\xff`, `\xff\xff`, "user#1", "user#2", "user#10", "c", "d",
	}
	// sorts begin with "", for no sort key.
	sorts = []string{
		"", `\x00`, "a", "aa", "ab", "b", `\xff`, `\xff\xff`, "k1", "k10", "k2", `\x00\x01`,
		"post#1", "post#2",
	}
	longParts = []string{`\x00~0`, `\x00~1`, `\xff~0`, "k~0"}
	longSorts = []string{
		`\x00~0`, `\xff~0`, `\xff~1`, "k~0", `k~1\x00`, `k~1\xff`, `k~20480\x01`, `k~20480\x02`,
	}
)

// longKeyOneIn, longOperandOneIn and besideLongestOneIn are how rare long keys are: as keys, as
// bounds of ranges, and as the only bound of one. Why so rare: each is as much as a thousand
// others.
const longKeyOneIn, longOperandOneIn, besideLongestOneIn = 24, 6, 6

// oneIn is true one time in n.
func (d drawer) oneIn(n int) bool { return d.IntN(n) == 0 }

func (d drawer) of(short, long []string, oneIn int) string {
	if !d.plain && d.oneIn(oneIn) {
		return long[d.IntN(len(long))]
	}
	return short[d.IntN(len(short))]
}

func (d drawer) part() string {
	if d.registers != nil {
		pk, _, _ := strings.Cut(d.key(), "/")
		return pk
	}
	return d.of(parts, longParts, longKeyOneIn)
}

func (d drawer) key() string {
	if d.registers != nil {
		return d.registers[d.IntN(len(d.registers))]
	}
	if sk := d.of(sorts, longSorts, longKeyOneIn); sk != "" {
		return d.part() + "/" + sk
	}
	return d.part()
}

func (d drawer) keys(most int) string {
	names := make([]string, 1+d.IntN(most))
	for i := range names {
		names[i] = d.key()
	}
	return strings.Join(names, ",")
}

// bounds draws two keys, seldom only one or none.
func (d drawer) bounds() (from, to string) {
	if d.registers == nil && d.oneIn(16) {
		return "", []string{"", d.key()}[d.IntN(2)]
	}
	if from = d.key(); !d.oneIn(8) {
		return from, d.key()
	}
	if n := len(d.registers); n > 0 { // others than those are not the caller's
		to = d.registers[n-1] + "s"
	}
	return from, to
}

func (d drawer) sortCondition() string {
	if d.oneIn(5) {
		return ""
	}
	if d.registers != nil {
		return []string{"begins:r", "between:a:z", "less:z"}[d.IntN(3)]
	}
	operand := func() string { return d.of(sorts[1:], longSorts, longOperandOneIn) }
	if !d.plain && d.oneIn(besideLongestOneIn) { // a range begins or ends right beside a key
		return d.choose("greater", "most", "least", "less") + ":" + d.choose(longSorts...)
	}
	text := d.choose(sortKinds...) + ":" + operand()
	if strings.HasPrefix(text, "between") || strings.HasPrefix(text, "range") {
		text += ":" + operand()
	}
	return text
}

// spans draws ascending ranges of sort keys that do not overlap.
func (d drawer) spans() string {
	if d.oneIn(3) || d.registers != nil {
		return ""
	}
	var edges, spans []string
	for range 2 * d.IntN(4) {
		edges = append(edges, d.of(sorts[1:], longSorts, longOperandOneIn))
	}
	slices.SortFunc(edges, func(a, b string) int { return bytes.Compare(part(a), part(b)) })
	for i := 0; i < len(edges); i += 2 {
		spans = append(spans, edges[i]+":"+edges[i+1])
	}
	if n := len(spans); n > 0 && d.oneIn(3) {
		spans[n-1] = edges[2*n-2] + ":*"
	}
	return strings.Join(spans, ",")
}

func (d drawer) pick(of ...int) int { return of[d.IntN(len(of))] }

func (d drawer) choose(of ...string) string { return of[d.IntN(len(of))] }

// options draws options at their bounds, each by itself, so that all combinations occur.
func (d drawer) options() engine.Options {
	codec := func() engine.Compression {
		return []engine.Compression{
			engine.DefaultCompression, engine.NoCompression, engine.LZ4, engine.Zstd,
			engine.Snappy,
		}[d.IntN(5)]
	}
	o := engine.Options{
		Durability:    engine.Sync + engine.Durability(d.IntN(2)),
		FlushRecords:  d.pick(0, 1, 2, 7, 20),
		MemtableBytes: int64(d.pick(1<<20, 64<<20)), BlockBytes: d.pick(1<<10, 16<<10, 1<<20),
		FileBytes:   []int64{64 << 10, 256 << 10, 64 << 20, 4 << 30}[d.IntN(4)],
		CacheBytes:  int64(d.pick(1, 256<<10, 64<<20)),
		Compression: codec(), BottomCompression: codec(),
		FilterBits: d.pick(0, 8, 16, engine.NoFilter), MaxRuns: d.pick(2, 3, 8),
		MaxOpenFiles: d.pick(16, 4096), LargeValue: d.pick(0, 1, 6, engine.NoLargeValue),
	}
	o.LogBytes = []int64{8 << 20, 3 * max(o.MemtableBytes, 4<<20)}[d.IntN(2)]
	return o
}

// weights say how often each kind of operation comes in a program. Zero ones come in the commits
// of others, or where a test puts them.
var weights = map[string]int{
	"put": 50, "delete": 15, "delete-range": 6, "delete-scan": 2, "insert-new": 3, "batch": 15,
	"update": 10, "view": 3, "get": 25, "many": 3, "new": 3, "query": 18,
	"iterate": 5, "scan": 8, "gather": 8, "snapshot": 4,
	"drop": 3, "property": 2, "flush": 3, "sync": 1, "compact": 1, "checkpoint": 1, "verify": 1,
	"reopen": 2, "read-only": 1, "crash": 2, "clock": 6, "metrics": 2,
	"require": -1,                            // in batches only
	"save":    -1, "undo": -1, "release": -1, // in transactions only
}

var (
	maintenance = []string{"flush", "compact", "property", "checkpoint"}
	allKinds    = drawn(func(string) bool { return true })
	writeKinds  = drawn(func(kind string) bool {
		return slices.Contains([]string{
			"put", "delete", "delete-range", "delete-scan", "insert-new", "batch", "update",
		}, kind)
	})
	// txKinds are parts of a transaction, batchKinds of a batch.
	txKinds = drawn(func(kind string) bool {
		return slices.Contains([]string{
			"put", "delete", "delete-range", "delete-scan", "get", "many", "query", "scan",
			"gather", "iterate",
		}, kind)
	})
	savepointKinds = append(slices.Repeat([]string{"save", "undo"}, 25), "release")
	viewKinds      = []string{"get", "many", "query", "scan", "gather", "iterate"}
	batchKinds     = append(drawn(func(kind string) bool {
		return slices.Contains([]string{"put", "delete", "delete-range", "delete-scan"}, kind)
	}), "require")
)

// drawn returns kinds, each as often as its weight.
func drawn(these func(kind string) bool) (kinds []string) {
	for kind, weight := range weights {
		if these(kind) {
			kinds = append(kinds, slices.Repeat([]string{kind}, max(0, weight))...)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// program draws operations of these kinds.
func (d drawer) program(kinds []string, n int) []op {
	ops := make([]op, n)
	for i := range ops {
		ops[i] = d.op(kinds[d.IntN(len(kinds))])
	}
	return ops
}

// op draws the arguments of an operation.
func (d drawer) op(kind string) op {
	o := op{Kind: kind}
	switch kind {
	case "insert-new", "many", "new":
		o.Key, o.Bytes, o.Level = d.keys(20), d.IntN(100), d.level()
	case "batch":
		o.Level, o.Ops = d.level(), d.program(batchKinds, 1+d.IntN(15))
		for i := range o.Ops {
			if o.Ops[i].If != "" && !d.oneIn(10) { // so that most batches hold
				o.Ops[i].If = "fits"
			}
		}
	case "update":
		o.Level, o.Retry, o.Rollback = d.level(), d.oneIn(2), d.oneIn(4)
		kinds := txKinds
		if d.registers == nil { // histories do not know parts of transactions
			o.Way, kinds = d.IntN(2), slices.Concat(txKinds, txKinds, savepointKinds)
		}
		o.Ops = d.program(kinds, 1+d.IntN(8))
	case "view":
		o.Ops = d.program(viewKinds, 1+d.IntN(3))
	case "clock":
		o.TTL = 1 + d.IntN(40)
	case "drop", "undo", "release":
		o.Snapshot = 1 + d.IntN(4)
	case "property":
		o.Bytes = d.IntN(100)
	case "checkpoint":
		o.Temporary, o.Reverse = true, d.oneIn(2)
	case "crash":
		o.Kill, o.Keep, o.Seed = d.oneIn(2), []float64{0, 0.1, 0.5, 0.9, 1}[d.IntN(5)], d.Uint64()
	case "put", "delete", "require", "delete-range", "delete-scan":
		d.write(&o)
	case "save":
	case "compact":
		if o.Partial = d.oneIn(3); o.Partial {
			o.Key = d.part()
		}
	default:
		d.read(&o)
	}
	return o
}

func (d drawer) level() string { return []string{"", "sync", "process"}[d.IntN(3)] }

func (d drawer) write(o *op) {
	o.Key, o.Level = d.key(), d.level()
	switch o.Kind {
	case "delete-range":
		o.Key, o.SK = d.part(), d.sortCondition()
		return
	case "delete-scan":
		o.Key = ""
		o.From, o.To = d.bounds()
		return
	case "put":
		o.Bytes = d.pick(0, 5, 60, 60, 60, 300, 3000)
		o.Empty = d.registers == nil && d.oneIn(8)
		if d.oneIn(100) {
			o.Bytes = 70_000
		}
		if d.large && d.oneIn(2) {
			o.Bytes = d.IntN(200 << 10)
		}
		if d.registers != nil && d.oneIn(4) {
			o.TTL = d.pick(-1, 1)
		} else if d.oneIn(4) {
			o.TTL, o.Way = d.IntN(50)-1, d.IntN(2)
		}
	}
	if d.oneIn(4) || o.Kind == "require" {
		o.If = conditions[d.IntN(len(conditions))]
	}
}

func (d drawer) read(o *op) {
	o.Reverse, o.Way = d.oneIn(2), d.IntN(5)
	if d.oneIn(3) {
		o.Snapshot = 1 + d.IntN(4)
	}
	switch o.Kind {
	case "get":
		o.Key = d.key()
	case "query":
		o.Key, o.SK, o.Since = d.part(), d.sortCondition(), d.since()
	case "iterate":
		o.Seed, o.Since = d.Uint64()>>32, d.since()
		if d.oneIn(2) {
			o.Key, o.SK = d.part(), d.sortCondition()
		}
		if o.SK == "" {
			o.From, o.To = d.bounds()
			o.FromExcluded, o.ToIncluded = d.oneIn(2), d.oneIn(2)
			o.Key = ""
		}
	case "gather":
		o.Key, o.Unordered = d.keys(8), d.oneIn(3)
		o.SK = d.spans()
		o.Each = d.oneIn(3)
	case "scan":
		o.Since = d.since()
		o.Unordered = d.oneIn(3)
		if d.oneIn(2) {
			o.From, o.To = d.bounds()
			o.FromExcluded, o.ToIncluded = d.oneIn(2), d.oneIn(2)
		}
		if d.oneIn(4) {
			o.Segments = d.pick(1, 2, 3, 256)
		}
	}
	if d.registers != nil {
		return
	}
	if d.oneIn(2) {
		o.Limit, o.Pages = 1+d.IntN(12), d.oneIn(3)
	}
	if start := d.key(); d.oneIn(3) && o.Kind == "gather" {
		o.From = start
	} else if o.Kind == "scan" && !o.Unordered && d.oneIn(3) {
		o.Key = start
	}
	o.Filter, o.Zones = d.oneIn(3), !d.oneIn(4)
}

// since draws a snapshot whose items a scan leaves out, 0 for none.
func (d drawer) since() int {
	if d.registers != nil || !d.oneIn(4) {
		return 0
	}
	return 1 + d.IntN(4)
}
