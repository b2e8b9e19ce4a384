package spans_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// world is a random key, with rows, and makes random predicates about them.
type world struct {
	r      *rand.Rand
	fields []keycodec.Field // of the columns of the table
	lists  []bool           // columns that are lists; none of the key but with each
	key    []int            // ordinals of the columns of the key
	rows   [][]expr.Value
	params []expr.Value
}

// newWorld makes a table of up to 4 columns; some are the key, in any order.
func newWorld(r *rand.Rand) *world {
	w := &world{r: r}
	for i := range 1 + r.IntN(4) {
		w.fields = append(w.fields, randomField(r, string(rune('a'+i))))
		w.lists = append(w.lists, r.IntN(12) == 0)
	}
	w.key = r.Perm(len(w.fields))[:1+r.IntN(len(w.fields))]
	for range 24 {
		row := make([]expr.Value, len(w.fields))
		for i := range row {
			row[i] = w.stored(i)
		}
		w.rows = append(w.rows, row)
	}
	return w
}

func randomField(r *rand.Rand, name string) keycodec.Field {
	types := []keycodec.Type{keycodec.TypeInt64, keycodec.TypeInt64, keycodec.TypeInt8,
		keycodec.TypeUint8, keycodec.TypeUint64, keycodec.TypeString, keycodec.TypeString,
		keycodec.TypeBytes, keycodec.TypeFloat64, keycodec.TypeFloat32, keycodec.TypeBool,
		keycodec.TypeTime, keycodec.TypeDecimal, keycodec.TypeFixed}
	f := keycodec.Field{Name: name, Type: types[r.IntN(len(types))], Desc: r.IntN(3) == 0,
		Nullable: r.IntN(2) == 0}
	f.NullsLast = f.Nullable && r.IntN(2) == 0
	switch f.Type {
	case keycodec.TypeTime:
		f.Unit = []keycodec.Unit{keycodec.Second, keycodec.Millisecond, keycodec.Nanosecond,
			keycodec.FullRange}[r.IntN(4)]
	case keycodec.TypeFixed:
		f.Scale = int32(r.IntN(3))
	case keycodec.TypeString:
		if r.IntN(4) == 0 {
			f.Collation = keycodec.CollateASCII
		}
	}
	return f
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(4) {
		b.WriteString(pick(r, "\x00", "a", "A", "b", "\xff"))
	}
	return b.String()
}

func randomNumber(r *rand.Rand) expr.Value {
	switch r.IntN(5) {
	case 0:
		return expr.Float(pick(r, math.NaN(), math.Copysign(0, -1), 0, 1.5, -2.5, 1, 2, 3, 0.1,
			math.Inf(1), math.Inf(-1), 1<<63, -1<<63, 1<<53, 1e300, math.MaxFloat32, 127.5))
	case 1:
		text := pick(r, "1.5", "2", "-0.25", "9223372036854775807.5", "1e30", "-1e30", "0.1",
			"3", "127.000001", "18446744073709551615", "9007199254740993", "0")
		d, _ := keycodec.ParseDecimal(text)
		return expr.Decimal(d)
	case 2:
		return expr.Uint(pick[uint64](r, 0, 1, 2, 3, 254, 255, 256, math.MaxInt64, math.MaxUint64))
	}
	return expr.Int(pick[int64](r, math.MinInt64, math.MinInt64+1, -129, -128, -1, 0, 1, 2, 3, 4, 5,
		126, 127, 128, 255, 1<<53+1, math.MaxInt64-1, math.MaxInt64))
}

func randomTime(r *rand.Rand) time.Time {
	return time.Unix(pick[int64](r, -1, 0, 1, 2), pick[int64](r, 0, 1, 1e6, 1_500_000, 999_999_999))
}

// constant returns a value that can be compared with those of a column, or with the
// elements of its lists; NULL at times.
func (w *world) constant(i int) expr.Value {
	switch {
	case w.r.IntN(16) == 0:
		return expr.Null()
	case w.r.IntN(4) == 0 && !w.lists[i]:
		return w.rows[w.r.IntN(len(w.rows))][i]
	}
	return w.scalar(i)
}

