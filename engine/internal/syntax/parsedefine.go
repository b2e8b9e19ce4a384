package syntax

import (
	"strconv"
	"strings"
)

func (p *parser) create() Statement {
	if p.words("OR", "REPLACE") {
		if !p.isWord("VIEW") {
			p.fail("expected VIEW after CREATE OR REPLACE, found %s", p.found())
		}
		v := p.createView()
		v.Replace = true
		return v
	}
	unique := p.word("UNIQUE")
	switch {
	case !unique && p.isWord("VIEW"):
		return p.createView()
	case !unique && p.word("TABLE"):
		return p.createTable()
	case p.word("INDEX"):
		x := p.createIndex(unique)
		return &x
	}
	p.refuseAbsent(absentObjects)
	p.fail("expected TABLE, INDEX, UNIQUE INDEX or VIEW, found %s%s", p.found(),
		p.meant("TABLE", "INDEX", "UNIQUE", "VIEW"))
	return nil
}

// createView reads from VIEW on.
func (p *parser) createView() *CreateView {
	p.needWord("VIEW")
	v := &CreateView{IfMissing: p.ifNotExists(), View: p.name("view")}
	if p.isOp("(") {
		v.Columns = p.columnNames()
	}
	p.needWord("AS")
	if !p.atQuery() && !p.isOp("(") {
		p.fail("expected the query of the view, found %s", p.found())
	}
	v.Query = p.selectStatement()
	if p.isWord("WITH") {
		p.fail("kstone has no writes through views, and no WITH CHECK OPTION; leave it out")
	}
	return v
}

func (p *parser) ifNotExists() bool { return p.words("IF", "NOT", "EXISTS") }

func (p *parser) createTable() Statement {
	t := &CreateTable{IfMissing: p.ifNotExists()}
	t.Table = p.name("table")
	p.refuseAbsent(absentTables)
	p.needOp("(")
	for p.tablePart(t); p.op(","); {
		p.tablePart(t)
	}
	p.needOp(")")
	p.tableOptions(t)
	for _, c := range t.Columns {
		t.Checks = append(t.Checks, c.Checks...)
	}
	nameIndexes(t.Indexes)
	nameChecks(t.Checks)
	for _, c := range t.Columns {
		if !c.Primary {
			continue
		}
		if t.Partition != nil {
			p.failAt(c.Name.Pos, "the table has two primary keys")
		}
		t.Partition, t.Sharding = []KeyColumn{{Name: c.Name}}, c.Sharding
	}
	if t.Partition == nil {
		p.failAt(t.Table.Pos, "table %s has no key; add PARTITION KEY (…) or PRIMARY KEY (…)",
			t.Table.Text)
	}
	if t.ShardColumns < 0 {
		t.ShardColumns = len(t.Partition) + len(t.Sort)
	}
	return t
}

// tablePart reads a column or what stands between columns.
func (p *parser) tablePart(t *CreateTable) {
	pos := p.tok.pos
	switch {
	case p.words("PARTITION", "KEY"):
		p.onlyKey(pos, t.Partition)
		t.Partition = p.keyColumns()
		p.shardPartitions(&t.Sharding)
	case p.isWord("SORT"):
		p.words("SORT", "KEY")
		p.onlyKey(pos, t.Sort)
		t.Sort = p.keyColumns()
	case p.words("PRIMARY", "KEY"):
		p.onlyKey(pos, t.Partition)
		p.needOp("(")
		p.tidbShard(&t.Sharding)
		columns := p.restOfKey()
		t.Partition, t.Sort = columns[:1], columns[1:]
		p.shardKey(&t.Sharding)
	case p.words("TTL"):
		p.needOp("(")
		t.TTL = &TTL{Column: p.name("column")}
		if p.op("+") {
			t.TTL.After = p.text("duration, such as '24h'")
		}
		p.needOp(")")
	case p.words("ZONES"):
		t.Zones = p.zones()
	case p.isWord("UNIQUE"), p.isWord("INDEX"), p.atKey():
		t.Indexes = append(t.Indexes, p.indexPart(t.Table))
	case p.atConstraint():
		p.tableConstraint(t)
	default:
		p.refuseAbsent(map[string]string{"FOREIGN": absentConstraints["FOREIGN"]})
		c := p.columnDef()
		if t.Columns = append(t.Columns, c); c.Unique {
			t.Indexes = append(t.Indexes, CreateIndex{Unique: true, Table: t.Table,
				Index: Name{Pos: pos}, Columns: []KeyColumn{{Name: c.Name}}})
		}
	}
}

