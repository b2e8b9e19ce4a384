package syntax

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Format returns the statement in one line, in canonical form: keywords in upper case,
// names in quotes only where they need them, parentheses around every operation inside
// another but for chains like a + b + c. Parse reads it as the same statement.
func Format(s Statement) string {
	var f formatter
	f.statement(s)
	return f.String()
}

// FormatScript returns the statements, each with a semicolon and a line break after it;
// CREATE TABLE gets a line for each of its parts.
func FormatScript(statements ...Statement) string {
	f := formatter{wide: true}
	for _, s := range statements {
		f.statement(s)
		f.put(";\n")
	}
	return f.String()
}

// FormatExpr returns an expression in canonical form.
func FormatExpr(e Expr) string {
	if l, ok := e.(*Literal); ok && l.Kind == LiteralNumber {
		return l.Text
	}
	var f formatter
	f.Grow(usualText)
	f.expr(e)
	return f.String()
}

// usualText is about the length of most expressions.
const usualText = 32

type formatter struct {
	strings.Builder
	wide bool // CREATE TABLE gets a line for each of its parts
}

// put appends texts as they are.
func (f *formatter) put(texts ...string) {
	for _, t := range texts {
		f.WriteString(t)
	}
}

// when appends texts if cond holds.
func (f *formatter) when(cond bool, texts ...string) {
	if cond {
		f.put(texts...)
	}
}