// scalar returns a value of the kind of a column, which may not be able to hold it.
func (w *world) scalar(i int) expr.Value {
	switch w.fields[i].Type {
	case keycodec.TypeString:
		return expr.String(randomText(w.r))
	case keycodec.TypeBytes:
		return expr.BytesOf(randomText(w.r))
	case keycodec.TypeBool:
		return expr.Bool(w.r.IntN(2) == 0)
	case keycodec.TypeTime:
		return expr.Time(randomTime(w.r))
	}
	return randomNumber(w.r)
}

// stored returns a value that the column can hold, written and read again.
func (w *world) stored(i int) expr.Value {
	if w.lists[i] {
		if w.r.IntN(8) == 0 {
			return expr.Null()
		}
		elements := make([]expr.Value, w.r.IntN(4))
		for e := range elements {
			elements[e] = w.element(i)
		}
		return expr.List(elements)
	}
	if w.fields[i].Nullable && w.r.IntN(5) == 0 {
		return expr.Null()
	}
	return w.element(i)
}

func (w *world) element(i int) expr.Value {
	f := w.fields[i]
	f.Collation = keycodec.CollateBytes // the text itself is stored
	for {
		v := w.scalar(i)
		b, err := f.Append(nil, goValue(v, f.Type))
		if err != nil {
			continue
		}
		stored, _, err := f.Decode(b)
		if err != nil {
			continue
		}
		out, _ := expr.From(stored)
		return out
	}
}

// goValue returns a value as the Go type that keycodec takes for a column.
func goValue(v expr.Value, t keycodec.Type) any {
	switch t {
	case keycodec.TypeFloat32, keycodec.TypeFloat64:
		if f, ok := v.AsFloat(); ok {
			return f
		}
	case keycodec.TypeDecimal, keycodec.TypeFixed:
		if d, ok := v.AsDecimal(); ok {
			return d
		}
	case keycodec.TypeUint8, keycodec.TypeUint64:
		if u, ok := v.AsUint(); ok {
			return u
		}
	case keycodec.TypeInt8, keycodec.TypeInt64:
		if i, ok := v.AsInt(); ok {
			return i
		}
	}
	return v.Any()
}

func (w *world) column(i int) expr.Column {
	return expr.Column{Ordinal: i, Name: w.fields[i].Name, Collation: w.fields[i].Collation}
}

// literal returns a constant, or a parameter of that value.
func (w *world) literal(v expr.Value) expr.Expr {
	if w.r.IntN(3) == 0 {
		w.params = append(w.params, v)
		return expr.Param{Index: len(w.params) - 1}
	}
	return expr.Const{Value: v}
}

func (w *world) operand(i int) expr.Expr { return w.literal(w.constant(i)) }

// predicate returns a random tree of at most depth levels of AND, OR and NOT.
func (w *world) predicate(depth int) expr.Expr {
	if depth == 0 || w.r.IntN(4) == 0 {
		return w.atom()
	}
	switch w.r.IntN(5) {
	case 0:
		return expr.Not{X: w.predicate(depth - 1)}
	case 1, 2:
		return expr.And{Terms: w.predicates(depth - 1)}
	}
	return expr.Or{Terms: w.predicates(depth - 1)}
}

func (w *world) predicates(depth int) []expr.Expr {
	terms := make([]expr.Expr, 1+w.r.IntN(3))
	if w.r.IntN(40) == 0 {
		terms = make([]expr.Expr, 16+w.r.IntN(8)) // wide enough for a sweep
		depth = min(depth, 1)
	}
	for i := range terms {
		terms[i] = w.predicate(depth)
	}
	return terms
}

