package sql

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// Condition is a condition of the query language over values that have names and belong to no
// table, such as the members of a JSON object. It may be used concurrently.
type Condition struct {
	names   []string
	program expr.Program
}

// ParseCondition reads a condition, for example "people > 100000 AND name LIKE 'B%'". Names in it
// are those of the columns that are given, with their types, or else of values whose kinds are
// found out row by row; "a.b" is one name. The error is an *Error with the place.
func ParseCondition(text string, columns ...schema.Column) (*Condition, error) {
	tree, err := syntax.ParseExpr(text)
	if err != nil {
		return nil, err
	}
	b := &binder{asked: asked{text: text, params: params{final: true}}}
	t := &schema.Table{Columns: columns}
	sc := &scope{b: b, sel: &plan.Select{From: []plan.Source{{Table: t}}}, free: true,
		where: "a condition", parts: []part{{table: t}}}
	c := &Condition{}
	err = syntax.Caught(func() {
		bound := sc.expr(tree)
		if expr.Has(bound, isParam) {
			b.fail(tree.Position(), "a condition has neither parameters nor the time")
		}
		types := func(c expr.Column) expr.Type {
			return expr.Type{Kind: t.Columns[c.Ordinal].Kind()}
		}
		out, err := expr.CheckTypes(bound, types)
		if err == nil && out.Kind != expr.KindBool && out.Kind != expr.KindNull {
			b.fail(tree.Position(), "a condition is true or false, not %s", out.Kind.Phrase())
		}
		if err == nil {
			c.program, err = expr.Compile(bound)
		}
		if err != nil {
			sc.refuseTypes(tree.Position(), err)
		}
	})
	for _, column := range t.Columns {
		c.names = append(c.names, column.Name)
	}
	return c, err
}

func isParam(e expr.Expr) bool {
	_, ok := e.(expr.Param)
	return ok
}

// Names returns the names of the values that Test takes: the columns that were given, and after
// them the others of the condition.
func (c *Condition) Names() []string { return c.names }

// Test reports whether values, in the order of Names, meet the condition. The error says that
// they cannot be compared or computed with.
func (c *Condition) Test(values []expr.Value) (bool, error) {
	truth, err := c.program.Test(values, nil)
	return truth == expr.True && err == nil, err
}

// freeColumn returns the column of a name, which is added if it is new. Its case counts.
func (sc *scope) freeColumn(r *syntax.Ref) expr.Expr {
	name := r.Column
	if r.Table != "" {
		name = r.Table + "." + name
	}
	t := sc.parts[0].table
	at := t.Column(name)
	if at < 0 {
		at = len(t.Columns)
		t.Columns = append(t.Columns, schema.Column{Name: name, Nullable: true})
	}
	return expr.Column{Ordinal: at, Name: name, Collation: t.Columns[at].Collation}
}
