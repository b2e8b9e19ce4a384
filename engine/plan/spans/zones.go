package spans

import (
	"bytes"
	"strings"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Zones are about the columns that keys do not select by. What a predicate demands of one column
// alone are spans of a key of that column, so they follow from the same rules as spans of an
// index: a value outside of them makes the predicate not true, whatever the other columns are.
// A block is left out if, for one of the columns, all of its values and NULLs are outside.

// maxZoneSpans bounds the spans of a column. Why few: each is compared with each block.
const maxZoneSpans = 16

// ZoneTemplate is a predicate on rows that is ready to be turned into one on column zones. It may
// be used concurrently.
type ZoneTemplate struct {
	table  *schema.Table
	index  *schema.Index // whose entries they are; nil: rows
	source int
	pred   expr.Expr
	not    []int // ordinals of columns that are left out

	once    sync.Once
	columns []zoneTemplate
}

// zoneTemplate is what the predicate demands of a column.
type zoneTemplate struct {
	id       uint64
	key      Key
	template *Template
}

// CompileZones returns the template of a predicate, normalised by NormaliseFor, on rows of the
// table, which stands at source in FROM, or on entries of an index of it, if x is not nil. Columns
// among not are left out.
func CompileZones(t *schema.Table, x *schema.Index, source int, pred expr.Expr, not []int,
) *ZoneTemplate {
	return &ZoneTemplate{table: t, index: x, source: source, pred: pred, not: not}
}

// compile makes the templates of the columns when they are first needed.
func (z *ZoneTemplate) compile() {
	var used schema.ColumnSet
	for c := range expr.Columns(z.pred) {
		if c.Source == z.source && c.Ordinal >= 0 {
			used.Add(c.Ordinal)
		}
	}
	for _, o := range z.not {
		used = used.Without(schema.Columns(o))
	}
	for o := range used.All() {
		c := &z.table.Columns[o]
		if z.index == nil && !z.table.HasZone(o) || z.index != nil && !z.index.HasZone(o) {
			continue
		}
		key := Key{Fields: []keycodec.Field{c.Field(schema.KeyColumn{})}, Ordinals: []int{o},
			Source: z.source}
		t := Compile(key, z.about(o))
		if t.nodes[t.root].mask&1 != 0 {
			z.columns = append(z.columns, zoneTemplate{uint64(c.ID), key, t})
		}
	}
}

// about returns the terms of the predicate that a column is in: the others say nothing about it.
func (z *ZoneTemplate) about(ordinal int) expr.Expr {
	var terms []expr.Expr
	for _, t := range expr.Terms(nil, z.pred) {
		if expr.Has(t, func(e expr.Expr) bool {
			c, ok := e.(expr.Column)
			return ok && c.Source == z.source && c.Ordinal == ordinal
		}) {
			terms = append(terms, t)
		}
	}
	return expr.AllOf(terms)
}

// Zones is the predicate on column zones that a template is for some parameters. It is bound when
// the first block is met: short queries meet none. The zero Zones accepts all. Its memory is used
// again. It may be used concurrently, but for Set and Reset.
type Zones struct {
	template *ZoneTemplate // nil: all are accepted
	params   []expr.Value
	once     sync.Once // of bind
	group    uint64
	entries  bool // of an index
	columns  []zoneSpans
	buf      []byte
}

// Set makes it the zones of a template, and keeps the parameters. Requires: z is zero or Reset.
func (z *Zones) Set(t *ZoneTemplate, params []expr.Value) { z.template, z.params = t, params }

// zoneSpans is what values of a column have to be in.
type zoneSpans struct {
	id    uint64
	key   *Key
	spans []Span
}

// Bind binds it, if it is not bound yet, and reports whether it can leave out anything.
func (z *Zones) Bind() bool {
	z.once.Do(z.bind)
	return len(z.columns) > 0
}

func (z *Zones) bind() {
	t := z.template
	if t == nil {
		return
	}
	t.once.Do(t.compile)
	if len(t.columns) == 0 {
		return
	}
	if z.group, z.entries = t.table.ZoneGroup(), t.index != nil; z.entries {
		z.group = t.index.ZoneGroup()
	}
	b := NewBuilder()
	defer b.Release()
	for i := range t.columns {
		c := &t.columns[i]
		z.add(c, b.BuildRanges(c.template, z.params, maxZoneSpans))
	}
}

// add copies the spans of a column, unless they are all values. Neighbours become one: what is
// tested of their rows is of no interest.
func (z *Zones) add(c *zoneTemplate, set Set) {
	if n := len(z.columns); n < cap(z.columns) {
		z.columns = z.columns[:n+1]
	} else {
		z.columns = append(z.columns, zoneSpans{})
	}
	out := &z.columns[len(z.columns)-1]
	out.id, out.key, out.spans = c.id, &c.key, out.spans[:0]
	for _, s := range set.Spans {
		if s.Hi != nil {
			s.Hi = z.keep(s.Hi)
		}
		if n := len(out.spans); n > 0 && bytes.Equal(out.spans[n-1].Hi, s.Lo) {
			out.spans[n-1].Hi, out.spans[n-1].Points = s.Hi, 0
			continue
		}
		s.Lo, s.Residual = z.keep(s.Lo), nil
		out.spans = append(out.spans, s)
	}
	if out.all() {
		z.columns = z.columns[:len(z.columns)-1]
	}
}

// all reports whether every value and NULL is in the spans.
func (c *zoneSpans) all() bool {
	if len(c.spans) != 1 {
		return false
	}
	null, lo, hi, values := true, c.spans[0].Lo, c.spans[0].Hi, true
	if c.key.Fields[0].Nullable {
		null, lo, hi, values = cutMarkers(&c.spans[0])
	}
	return null && values && len(lo) == 0 && hi == nil
}

// keep returns a copy. It is not nil.
func (z *Zones) keep(b []byte) []byte {
	from := len(z.buf)
	z.buf = append(z.buf, b...)
	if z.buf == nil {
		z.buf = []byte{}
	}
	return z.buf[from:len(z.buf):len(z.buf)]
}

// Reset makes it accept all, and keeps its memory.
func (z *Zones) Reset() {
	columns, buf := z.columns[:0], z.buf[:0]
	if *z = (Zones{}); cap(buf) <= MaxKeptScratch {
		z.columns, z.buf = columns, buf
	}
}

// MayHold reports whether rows, or entries, with these zones may satisfy the predicate. Why it asks
// for other items: entries were among them before they had zones of their own.
func (z *Zones) MayHold(zones zone.Columns) bool {
	z.Bind()
	if z.entries {
		if _, none := zones.Column(schema.OtherItems, 0); !none {
			return true
		}
	}
	for i := range z.columns {
		c := &z.columns[i]
		if zone, known := zones.Column(z.group, c.id); known && !c.meets(&zone) {
			return false
		}
	}
	return true
}

// meets reports whether a value or a NULL of the zone may be in the spans.
func (c *zoneSpans) meets(zone *zone.Column) bool {
	nullable := c.key.Fields[0].Nullable
	for i := range c.spans {
		s := &c.spans[i]
		if !nullable {
			if zone.Between(s.Lo, s.Hi) {
				return true
			}
			continue
		}
		null, lo, hi, values := cutMarkers(s)
		if null && zone.Nulls || values && zone.Between(lo, hi) {
			return true
		}
	}
	return false
}

// cutMarkers divides a span of a nullable column: whether NULL is in it, and the bounds of the
// values in it, without the marker of values, if there can be any.
func cutMarkers(s *Span) (null bool, lo, hi []byte, values bool) {
	const marker = 1 // of values; NULL is below
	lo, hi, values = s.Lo, s.Hi, true
	switch {
	case len(lo) == 0 || lo[0] < marker:
		null, lo = hi == nil || len(hi) > 0 && bytes.Compare(lo, hi) < 0, nil
	case lo[0] == marker:
		lo = lo[1:]
	default:
		values = false
	}
	switch {
	case hi == nil || len(hi) > 0 && hi[0] > marker:
		hi = nil
	case len(hi) <= 1 || hi[0] < marker:
		values = false
	default:
		hi = hi[1:]
	}
	return null, lo, hi, values
}

// shownZoneSpans is how many spans of a column String writes out.
const shownZoneSpans = 4

// String returns the predicate as conditions: empty if it can leave out nothing.
func (z *Zones) String() string {
	z.Bind()
	var columns []string
	for i := range z.columns {
		c := &z.columns[i]
		var texts []string
		for j, s := range c.spans {
			if j == shownZoneSpans {
				texts = append(texts, "…")
				break
			}
			texts = append(texts, c.key.Condition(s).String())
		}
		text := strings.Join(texts, " OR ")
		switch {
		case len(texts) == 0:
			return "FALSE"
		case len(texts) > 1 && len(z.columns) > 1:
			text = "(" + text + ")"
		}
		columns = append(columns, text)
	}
	return strings.Join(columns, " AND ")
}