// zones reads the columns of ZONES, which may be none.
func (p *parser) zones() []Name {
	if p.peek().text == ")" {
		p.needOp("(")
		p.needOp(")")
		return []Name{}
	}
	return p.columnNames()
}

// shardKey reads what may follow a primary key.
func (p *parser) shardKey(s *Sharding) {
	p.clustered()
	if p.isWord("SHARD") {
		p.shard(s)
	}
	p.clustered()
}

// shardPartitions reads what may follow a partition key. Without ON the bucket follows from all
// columns of the key, so that each partition is spread: -1, until they are known.
func (p *parser) shardPartitions(s *Sharding) {
	if !p.isWord("SHARD") {
		return
	}
	if p.shard(s); s.ShardColumns == 0 {
		s.ShardColumns = -1
	}
}

func (p *parser) onlyKey(pos int, key []KeyColumn) {
	if key != nil {
		p.failAt(pos, "the table has two keys of this kind")
	}
}

func (p *parser) columnDef() ColumnDef {
	c := ColumnDef{Name: p.name("column")}
	c.Type = p.typeName()
	notNull := false
	for {
		switch {
		case p.word("AUTO_INCREMENT"), p.word("AUTOINCREMENT"):
			c.Identity = true
		case p.word("GENERATED"):
			p.generated(&c)
		case p.isWord("CONSTRAINT"), p.isWord("CHECK"):
			p.columnConstraint(&c)
		case p.words("NOT", "NULL"):
			c.Nullable, notNull = false, true
		case p.word("NULL"):
			c.Nullable = true
		case p.word("PRIMARY"): // the proposal of sharded indexes writes it without KEY
			p.word("KEY")
			c.Primary = true
			p.shardKey(&c.Sharding)
		case p.word("UNIQUE"):
			c.Unique = true
			p.word("KEY")
		case p.word("DEFAULT"):
			c.Default = p.operand()
			if l, ok := c.Default.(*Literal); ok && l.Kind == LiteralNull && !notNull {
				c.Nullable = true
			}
		case p.word("COLLATE"):
			c.Collation = strings.ToLower(p.name("collation").Text)
			if BinaryCollation(c.Collation) {
				c.Collation = ""
			}
		case p.charset(""):
		case p.word("COMMENT"):
			p.text("comment")
		default:
			p.refuseAbsent(absentConstraints)
			return c
		}
	}
}

// secondWords may follow the first of a type.
var secondWords = map[string]string{"DOUBLE": "PRECISION", "CHARACTER": "VARYING",
	"CHAR": "VARYING"}

// typeName reads a type: TEXT, TIMESTAMP(ms), DECIMAL(10, 2), UUID, TEXT[].
func (p *parser) typeName() TypeName {
	n := p.name("type")
	t := TypeName{Pos: n.Pos, Name: strings.ToUpper(n.Text)}
	p.word(secondWords[t.Name])
	if p.op("(") {
		t.Args = list(p, nil, func() string {
			if p.tok.kind == tokenString {
				p.failAt(n.Pos, "kstone has no type %s; write TEXT and CHECK (column IN ('a', …))",
					t.Name)
			}
			if p.tok.kind != tokenNumber && p.tok.kind != tokenName {
				p.fail("expected an argument of the type, found %s", p.found())
			}
			p.advance()
			return p.before.text
		})
		p.needOp(")")
	}
	p.integerType(&t)
	if t.Name == "TIMESTAMP" && p.tok.is("WITH", "WITHOUT") && p.peek().is("TIME") {
		p.advance() // all times are in UTC
		p.words("TIME", "ZONE")
	}
	if p.op("[") {
		p.needOp("]")
		t.List = true
	}
	return t
}

func (p *parser) keyColumns() []KeyColumn {
	p.needOp("(")
	return p.restOfKey()
}

// restOfKey reads the columns of a key after its parenthesis.
func (p *parser) restOfKey() []KeyColumn {
	out := list(p, nil, p.keyColumn)
	p.needOp(")")
	return out
}

func (p *parser) createIndex(unique bool) CreateIndex {
	x := CreateIndex{Unique: unique, IfMissing: p.ifNotExists()}
	if !p.peek().is("ON") {
		p.refuseAbsent(absentIndexes)
	}
	x.Index = p.name("index")
	p.needWord("ON")
	x.Table = p.name("table")
	p.indexBody(&x)
	return x
}

