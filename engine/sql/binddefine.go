package sql

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// typeNames are the types of CREATE TABLE, several words for some. The first of each type
// is the one that is shown.
var typeNames = []struct {
	name string
	typ  keycodec.Type
}{
	{"TEXT", keycodec.TypeString}, {"STRING", keycodec.TypeString},
	{"VARCHAR", keycodec.TypeString}, {"CHAR", keycodec.TypeString},
	{"TINYTEXT", keycodec.TypeString}, {"MEDIUMTEXT", keycodec.TypeString},
	{"LONGTEXT", keycodec.TypeString},
	{"BYTES", keycodec.TypeBytes}, {"BLOB", keycodec.TypeBytes}, {"BYTEA", keycodec.TypeBytes},
	{"BINARY", keycodec.TypeBytes}, {"VARBINARY", keycodec.TypeBytes},
	{"LONGBLOB", keycodec.TypeBytes}, {"MEDIUMBLOB", keycodec.TypeBytes},
	{"INT", keycodec.TypeInt64}, {"INTEGER", keycodec.TypeInt64}, {"BIGINT", keycodec.TypeInt64},
	{"INT64", keycodec.TypeInt64}, {"INT32", keycodec.TypeInt32},
	{"MEDIUMINT", keycodec.TypeInt32},
	{"INT16", keycodec.TypeInt16}, {"SMALLINT", keycodec.TypeInt16},
	{"INT8", keycodec.TypeInt8}, {"TINYINT", keycodec.TypeInt8},
	{"UINT64", keycodec.TypeUint64}, {"UINT32", keycodec.TypeUint32},
	{"UINT16", keycodec.TypeUint16}, {"UINT8", keycodec.TypeUint8},
	{"BOOL", keycodec.TypeBool}, {"BOOLEAN", keycodec.TypeBool},
	{"FLOAT", keycodec.TypeFloat64}, {"REAL", keycodec.TypeFloat64},
	{"DOUBLE", keycodec.TypeFloat64}, {"FLOAT64", keycodec.TypeFloat64},
	{"FLOAT32", keycodec.TypeFloat32}, {"TIMESTAMP", keycodec.TypeTime},
	{"DATETIME", keycodec.TypeTime}, {"UUID", keycodec.TypeUUID},
	{"DECIMAL", keycodec.TypeDecimal}, {"NUMERIC", keycodec.TypeDecimal},
	{"IP", keycodec.TypeIP}, {"INET", keycodec.TypeIP},
	{"IPPREFIX", keycodec.TypeIPPrefix}, {"CIDR", keycodec.TypeIPPrefix},
}

// absentTypes are types of other languages, and what to write instead.
var absentTypes = map[string]string{"JSON": "TEXT", "JSONB": "TEXT", "DATE": "TIMESTAMP(s)",
	"TIME": "TEXT or INT", "SERIAL": "INT or UUID with keys of your own", "ENUM": "TEXT",
	"MONEY": "DECIMAL(18, 2)", "INTERVAL": "TEXT", "ARRAY": "TEXT[], INT[] and so on"}

// TypeText returns the type of a column in the words of CREATE TABLE.
func TypeText(c *schema.Column) string {
	name := ""
	for _, t := range typeNames {
		if t.typ == c.Type {
			name = t.name
			break
		}
	}
	switch c.Type {
	case keycodec.TypeTime:
		unit := map[keycodec.Unit]string{keycodec.Second: "s", keycodec.Millisecond: "ms",
			keycodec.Microsecond: "us", keycodec.Nanosecond: "ns", keycodec.FullRange: "full"}
		name += "(" + unit[c.Unit] + ")"
	case keycodec.TypeFixed:
		name = fmt.Sprintf("DECIMAL(%d, %d)", keycodec.MaxScale, c.Scale)
	}
	if c.List {
		name += "[]"
	}
	return name
}

// columnDef returns the column that a definition means.
func (b *binder) columnDef(d *syntax.ColumnDef) schema.Column {
	c := schema.Column{Name: d.Name.Text, Nullable: d.Nullable, List: d.Type.List}
	var names []string
	for _, t := range typeNames {
		names = append(names, t.name)
		if t.name == d.Type.Name {
			c.Type = t.typ
		}
	}
	if c.Type == 0 {
		if other := absentTypes[d.Type.Name]; other != "" {
			b.fail(d.Type.Pos, "kstone has no type %s; write %s", d.Type.Name, other)
		}
		b.fail(d.Type.Pos, "there is no type %s%s", d.Type.Name, hint(d.Type.Name, names))
	}
	b.typeArgs(d, &c)
	if d.Collation != "" {
		collation, ok := collations[d.Collation]
		if !ok || c.Type != keycodec.TypeString {
			b.fail(d.Name.Pos, "COLLATE takes NOCASE (the letters A to Z) or UNICODE, of a TEXT")
		}
		c.Collation = collation
	}
	if d.Default != nil {
		c.Default = b.defaultFor(&c, d.Default)
	}
	return c
}

