package readers

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/migrate"
)

// object is a row of sqlite_schema.
type object struct{ kind, name, table, sql string }

// each runs a query and calls scan for each row.
func (s *sqliteFile) each(ctx context.Context, scan func(*sql.Rows) error, query string,
	args ...any) error {
	rows, err := s.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// read reads the definitions.
func (s *sqliteFile) read(ctx context.Context) error {
	var objects []object
	err := s.each(ctx, func(r *sql.Rows) error {
		var o object
		objects = append(objects, o)
		p := &objects[len(objects)-1]
		return r.Scan(&p.kind, &p.name, &p.table, &p.sql)
	}, "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY rowid")
	if err != nil {
		return err
	}
	kinds := map[string]string{}
	err = s.each(ctx, func(r *sql.Rows) error {
		var name, kind string
		err := r.Scan(&name, &kind)
		kinds[name] = kind
		return err
	}, "SELECT name, type FROM pragma_table_list")
	if err != nil {
		return err
	}
	for _, o := range objects {
		switch {
		case strings.HasPrefix(o.name, "sqlite_"), o.kind == "index":
		case o.kind == "trigger" && s.leave(o.table, "the trigger "+o.name):
		case o.kind != "table":
			s.left = append(s.left, fmt.Sprintf("the %s %s", o.kind, o.name))
		case kinds[o.name] != "table":
			s.left = append(s.left, fmt.Sprintf("the %s table %s", kinds[o.name], o.name))
		default:
			if err := s.table(ctx, o, objects); err != nil {
				return fmt.Errorf("table %s: %w", o.name, err)
			}
		}
	}
	return nil
}

// leave notes what of a table is not carried over, if that is.
func (s *sqliteFile) leave(table, what string) bool {
	i := slices.IndexFunc(s.tables, func(t migrate.Table) bool {
		return strings.EqualFold(t.Name, table)
	})
	if i >= 0 {
		s.tables[i].Left = append(s.tables[i].Left, what)
	}
	return i >= 0
}

// sqliteColumn is a row of pragma_table_xinfo.
type sqliteColumn struct {
	name, typ string
	notNull   bool
	def       sql.NullString
	pk        int // the place in the primary key, from 1
	hidden    int // 2 and 3: generated
}

// table reads the definition of a table.
func (s *sqliteFile) table(ctx context.Context, o object, objects []object) error {
	var columns []sqliteColumn
	var names []string
	err := s.each(ctx, func(r *sql.Rows) error {
		var c sqliteColumn
		err := r.Scan(&c.name, &c.typ, &c.notNull, &c.def, &c.pk, &c.hidden)
		columns, names = append(columns, c), append(names, c.name)
		return err
	}, `SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)`, o.name)
	if err != nil {
		return err
	}
	t := migrate.Table{Name: o.name}
	var counts []storage
	if t.Count, counts, err = s.storages(ctx, o.name, names); err != nil {
		return err
	}
	words := wordsOf(o.sql)
	numbers, err := s.numbers(ctx, o.name, columns)
	if err != nil {
		return err
	}
	for i, c := range columns {
		to, note := counts[i].typeOf(c.typ)
		column := migrate.Column{Name: c.name, From: c.typ, To: to, Note: note,
			Nullable: !c.notNull && c.pk == 0, Default: c.def.String}
		if column.From == "" {
			column.From = "no type"
		}
		if c.hidden > 1 {
			column.Note = "generated: its values are stored"
		}
		if c.pk == 1 && numbers {
			column.To = typeNumber
		}
		t.Columns = append(t.Columns, column)
	}
	s.key(&t, columns, counts)
	for word, what := range map[string]string{"CHECK": "CHECK conditions",
		"COLLATE":    "COLLATE: 'a' and 'A' differ, texts are compared by their bytes",
		"REFERENCES": "foreign keys"} {
		if slices.Contains(words, word) {
			t.Left = append(t.Left, what)
		}
	}
	slices.Sort(t.Left)
	if err := s.indexes(ctx, &t, objects); err != nil {
		return err
	}
	if numbers || s.rowids[o.name] != "" {
		err = s.next(ctx, &t, slices.Contains(words, "AUTOINCREMENT"))
	}
	s.tables = append(s.tables, t)
	return err
}

// numbers reports whether the primary key is a column that SQLite numbers: one that is the rowid
// has no index of its own.
func (s *sqliteFile) numbers(ctx context.Context, table string, columns []sqliteColumn) (
	yes bool, err error) {
	key, indexes := 0, 0
	for _, c := range columns {
		key = max(key, c.pk)
	}
	err = s.conn.QueryRowContext(ctx, "SELECT count(*) FROM pragma_index_list(?) WHERE "+
		"origin = 'pk'", table).Scan(&indexes)
	return key == 1 && indexes == 0, err
}

// next finds the next number: after the greatest rowid that there is, or ever was.
func (s *sqliteFile) next(ctx context.Context, t *migrate.Table, ever bool) error {
	name := quoted(t.Key[0])
	if s.rowids[t.Name] != "" {
		name = rowidOf(t)
	}
	err := s.conn.QueryRowContext(ctx, "SELECT min(coalesce(max("+name+"), 0), 1 << 62) + 1 FROM "+
		quoted(t.Name)).Scan(&t.Next)
	if err != nil || !ever {
		return err
	}
	return s.each(ctx, func(r *sql.Rows) error {
		var n int64
		err := r.Scan(&n)
		t.Next = max(t.Next, n)
		return err
	}, "SELECT min(CAST(seq AS INTEGER), 1 << 62) + 1 FROM sqlite_sequence WHERE name = ?", t.Name)
}

// noWords are the comments, texts and names in quotes of a statement.
var noWords = regexp.MustCompile("--[^\n]*|(?s:/\\*.*?(?:\\*/|$))|'[^']*'|\"[^\"]*\"|`[^`]*`|" +
	`\[[^]]*\]`)

// wordsOf returns the words of a statement in capitals.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToUpper(noWords.ReplaceAllString(text, " ")),
		func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// key chooses the primary key: that of the table, or the rowid.
func (s *sqliteFile) key(t *migrate.Table, columns []sqliteColumn, counts []storage) {
	for place := 1; ; place++ {
		i := slices.IndexFunc(columns, func(c sqliteColumn) bool { return c.pk == place })
		if i < 0 {
			break
		}
		if counts[i].nulls > 0 {
			t.Columns[i].Note = "has NULL, and a primary key cannot: the key is the rowid"
			t.Key = nil
			break
		}
		t.Key = append(t.Key, columns[i].name)
	}
	if len(t.Key) > 0 {
		return
	}
	name := "rowid"
	for slices.ContainsFunc(columns, func(c sqliteColumn) bool {
		return strings.EqualFold(c.name, name)
	}) {
		name += "_"
	}
	for i, c := range columns { // those that are no key after all may be NULL
		t.Columns[i].Nullable = !c.notNull
	}
	s.rowids[t.Name], t.Key = name, []string{name}
	t.Columns = append([]migrate.Column{{Name: name, From: "rowid", To: typeNumber,
		Note: "the primary key, since the table has none"}}, t.Columns...)
}

// indexes reads the indexes of a table.
func (s *sqliteFile) indexes(ctx context.Context, t *migrate.Table, objects []object) error {
	type entry struct {
		name, origin    string
		unique, partial bool
	}
	var list []entry
	err := s.each(ctx, func(r *sql.Rows) error {
		var e entry
		err := r.Scan(&e.name, &e.unique, &e.origin, &e.partial)
		if e.origin != "pk" || s.rowids[t.Name] != "" {
			list = append(list, e)
		}
		return err
	}, `SELECT name, "unique", origin, partial FROM pragma_index_list(?) ORDER BY seq DESC`, t.Name)
	if err != nil {
		return err
	}
	for _, e := range list {
		x := migrate.Index{Name: e.name, Unique: e.unique}
		odd := ""
		err := s.each(ctx, func(r *sql.Rows) error {
			var name sql.NullString
			var desc bool
			var collation string
			err := r.Scan(&name, &desc, &collation)
			switch {
			case !name.Valid:
				odd = "it has an expression"
			case collation != "BINARY":
				odd = "it has the collation " + collation
			}
			column := quoted(name.String)
			if desc {
				column += " DESC"
			}
			x.Columns = append(x.Columns, column)
			return err
		}, `SELECT name, "desc", coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno`, e.name)
		if err != nil {
			return err
		}
		if e.origin != "c" { // of a constraint: sqlite_autoindex_t_1
			x.Name = "unique" + strings.TrimPrefix(e.name, "sqlite_autoindex_"+t.Name)
		}
		if e.partial {
			x.Where = whereOf(objects, e.name)
		}
		if odd == "" && e.partial && x.Where == "" {
			odd = "its condition is not known"
		}
		if odd != "" {
			what := "the index "
			if e.unique { // what it keeps out may come in
				what = "the unique index "
			}
			t.Left = append(t.Left, what+e.name+": "+odd)
			continue
		}
		t.Indexes = append(t.Indexes, x)
	}
	return nil
}

// whereOf returns the condition of a partial index.
func whereOf(objects []object, index string) string {
	for _, o := range objects {
		if o.kind == "index" && o.name == index {
			if at := strings.LastIndex(strings.ToUpper(o.sql), "WHERE"); at >= 0 {
				return strings.TrimSpace(o.sql[at+len("WHERE"):])
			}
		}
	}
	return ""
}
