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

// typeNamed is a type as it is written.
func typeNamed(text string) syntax.TypeName {
	name, args, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	out := syntax.TypeName{Name: name}
	if args != "" {
		out.Args = strings.Split(args, ", ")
	}
	return out
}

// typeOfCast is the type of values of a CAST.
func typeOfCast(t expr.CastType) typ {
	whole := t.Bits == 0 || t.Bits == 64
	if whole && t.Kind != expr.KindTime && (t.Kind != expr.KindDecimal || t.Places < 0) {
		return plainType(typesOfKinds[t.Kind])
	}
	b := &binder{}
	name := typeNamed(t.String())
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
	if t := sc.typeOf(e); t.known() && (t.list || t.of != keycodec.TypeString) {
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