// indexBody reads the columns of an index and the clauses after them.
func (p *parser) indexBody(x *CreateIndex) {
	if p.isWord("USING") && !p.peek().is("BTREE") {
		p.refuseAbsent(absentIndexes)
	}
	p.words("USING", "BTREE")
	p.indexColumns(x)
	for {
		switch {
		case p.word("INCLUDE"):
			x.Include = append(x.Include, p.columnNames()...)
		case p.isWord("SHARD"):
			p.shard(&x.Sharding)
		case p.word("LOCAL"):
			x.Local = true
		case p.word("GLOBAL"):
			x.Local = false
		case p.words("USING", "BTREE"): // all indexes are in order
		case p.word("COMMENT"):
			p.text("comment")
		case p.word("WHERE"):
			x.Where = p.expr()
			return
		default:
			return
		}
	}
}

// tidbShard reads (tidb_shard(a)), at the start of the columns of a key, which stands for
// SHARD (256, tidb), as in the database it comes from.
func (p *parser) tidbShard(s *Sharding) {
	expression := p.isOp("(")
	if !expression && !(p.isWord("tidb_shard") && p.peek().text == "(") {
		return
	}
	if expression {
		p.advance()
	}
	p.needWord("tidb_shard")
	p.needOp("(")
	column := p.name("column")
	p.needOp(")")
	if expression {
		p.needOp(")")
	}
	s.Buckets, s.Function = 256, "tidb"
	p.needOp(",")
	if !p.isName() || p.tok.text != column.Text {
		p.fail("expected %s, the column in tidb_shard, found %s", column.Text, p.found())
	}
}

// indexColumns reads the columns.
func (p *parser) indexColumns(x *CreateIndex) {
	p.needOp("(")
	p.tidbShard(&x.Sharding)
	x.Columns = list(p, nil, func() KeyColumn {
		each := p.word("EACH")
		k := p.keyColumn()
		k.Each = each
		return k
	})
	p.needOp(")")
}

// shard reads SHARD (n [, function]) [ON (m)].
func (p *parser) shard(s *Sharding) {
	pos := p.tok.pos
	p.advance()
	if s.Buckets != 0 {
		p.failAt(pos, "the key is sharded twice")
	}
	p.needOp("(")
	s.Buckets = p.integer("number of buckets", 1<<16)
	if p.op(",") {
		s.Function = strings.ToLower(p.name("shard function").Text)
	}
	p.needOp(")")
	if p.word("ON") {
		p.needOp("(")
		s.ShardColumns = p.integer("number of columns", 64)
		p.needOp(")")
	}
}

// integer reads a whole number from 1 to limit.
func (p *parser) integer(what string, limit int) int {
	n, err := strconv.Atoi(p.tok.text)
	if p.tok.kind != tokenNumber || err != nil || n < 1 || n > limit {
		p.fail("expected the %s, 1 to %d, found %s", what, limit, p.found())
	}
	p.advance()
	return n
}

// text reads a literal text.
func (p *parser) text(what string) string {
	if p.tok.kind != tokenString {
		p.fail("expected a %s, found %s", what, p.found())
	}
	s := p.tok.text
	p.advance()
	return s
}

