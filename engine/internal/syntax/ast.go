package syntax

// Statement is a parsed statement: *Select, *Insert, *Update, *Delete, *Explain,
// *CreateTable, *CreateIndex, *CreateView, *AlterTable, *DropTable, *DropIndex, *DropView,
// *Analyze, *Show or *Transaction.
type Statement interface{ verb() string }

// Name is a name with its position.
type Name struct {
	Pos  int
	Text string
}

// Select is a SELECT statement or subquery.
type Select struct {
	Pos      int
	With     []With
	Set      *SetOperation // instead of all up to Having, or nil
	Distinct bool
	Outputs  []Output
	From     []Source // nil: one row without columns
	Where    Expr     // nil if there is none, as below
	GroupBy  []Expr
	Having   Expr
	OrderBy  []Order
	Limit    Expr
	Offset   Expr
}

// With is a query with a name: name [(columns)] AS (query).
type With struct {
	Name    Name
	Columns []Name
	Query   *Select
}

// SetOperation is UNION [ALL] of two queries or more, or INTERSECT or EXCEPT of two.
type SetOperation struct {
	Op      string // "UNION", "INTERSECT" or "EXCEPT"
	All     bool
	Queries []*Select
}

// Output is a column of a result.
type Output struct {
	Pos   int
	Star  bool   // * or table.*
	Table string // before .*, or empty
	Expr  Expr   // nil for a star
	Alias string
}

// JoinKind says how a source is joined to those before it.
type JoinKind uint8

// The kinds of joins. A comma and CROSS JOIN are inner joins without a condition.
const (
	JoinFirst JoinKind = iota // the first source
	JoinInner
	JoinLeft
	JoinRight // of the second source only
	JoinFull
)

// Source is a table of a FROM clause.
type Source struct {
	Table      Name
	Query      *Select // a subquery, instead of Table
	Alias      string  // as written, or empty
	Join       JoinKind
	On         Expr
	Using      []Name // instead of On
	Natural    bool   // instead of On: USING all columns that both sides have
	Index      string // INDEXED BY
	NotIndexed bool
}

// Order is a term of ORDER BY.
type Order struct {
	Expr  Expr
	Desc  bool
	Nulls NullOrder
}

// NullOrder is where NULLs stand.
type NullOrder uint8

// The orders. NullsDefault is first in ascending order and last in descending order.
const (
	NullsDefault NullOrder = iota
	NullsFirst
	NullsLast
)

// OnConflict is what INSERT does with a row whose primary key is taken.
type OnConflict uint8

// The reactions to a taken primary key.
const (
	ConflictFails    OnConflict = iota
	ConflictReplaces            // INSERT OR REPLACE
	ConflictIgnored             // INSERT OR IGNORE
)

// Insert is an INSERT statement.
type Insert struct {
	Pos      int
	Table    Name
	Columns  []Name // nil: all, in order
	Rows     [][]Expr
	Query    *Select // INSERT … SELECT, instead of Rows
	Conflict OnConflict
	Upsert   *Upsert // ON CONFLICT, or nil
	// Returning are the columns of RETURNING; nil: none.
	Returning []Output
}

// Upsert is ON CONFLICT [(columns)] DO NOTHING, or DO UPDATE SET … [WHERE …].
type Upsert struct {
	Pos     int
	Columns []Name       // of the key that conflicts; nil: any
	Set     []Assignment // nil: DO NOTHING
	Where   Expr
}

// Assignment is a term of SET.
type Assignment struct {
	Column Name
	Value  Expr
}

// Update is an UPDATE statement.
type Update struct {
	Pos       int
	Table     Name
	Set       []Assignment
	Where     Expr
	Returning []Output // or nil
}

// Delete is a DELETE statement.
type Delete struct {
	Pos       int
	Table     Name
	Where     Expr
	Returning []Output // or nil
}

// Explain is EXPLAIN or, with Run, EXPLAIN ANALYZE.
type Explain struct {
	Pos       int
	Run       bool
	Statement Statement // *Select, *Update or *Delete
}

// ColumnDef defines a column.
type ColumnDef struct {
	Name      Name
	Type      TypeName
	Nullable  bool
	Primary   bool // PRIMARY KEY after the column
	Unique    bool // UNIQUE after the column, which is also in Indexes of the table
	Default   Expr
	Collation string
}

// TypeName is a type as written: TIMESTAMP(ms), DECIMAL(10, 2), TEXT[].
type TypeName struct {
	Pos  int
	Name string // in upper case
	Args []string
	List bool
}

