package sql

import (
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// castColumn returns a column of the type that a CAST names.
func (b *binder) castColumn(t *syntax.TypeName) *schema.Column {
	c := b.columnDef(&syntax.ColumnDef{Type: *t})
	return &c
}

// castBits are the integers and floats of CAST.
var castBits = map[keycodec.Type]int{
	keycodec.TypeInt64: 64, keycodec.TypeInt32: 32, keycodec.TypeInt16: 16, keycodec.TypeInt8: 8,
	keycodec.TypeUint64: 64, keycodec.TypeUint32: 32, keycodec.TypeUint16: 16,
	keycodec.TypeUint8: 8, keycodec.TypeFloat64: 64, keycodec.TypeFloat32: 32,
}

// castPlaces are those of the seconds of times.
var castPlaces = map[keycodec.Unit]int{keycodec.Second: 0, keycodec.Millisecond: 3,
	keycodec.Microsecond: 6, keycodec.Nanosecond: 9, keycodec.FullRange: 9,
	keycodec.Day: expr.PlacesOfDate}

// castType returns the type of a column for CAST; ok is false for lists.
func castType(c *schema.Column) (t expr.CastType, ok bool) {
	t = expr.CastType{Kind: c.Kind(), Bits: castBits[c.Type]}
	switch c.Type {
	case keycodec.TypeTime:
		t.Places = castPlaces[c.Unit]
	case keycodec.TypeDecimal:
		t.Places = -1
	case keycodec.TypeFixed:
		t.Places = int(c.Scale)
	}
	return t, !c.List
}

// castName is the type of a CAST as it is written.
func castName(t expr.CastType) syntax.TypeName {
	name, args, _ := strings.Cut(strings.TrimSuffix(t.String(), ")"), "(")
	out := syntax.TypeName{Name: name}
	if args != "" {
		out.Args = strings.Split(args, ", ")
	}
	return out
}

// typeOfCast is the type of values of a CAST.
func typeOfCast(t expr.CastType) typ {
	b := &binder{}
	name := castName(t)
	var out typ
	if syntax.Caught(func() { out = typeOfColumn(b.castColumn(&name)) }) != nil {
		return typ{}
	}
	return out
}

// collate gives a term of ORDER BY the collation that is written after it. A column that has it is
// left as it is, so that an index serves.
func (sc *scope) collate(o syntax.Order, e expr.Expr) expr.Expr {
	if o.Collation.Text == "" {
		return e
	}
	c, ok := collations[strings.ToLower(o.Collation.Text)]
	if !ok && !syntax.BinaryCollation(o.Collation.Text) {
		sc.b.fail(o.Collation.Pos, "COLLATE takes NOCASE (the letters A to Z), UNICODE or BINARY")
	}
	if t := sc.typeOf(e); t.known() && (t.list || t.column.Type != keycodec.TypeString) {
		sc.b.fail(o.Collation.Pos, "COLLATE is of texts, and %s is of type %s", e, t)
	}
	place := sc.b.place(o.Expr.Position())
	switch {
	case c == expr.CollationOf(e):
		return e
	case c == keycodec.CollateBytes:
		return sc.mark(expr.Cast{X: e, To: expr.CastType{Kind: expr.KindString}, Pos: place},
			o.Expr.Position())
	}
	name := expr.Const{Value: expr.String(c.String())}
	return sc.mark(expr.Func{Name: "casefold", Args: []expr.Expr{e, name}, Pos: place},
		o.Expr.Position())
}