func (p *parser) alter(pos int) Statement {
	switch {
	case p.word("INDEX"):
		return p.alterIndex(pos)
	case p.isWord("VIEW"):
		p.fail("kstone has no ALTER VIEW; write CREATE OR REPLACE VIEW")
	}
	p.needWord("TABLE")
	a := &AlterTable{Pos: pos, Table: p.name("table")}
	switch {
	case p.word("ADD"):
		if p.isWord("UNIQUE") || p.isWord("INDEX") || p.atKey() {
			x := []CreateIndex{p.indexPart(a.Table)}
			nameIndexes(x)
			p.oneChange()
			return &x[0]
		}
		if s, ok := p.addConstraint(a); ok {
			return s
		}
		p.word("COLUMN")
		if p.isWord("PRIMARY") && p.peek().is("KEY") {
			p.fail("the key of a table cannot be changed")
		}
		a.Action, a.Add = AddColumn, p.columnDef()
		if a.Add.Primary {
			p.failAt(a.Add.Name.Pos, "the key of a table cannot be changed")
		}
		if a.Add.Checks != nil {
			p.failAt(a.Add.Name.Pos, "a column is added without CHECK; ALTER TABLE … ADD CHECK "+
				"adds the check")
		}
		if a.Add.Unique {
			p.failAt(a.Add.Name.Pos, "a column is added without UNIQUE; CREATE UNIQUE INDEX "+
				"makes the index")
		}
	case p.word("DROP"):
		if next := p.peek(); p.isWord("INDEX") || p.isWord("KEY") &&
			(next.kind == tokenName || next.kind == tokenQuoted) {
			p.advance()
			d := &DropIndex{Table: a.Table, Index: p.name("index")}
			p.oneChange()
			return d
		}
		if p.dropConstraint(a) {
			break
		}
		if p.peek().is("KEY") {
			p.refuseAbsent(absentKeys)
		}
		p.word("COLUMN")
		a.Action, a.Column = DropColumn, p.name("column")
	case p.word("RENAME"):
		p.rename(a)
	case p.word("ALTER"):
		p.alterColumn(a)
	case p.isWord("AUTO_INCREMENT"):
		a.Action, a.Number = SetNumber, p.nextNumber()
	case p.words("SET", "ZONES"):
		if a.Action = SetZones; !p.word("DEFAULT") {
			a.Zones = p.zones()
		}
	default:
		p.refuseAbsent(absentChanges)
		p.fail("expected ADD, ALTER, DROP, RENAME or SET ZONES, found %s", p.found())
	}
	p.oneChange()
	return a
}

// rename reads what follows ALTER TABLE name RENAME.
func (p *parser) rename(a *AlterTable) {
	switch next := p.peek(); {
	case p.word("TO"), p.word("AS"):
		a.Action, a.To = RenameTable, p.name("table")
		return
	case p.tok.is("INDEX", "KEY") && (next.kind == tokenName || next.kind == tokenQuoted) &&
		!next.is("TO"):
		p.advance()
		a.Action, a.Index = RenameIndex, p.name("index")
	default:
		if p.isWord("COLUMN") && !next.is("TO") {
			p.advance()
		}
		a.Action, a.Column = RenameColumn, p.name("column")
		if p.atEnd() { // of the table, as in MySQL
			a.Action, a.Column, a.To = RenameTable, Name{}, a.Column
			return
		}
	}
	p.needWord("TO")
	a.To = p.name("new name")
}

// alterColumn reads what follows ALTER TABLE name ALTER.
func (p *parser) alterColumn(a *AlterTable) {
	if p.isWord("COLUMN") && !p.peek().is("SET", "DROP") {
		p.advance()
	}
	a.Column = p.name("column")
	switch {
	case p.tok.is("SET", "DROP") && p.peek().is("NOT"):
		p.fail("kstone has no changes of NOT NULL; ADD CHECK (column IS NOT NULL) refuses NULLs")
	case p.words("SET", "DEFAULT"):
		a.Action, a.Default = SetDefault, p.operand()
	case p.words("DROP", "DEFAULT"):
		a.Action = DropDefault
	default:
		p.fail("kstone has no changes of types; SET DEFAULT and DROP DEFAULT change the default, " +
			"and for a type add a column, UPDATE it from the old one and drop that")
	}
}

// alterIndex reads what follows ALTER INDEX: a new name.
func (p *parser) alterIndex(pos int) Statement {
	a := &AlterTable{Pos: pos, Action: RenameIndex, Index: p.name("index")}
	if p.word("ON") {
		a.Table = p.name("table")
	}
	p.needWord("RENAME")
	p.needWord("TO")
	a.To = p.name("index")
	return a
}

func (p *parser) drop() Statement {
	switch {
	case p.word("TABLE"):
		d := &DropTable{IfExists: p.words("IF", "EXISTS")}
		d.Table = p.name("table")
		p.oneDrop()
		return d
	case p.word("INDEX"):
		d := &DropIndex{IfExists: p.words("IF", "EXISTS")}
		d.Index = p.name("index")
		if p.word("ON") {
			d.Table = p.name("table")
		}
		p.oneDrop()
		return d
	}
	if p.word("VIEW") {
		d := &DropView{IfExists: p.words("IF", "EXISTS")}
		d.View = p.name("view")
		p.oneDrop()
		return d
	}
	p.refuseAbsent(absentObjects)
	p.fail("expected TABLE, INDEX or VIEW, found %s%s", p.found(),
		p.meant("TABLE", "INDEX", "VIEW"))
	return nil
}