// defaultFor returns the default that an expression gives a column; nil is NULL.
func (b *binder) defaultFor(c *schema.Column, e syntax.Expr) *expr.Value {
	v := b.constant(e)
	if !c.List && c.Kind().Numeric() && v.Kind() == expr.KindString { // MySQL shows DEFAULT '0'
		to, _ := castType(c)
		v = b.constant(&syntax.Cast{Pos: e.Position(), X: e, To: castName(to)})
	}
	converted, err := c.Convert(v)
	if err != nil {
		b.refuse(e.Position(), fmt.Errorf("the default does not fit: %w", err))
	}
	if converted.IsNull() {
		return nil
	}
	return &converted
}

var collations = map[string]keycodec.Collation{
	"nocase": keycodec.CollateASCII, "ascii": keycodec.CollateASCII,
	"unicode": keycodec.CollateUnicode,
}

// typeArgs applies what stands in parentheses after a type.
func (b *binder) typeArgs(d *syntax.ColumnDef, c *schema.Column) {
	args := d.Type.Args
	switch {
	case c.Type == keycodec.TypeTime:
		units := map[string]keycodec.Unit{"s": keycodec.Second, "ms": keycodec.Millisecond,
			"us": keycodec.Microsecond, "ns": keycodec.Nanosecond, "full": keycodec.FullRange,
			// As many digits after the seconds.
			"0": keycodec.Second, "3": keycodec.Millisecond, "6": keycodec.Microsecond,
			"9": keycodec.Nanosecond}
		c.Unit = keycodec.Microsecond
		if len(args) > 0 {
			c.Unit = units[strings.ToLower(args[0])]
		}
		if len(args) > 1 || c.Unit == keycodec.UnitNone {
			b.fail(d.Type.Pos, "the unit of %s is s, ms, us, ns or full", d.Type.Name)
		}
	case c.Type == keycodec.TypeDecimal && len(args) > 0:
		precision, err := strconv.Atoi(args[0])
		scale, err2 := 0, error(nil)
		if len(args) > 1 {
			scale, err2 = strconv.Atoi(args[1])
		}
		if len(args) > 2 || err != nil || err2 != nil || precision < 1 ||
			precision > keycodec.MaxScale || scale < 0 || scale > precision {
			b.fail(d.Type.Pos, "%s (p, s) has 1 to %d digits, s of them after the point; "+
				"without (p, s) there is no limit", d.Type.Name, keycodec.MaxScale)
		}
		c.Type, c.Scale = keycodec.TypeFixed, int32(scale)
	case (c.Type == keycodec.TypeString || c.Type == keycodec.TypeBytes) && len(args) == 1:
		// VARCHAR(n): no limit is kept
	case len(args) > 0:
		b.fail(d.Type.Pos, "type %s takes no arguments", d.Type.Name)
	}
}

// constant binds an expression that has a value of its own.
func (b *binder) constant(e syntax.Expr) expr.Value {
	sc := &scope{b: b, sel: emptySelect(), where: "a constant"}
	out := sc.expr(e)
	simple := true
	expr.Walk(out, func(x expr.Expr) bool {
		switch x.(type) {
		case expr.Param, expr.Subquery:
			simple = false
		}
		return simple
	})
	if !simple {
		b.fail(e.Position(), "this is no constant")
	}
	v, err := expr.Eval(out, nil, nil)
	if err != nil {
		b.refuse(e.Position(), err)
	}
	return v
}