func (w *world) atom() expr.Expr {
	i := w.r.IntN(len(w.fields))
	c := w.column(i)
	if w.lists[i] {
		if w.r.IntN(8) == 0 {
			return expr.IsNull{X: c, Not: w.r.IntN(2) == 0}
		}
		return expr.Contains{X: c, Item: w.operand(i)}
	}
	op := expr.Op(w.r.IntN(6))
	isText := w.fields[i].Type == keycodec.TypeString || w.fields[i].Type == keycodec.TypeBytes
	switch k := w.r.IntN(12); {
	case k == 0:
		return expr.In{X: c, List: w.operands(i), Not: w.r.IntN(2) == 0}
	case k == 1:
		return expr.Between{X: c, Lo: w.operand(i), Hi: w.operand(i), Not: w.r.IntN(3) == 0}
	case k == 2:
		return expr.IsNull{X: c, Not: w.r.IntN(2) == 0}
	case k <= 5 && isText:
		return w.textAtom(i)
	case k == 3:
		return w.rowAtom(op)
	case k == 4:
		return expr.Cmp{Op: op, L: w.operand(i), R: c}
	case k == 5 && w.fields[i].Type == keycodec.TypeBool:
		return c
	case k == 6:
		return w.oddAtom(i, op)
	}
	return expr.Cmp{Op: pick(w.r, op, expr.Eq), L: c, R: w.operand(i)}
}

// oddAtom is one that spans know nothing about, or a constant.
func (w *world) oddAtom(i int, op expr.Op) expr.Expr {
	c := w.column(i)
	switch w.r.IntN(4) {
	case 0:
		return expr.Cmp{Op: op, L: c, R: c}
	case 1:
		return w.literal(pick(w.r, expr.Null(), expr.Bool(true), expr.Bool(false)))
	case 2:
		sum := expr.Arith{Op: expr.Add, L: expr.Const{Value: expr.Int(1)},
			R: expr.Const{Value: expr.Int(2)}}
		return expr.Cmp{Op: op, L: sum, R: w.literal(expr.Int(int64(w.r.IntN(5))))}
	}
	j := w.r.IntN(len(w.fields))
	if w.lists[j] || w.fields[i].Type != w.fields[j].Type ||
		w.fields[i].Collation != w.fields[j].Collation {
		return expr.IsNull{X: c}
	}
	return expr.Cmp{Op: op, L: c, R: w.column(j)}
}

func (w *world) operands(i int) []expr.Expr {
	list := make([]expr.Expr, 1+w.r.IntN(4))
	for k := range list {
		list[k] = w.operand(i)
	}
	return list
}

func (w *world) textAtom(i int) expr.Expr {
	c := w.column(i)
	if w.fields[i].Type == keycodec.TypeBytes {
		return expr.BeginsWith{X: c, Prefix: w.literal(expr.BytesOf(randomText(w.r)))}
	}
	if w.r.IntN(2) == 0 {
		return expr.BeginsWith{X: c, Prefix: w.literal(expr.String(randomText(w.r)))}
	}
	// The evaluator of the test knows no broken UTF-8 in patterns.
	pattern := strings.ReplaceAll(randomText(w.r), "\xff", "%")
	return expr.Like{X: c, Pattern: w.literal(expr.String(pattern + pick(w.r, "", "%", "%"))),
		Not: w.r.IntN(3) == 0}
}

// rowAtom compares rows, or asks for a row in a list of them.
func (w *world) rowAtom(op expr.Op) expr.Expr {
	var columns []int
	for _, i := range w.r.Perm(len(w.fields)) {
		if !w.lists[i] && len(columns) < 3 {
			columns = append(columns, i)
		}
	}
	row := func(item func(i int) expr.Expr) expr.Expr {
		items := make([]expr.Expr, 0, len(columns))
		for _, i := range columns {
			items = append(items, item(i))
		}
		return expr.Row{Items: items}
	}
	left := row(func(i int) expr.Expr { return w.column(i) })
	if w.r.IntN(3) > 0 {
		return expr.Cmp{Op: op, L: left, R: row(w.operand)}
	}
	in := expr.In{X: left, Not: w.r.IntN(3) == 0}
	for range 1 + w.r.IntN(3) {
		in.List = append(in.List, row(w.operand))
	}
	return in
}