// KeyColumn is a column of a key or index.
type KeyColumn struct {
	Name  Name
	Desc  bool
	Nulls NullOrder
	Each  bool // EACH: one entry for every element
}

// CreateTable is a CREATE TABLE statement.
type CreateTable struct {
	Pos       int
	Table     Name
	IfMissing bool
	Columns   []ColumnDef
	Partition []KeyColumn // PARTITION KEY, or the first column of PRIMARY KEY
	Sort      []KeyColumn // SORT KEY, or the other columns of PRIMARY KEY
	Indexes   []CreateIndex
	TTL       *TTL
	Zones     []Name // of ZONES; nil without, not nil for ZONES ()
}

// TTL says when rows expire: After later than the time in Column.
type TTL struct {
	Column Name
	After  string // a duration like 24h, empty for none
}

// CreateIndex is a CREATE INDEX statement or an index inside CREATE TABLE.
type CreateIndex struct {
	Pos          int
	Index        Name
	Table        Name
	IfMissing    bool
	Unique       bool
	Columns      []KeyColumn
	Include      []Name
	Local        bool
	Buckets      int    // SHARD (n); 0: not sharded
	Function     string // SHARD (n, function), empty for the default
	ShardColumns int    // SHARD (n) ON (m): columns that are hashed, 0 for one
	Where        Expr
}

// AlterAction is what ALTER TABLE does.
type AlterAction uint8

// The actions of ALTER TABLE.
const (
	AddColumn AlterAction = iota + 1
	DropColumn
	RenameColumn
	SetDefault
	DropDefault
	RenameTable
	RenameIndex
)

// AlterTable is an ALTER TABLE statement.
type AlterTable struct {
	Pos     int
	Table   Name // empty for RenameIndex: the only table with such an index
	Action  AlterAction
	Add     ColumnDef // AddColumn
	Column  Name      // of the other actions about a column
	Default Expr      // SetDefault
	Index   Name      // RenameIndex
	To      Name      // the new name
}

// CreateView is a CREATE VIEW statement.
type CreateView struct {
	Pos       int
	View      Name
	Replace   bool
	IfMissing bool
	Columns   []Name // nil: as the query has them
	Query     *Select
}

// DropView is a DROP VIEW statement.
type DropView struct {
	Pos      int
	View     Name
	IfExists bool
}

// DropTable is a DROP TABLE statement.
type DropTable struct {
	Pos      int
	Table    Name
	IfExists bool
}

// DropIndex is a DROP INDEX statement.
type DropIndex struct {
	Pos      int
	Index    Name
	Table    Name // empty: the only table with such an index
	IfExists bool
}

// Analyze is an ANALYZE statement: statistics are gathered again.
type Analyze struct {
	Pos   int
	Table Name // empty: all
}

// Show is SHOW TABLES, SHOW INDEX FROM, SHOW CREATE TABLE, or SHOW COLUMNS FROM, which is
// DESCRIBE.
type Show struct {
	Pos   int
	What  string // TABLES, INDEX, CREATE TABLE or COLUMNS
	Table Name   // empty for TABLES
}

// Transaction is a statement about the transaction of a session, named by what it does.
type Transaction struct {
	Pos int
	// Verb is BEGIN, COMMIT, ROLLBACK, SAVEPOINT, RELEASE or ROLLBACK TO.
	Verb      string
	ReadOnly  bool // BEGIN READ ONLY
	Savepoint Name // of the last three
}

func (*Select) verb() string      { return "SELECT" }
func (*Insert) verb() string      { return "INSERT" }
func (*Update) verb() string      { return "UPDATE" }
func (*Delete) verb() string      { return "DELETE" }
func (*Explain) verb() string     { return "EXPLAIN" }
func (*CreateTable) verb() string { return "CREATE TABLE" }
func (*CreateIndex) verb() string { return "CREATE INDEX" }
func (*CreateView) verb() string  { return "CREATE VIEW" }
func (s *AlterTable) verb() string {
	if s.Table.Text == "" {
		return "ALTER INDEX"
	}
	return "ALTER TABLE"
}

func (*DropTable) verb() string     { return "DROP TABLE" }
func (*DropIndex) verb() string     { return "DROP INDEX" }
func (*DropView) verb() string      { return "DROP VIEW" }
func (*Analyze) verb() string       { return "ANALYZE" }
func (*Show) verb() string          { return "SHOW" }
func (s *Transaction) verb() string { return s.Verb }

// Verb returns what a statement does, in the words that it begins with: "CREATE TABLE".
func Verb(s Statement) string { return s.verb() }