// createTable returns the definition of a table.
func (b *binder) createTable(s *syntax.CreateTable) *schema.Table {
	def := schema.Table{Name: s.Table.Text}
	for i := range s.Columns {
		c := b.columnDef(&s.Columns[i])
		if def.Column(c.Name) >= 0 {
			b.fail(s.Columns[i].Name.Pos, "the table has two columns %s", syntax.QuoteName(c.Name))
		}
		def.Columns = append(def.Columns, c)
	}
	def.PK, def.SK = b.keyColumns(&def, s.Partition), b.keyColumns(&def, s.Sort)
	if s.TTL != nil {
		def.TTL = b.ttl(&def, s.TTL)
	}
	if s.Zones != nil {
		def.Zones = make([]int, len(s.Zones))
		for i, n := range s.Zones {
			def.Zones[i] = b.column(&def, n)
		}
	}
	for i := range s.Indexes {
		x := b.index(&def, &s.Indexes[i])
		x.State = schema.Ready
		def.Indexes = append(def.Indexes, &x)
	}
	t, err := schema.New(def)
	if err != nil {
		b.refuse(s.Table.Pos, err)
	}
	return t
}

// refuse fails with an error of another package, without its name.
func (b *binder) refuse(pos int, err error) {
	var call *expr.CallError
	if errors.As(err, &call) {
		pos, err = call.Pos-1, call.Err
	}
	e := syntax.NewError(b.text, pos, false, "%s", plainText(err))
	e.Err = err
	panic(e)
}

// plainText is the text of an error without the names of packages.
func plainText(err error) string {
	message := err.Error()
	for _, prefix := range []string{"schema: ", "expr: ", "table: "} {
		message = strings.ReplaceAll(message, prefix, "")
	}
	return message
}

func (b *binder) ttl(t *schema.Table, s *syntax.TTL) *schema.TTL {
	ttl := &schema.TTL{Ordinal: b.column(t, s.Column)}
	if s.After != "" {
		after, err := time.ParseDuration(s.After)
		if err != nil || after < 0 {
			b.fail(s.Column.Pos, "%s is no duration; it looks like '24h' or '90s'",
				syntax.QuoteText(s.After))
		}
		ttl.After = after
	}
	return ttl
}

func (b *binder) keyColumns(t *schema.Table, list []syntax.KeyColumn) []schema.KeyColumn {
	var out []schema.KeyColumn
	for _, k := range list {
		i := b.column(t, k.Name)
		last := nullsLast(k.Desc, k.Nulls) &&
			(t.Columns[i].Nullable || k.Nulls != syntax.NullsDefault)
		out = append(out, schema.KeyColumn{Ordinal: i, Desc: k.Desc, NullsLast: last})
	}
	return out
}

// index returns the definition of an index.
func (b *binder) index(t *schema.Table, s *syntax.CreateIndex) schema.Index {
	x := schema.Index{Name: s.Index.Text, Unique: s.Unique, ShardColumns: s.ShardColumns}
	for i, k := range b.keyColumns(t, s.Columns) {
		x.Columns = append(x.Columns, schema.IndexColumn{KeyColumn: k, Each: s.Columns[i].Each})
	}
	for _, n := range s.Include {
		x.Include = append(x.Include, b.column(t, n))
	}
	if s.Local {
		x.Placement = schema.Local
	}
	if s.Buckets > 0 {
		x.Shard = shard.Spec{Function: shard.Mix64, Count: s.Buckets}
		if s.Function != "" {
			f, err := shard.ParseFunction(s.Function)
			if err != nil {
				b.fail(s.Index.Pos, "there is no shard function %s%s", syntax.QuoteName(s.Function),
					hint(s.Function, shardFunctions))
			}
			x.Shard.Function = f
		}
	}
	if s.Where != nil {
		x.Where = b.rowCondition(t, s.Where, "the WHERE of an index")
	}
	return x
}

var shardFunctions = []string{"tidb", "md5", "xxhash", "murmur3", "crc32", "mix64"}

// rowCondition binds a condition on the rows of one table.
func (b *binder) rowCondition(t *schema.Table, e syntax.Expr, where string) expr.Expr {
	sc := &scope{b: b, sel: emptySelect(t), where: where}
	out := sc.expr(e)
	expr.Walk(out, func(x expr.Expr) bool {
		switch x.(type) {
		case expr.Param:
			b.fail(e.Position(), "%s cannot have parameters", where)
		case expr.Subquery:
			b.fail(e.Position(), "%s cannot have subqueries", where)
		}
		return true
	})
	out = unqualified(out)
	if err := t.CheckWhere(out); err != nil {
		pos := e.Position()
		var wrong *expr.TypeError
		if errors.As(err, &wrong) && sc.position(wrong.At) > 0 {
			pos = sc.position(wrong.At) - 1
		}
		b.refuse(pos, err)
	}
	return out
}