// QuoteName returns a name, in double quotes if it needs them.
func QuoteName(name string) string {
	plain := name != "" && !reserved.has(name) && !operandWords.has(name) && !isDigit(name[0])
	for _, r := range name {
		plain = plain && isNamePart(r)
	}
	if plain {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// operandWords are no reserved words but mean something else in one of the places where a name
// can stand.
var operandWords = wordSet(`both check constraint current_date current_timestamp default false
	foreign if lateral leading localtimestamp null partition primary recursive tidb_shard
	timestamp to trailing true ttl zones`)

// QuoteText returns a text in single quotes.
func QuoteText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// list appends n things with commas between them.
func (f *formatter) list(n int, each func(i int)) {
	for i := range n {
		f.when(i > 0, ", ")
		each(i)
	}
}

func (f *formatter) names(names []Name) {
	f.put("(")
	f.list(len(names), func(i int) { f.put(QuoteName(names[i].Text)) })
	f.put(")")
}

func (f *formatter) exprs(list []Expr) { f.list(len(list), func(i int) { f.expr(list[i]) }) }

// enclosed appends expressions in parentheses.
func (f *formatter) enclosed(list []Expr) {
	f.put("(")
	f.exprs(list)
	f.put(")")
}

// subquery appends a query in parentheses.
func (f *formatter) subquery(s *Select) {
	f.put("(")
	f.selectStatement(s)
	f.put(")")
}

// clause appends a keyword and an expression, if there is one.
func (f *formatter) clause(word string, e Expr) {
	if e != nil {
		f.put(word)
		f.expr(e)
	}
}

func (f *formatter) statement(s Statement) {
	switch s := s.(type) {
	case *Select:
		f.selectStatement(s)
	case *Insert:
		f.insert(s)
		f.returning(s.Returning)
	case *Update:
		f.put("UPDATE ", QuoteName(s.Table.Text))
		f.when(s.Alias != "", " AS ", QuoteName(s.Alias))
		f.put(" SET ")
		f.assignments(s.Set)
		f.clause(" WHERE ", s.Where)
		f.returning(s.Returning)
	case *Delete:
		f.put("DELETE FROM ", QuoteName(s.Table.Text))
		f.when(s.Alias != "", " AS ", QuoteName(s.Alias))
		f.clause(" WHERE ", s.Where)
		f.returning(s.Returning)
	case *Explain:
		f.put("EXPLAIN ")
		f.when(s.Run, "ANALYZE ")
		f.statement(s.Statement)
	case *Transaction:
		f.put(s.Verb)
		f.when(s.ReadOnly, " READ ONLY")
		f.when(s.Savepoint.Text != "", " ", QuoteName(s.Savepoint.Text))
	case *Show:
		f.put("SHOW ", s.What)
		f.when(s.What == "INDEX" || s.What == "COLUMNS", " FROM")
		f.when(s.Table.Text != "", " ", QuoteName(s.Table.Text))
	case *Analyze:
		f.put("ANALYZE")
		f.when(s.Table.Text != "", " ", QuoteName(s.Table.Text))
	default:
		f.definition(s)
	}
}

func (f *formatter) selectStatement(s *Select) {
	for i, w := range s.With {
		f.put(map[bool]string{true: "WITH ", false: ", "}[i == 0], QuoteName(w.Name.Text))
		if w.Columns != nil {
			f.put(" ")
			f.names(w.Columns)
		}
		f.put(" AS ")
		f.subquery(w.Query)
	}
	f.when(s.With != nil, " ")
	if s.Set != nil {
		f.setOperation(s.Set)
	} else {
		f.selectCore(s)
	}
	if len(s.OrderBy) > 0 {
		f.put(" ORDER BY ")
		f.orders(s.OrderBy)
	}
	f.clause(" LIMIT ", s.Limit)
	f.clause(" OFFSET ", s.Offset)
}

func (f *formatter) orders(list []Order) {
	f.list(len(list), func(i int) {
		f.expr(list[i].Expr)
		if c := list[i].Collation.Text; c != "" {
			f.put(" COLLATE ", QuoteName(c))
		}
		f.direction(list[i].Desc, list[i].Nulls)
	})
}

func (f *formatter) setOperation(s *SetOperation) {
	for i, q := range s.Queries {
		f.when(i > 0, " ", s.Op, " ")
		f.when(i > 0 && s.All, "ALL ")
		plain := q.Set == nil && q.With == nil && q.OrderBy == nil && q.Limit == nil &&
			q.Offset == nil
		if plain {
			f.selectStatement(q)
		} else {
			f.subquery(q)
		}
	}
}

func (f *formatter) selectCore(s *Select) {
	f.put("SELECT ")
	f.when(s.Distinct, "DISTINCT ")
	f.list(len(s.Outputs), func(i int) { f.output(&s.Outputs[i]) })
	f.when(len(s.From) > 0, " FROM ")
	for i := range s.From {
		f.source(&s.From[i])
	}
	f.clause(" AS OF ", s.AsOf)
	f.clause(" WHERE ", s.Where)
	if len(s.GroupBy) > 0 {
		f.put(" GROUP BY ")
		f.exprs(s.GroupBy)
	}
	f.clause(" HAVING ", s.Having)
}

func (f *formatter) returning(list []Output) {
	f.when(list != nil, " RETURNING ")
	f.list(len(list), func(i int) { f.output(&list[i]) })
}

func (f *formatter) output(o *Output) {
	switch {
	case !o.Star:
		f.expr(o.Expr)
		f.when(o.Alias != "", " AS ", QuoteName(o.Alias))
	case o.Table != "":
		f.put(QuoteName(o.Table), ".*")
	default:
		f.put("*")
	}
}

func (f *formatter) source(s *Source) {
	f.when(s.Natural, " NATURAL")
	switch {
	case s.Join == JoinLeft:
		f.put(" LEFT JOIN ")
	case s.Join == JoinRight:
		f.put(" RIGHT JOIN ")
	case s.Join == JoinFull:
		f.put(" FULL JOIN ")
	case s.Join == JoinInner && s.On == nil && s.Using == nil && !s.Natural:
		f.put(" CROSS JOIN ")
	case s.Join == JoinInner:
		f.put(" JOIN ")
	}
	switch {
	case s.Query != nil:
		f.subquery(s.Query)
	case s.Nested != nil:
		f.put("(")
		for i := range s.Nested {
			f.source(&s.Nested[i])
		}
		f.put(")")
	default:
		f.put(QuoteName(s.Table.Text))
	}
	f.when(s.Alias != "", " AS ", QuoteName(s.Alias))
	f.when(s.Index != "", " INDEXED BY ", QuoteName(s.Index))
	f.when(s.NotIndexed, " NOT INDEXED")
	f.clause(" ON ", s.On)
	if s.Using != nil {
		f.put(" USING ")
		f.names(s.Using)
	}
}

func (f *formatter) direction(desc bool, nulls NullOrder) {
	f.when(desc, " DESC")
	f.when(nulls == NullsFirst, " NULLS FIRST")
	f.when(nulls == NullsLast, " NULLS LAST")
}

func (f *formatter) insert(s *Insert) {
	f.put("INSERT ")
	f.when(s.Conflict == ConflictReplaces, "OR REPLACE ")
	f.when(s.Conflict == ConflictIgnored, "OR IGNORE ")
	f.put("INTO ", QuoteName(s.Table.Text), " ")
	defaults := s.Columns != nil && len(s.Columns) == 0 && len(s.Rows) == 1
	if s.Columns != nil && !defaults {
		f.names(s.Columns)
		f.put(" ")
	}
	switch {
	case s.Query != nil:
		f.selectStatement(s.Query)
	case defaults:
		f.put("DEFAULT VALUES")
	default:
		f.put("VALUES ")
		f.list(len(s.Rows), func(i int) { f.enclosed(s.Rows[i]) })
	}
	if u := s.Upsert; u != nil {
		f.put(" ON CONFLICT ")
		if u.Columns != nil {
			f.names(u.Columns)
			f.put(" ")
		}
		if u.Set == nil {
			f.put("DO NOTHING")
			return
		}
		f.put("DO UPDATE SET ")
		f.assignments(u.Set)
		f.clause(" WHERE ", u.Where)
	}
}

func (f *formatter) assignments(set []Assignment) {
	f.list(len(set), func(i int) {
		f.put(QuoteName(set[i].Column.Text), " = ")
		f.expr(set[i].Value)
	})
}

// definition formats the statements that define tables and indexes.
func (f *formatter) definition(s Statement) {
	switch s := s.(type) {
	case *CreateTable:
		f.createTable(s)
	case *CreateIndex:
		f.put("CREATE ")
		f.when(s.Unique, "UNIQUE ")
		f.put("INDEX ")
		f.when(s.IfMissing, "IF NOT EXISTS ")
		f.put(QuoteName(s.Index.Text), " ON ", QuoteName(s.Table.Text), " ")
		f.indexBody(s)
	case *CreateView:
		f.put("CREATE ")
		f.when(s.Replace, "OR REPLACE ")
		f.put("VIEW ")
		f.when(s.IfMissing, "IF NOT EXISTS ")
		f.put(QuoteName(s.View.Text))
		if s.Columns != nil {
			f.put(" ")
			f.names(s.Columns)
		}
		f.put(" AS ")
		f.selectStatement(s.Query)
	case *DropView:
		f.put("DROP VIEW ")
		f.when(s.IfExists, "IF EXISTS ")
		f.put(QuoteName(s.View.Text))
	case *AlterTable:
		f.alter(s)
	case *DropTable:
		f.put("DROP TABLE ")
		f.when(s.IfExists, "IF EXISTS ")
		f.put(QuoteName(s.Table.Text))
	case *DropIndex:
		f.put("DROP INDEX ")
		f.when(s.IfExists, "IF EXISTS ")
		f.put(QuoteName(s.Index.Text))
		f.when(s.Table.Text != "", " ON ", QuoteName(s.Table.Text))
	}
}

func (f *formatter) alter(s *AlterTable) {
	if s.Table.Text == "" {
		f.put("ALTER INDEX ", QuoteName(s.Index.Text), " RENAME TO ", QuoteName(s.To.Text))
		return
	}
	f.put("ALTER TABLE ", QuoteName(s.Table.Text))
	switch s.Action {
	case AddColumn:
		f.put(" ADD COLUMN ")
		f.columnDef(&s.Add)
	case DropColumn:
		f.put(" DROP COLUMN ", QuoteName(s.Column.Text))
	case RenameColumn:
		f.put(" RENAME COLUMN ", QuoteName(s.Column.Text), " TO ", QuoteName(s.To.Text))
	case AddCheck:
		f.put(" ADD ")
		f.check(&s.Check)
	case DropConstraint:
		f.put(" DROP CONSTRAINT ", QuoteName(s.Check.Name.Text))
	case SetDefault:
		f.put(" ALTER COLUMN ", QuoteName(s.Column.Text))
		f.defaultValue(" SET DEFAULT ", s.Default)
	case DropDefault:
		f.put(" ALTER COLUMN ", QuoteName(s.Column.Text), " DROP DEFAULT")
	case SetZones:
		f.put(" SET ZONES ")
		if s.Zones == nil {
			f.put("DEFAULT")
		} else {
			f.names(s.Zones)
		}
	case SetNumber:
		f.put(" AUTO_INCREMENT = ", strconv.Itoa(s.Number))
	case RenameTable:
		f.put(" RENAME TO ", QuoteName(s.To.Text))
	case RenameIndex:
		f.put(" RENAME INDEX ", QuoteName(s.Index.Text), " TO ", QuoteName(s.To.Text))
	}
}

func (f *formatter) createTable(t *CreateTable) {
	f.put("CREATE TABLE ")
	f.when(t.IfMissing, "IF NOT EXISTS ")
	f.put(QuoteName(t.Table.Text), " (")
	f.when(f.wide, "\n  ")
	next := ", "
	if f.wide {
		next = ",\n  "
	}
	for i := range t.Columns {
		f.columnDef(&t.Columns[i])
		f.put(next)
	}
	if t.Buckets > 0 {
		f.put("PRIMARY KEY ")
		f.keyColumns(slices.Concat(t.Partition, t.Sort))
		f.sharding(t.Sharding)
	} else {
		f.put("PARTITION KEY ")
		f.keyColumns(t.Partition)
		if len(t.Sort) > 0 {
			f.put(next, "SORT KEY ")
			f.keyColumns(t.Sort)
		}
	}
	for i := range t.Checks {
		f.put(next)
		f.check(&t.Checks[i])
	}
	if t.TTL != nil {
		f.put(next, "TTL (", QuoteName(t.TTL.Column.Text))
		f.when(t.TTL.After != "", " + ", QuoteText(t.TTL.After))
		f.put(")")
	}
	if t.Zones != nil {
		f.put(next, "ZONES ")
		f.names(t.Zones)
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		f.put(next)
		f.when(x.Unique, "UNIQUE ")
		f.put("INDEX ", QuoteName(x.Index.Text), " ")
		f.indexBody(x)
	}
	f.when(f.wide, "\n")
	f.put(")")
	f.when(t.Number > 0, " AUTO_INCREMENT = ", strconv.Itoa(t.Number))
}

func (f *formatter) check(c *Check) {
	f.when(c.Name.Text != "", "CONSTRAINT ", QuoteName(c.Name.Text), " ")
	f.put("CHECK (")
	f.expr(c.Condition)
	f.put(")")
}

func (f *formatter) columnDef(c *ColumnDef) {
	f.put(QuoteName(c.Name.Text), " ")
	f.typeName(&c.Type)
	f.when(c.Nullable, " NULL")
	f.defaultValue(" DEFAULT ", c.Default)
	f.when(c.Identity, " GENERATED BY DEFAULT AS IDENTITY")
	f.when(c.Collation != "", " COLLATE ", QuoteName(c.Collation))
}

// defaultValue is clause for an expression after which more may follow, in parentheses if it is an
// operation.
func (f *formatter) defaultValue(word string, e Expr) {
	if _, ok := e.(*Literal); ok || e == nil {
		f.clause(word, e)
		return
	}
	f.put(word)
	f.operand(e)
}

func (f *formatter) typeName(t *TypeName) {
	f.put(strings.ReplaceAll(QuoteName(t.Name), `"TIMESTAMP"`, "TIMESTAMP"))
	f.when(len(t.Args) > 0, "(", strings.Join(t.Args, ", "), ")")
	f.when(t.List, "[]")
}

func (f *formatter) keyColumns(columns []KeyColumn) {
	f.put("(")
	f.list(len(columns), func(i int) {
		f.when(columns[i].Each, "EACH ")
		f.put(QuoteName(columns[i].Name.Text))
		f.direction(columns[i].Desc, columns[i].Nulls)
	})
	f.put(")")
}

func (f *formatter) indexBody(x *CreateIndex) {
	f.keyColumns(x.Columns)
	if x.Include != nil {
		f.put(" INCLUDE ")
		f.names(x.Include)
	}
	f.sharding(x.Sharding)
	f.when(x.Local, " LOCAL")
	f.clause(" WHERE ", x.Where)
}

func (f *formatter) sharding(s Sharding) {
	if s.Buckets == 0 {
		return
	}
	f.put(" SHARD (", strconv.Itoa(s.Buckets))
	f.when(s.Function != "", ", ", QuoteName(s.Function))
	f.put(")")
	f.when(s.ShardColumns > 0, fmt.Sprintf(" ON (%d)", s.ShardColumns))
}
