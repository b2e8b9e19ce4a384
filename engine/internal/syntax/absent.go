package syntax

import "strings"

// What other languages have and kstone has not, with what to do instead. A word in its place
// fails with that, and not with what the parser expected.

// absentStatements are the first words of statements.
var absentStatements = map[string]string{
	"TRUNCATE": "TRUNCATE; write DELETE FROM table", "MERGE": "MERGE; write INSERT OR REPLACE",
	"VACUUM": "VACUUM; it is not needed", "USE": "USE; each database is a directory",
	"PRAGMA": "PRAGMA; kstone-cli settings shows the settings", "GRANT": "GRANT", "LOCK": "LOCK",
	"CALL": "CALL", "COPY": "COPY; kstone-cli import and export read and write files",
	"REINDEX": "REINDEX; indexes are never out of date",
}

// absentObjects follow CREATE, ALTER and DROP.
var absentObjects = map[string]string{
	"TRIGGER": "triggers; do it in the program", "TEMP": "temporary tables",
	"TEMPORARY": "temporary tables", "SEQUENCE": "sequences",
	"MATERIALIZED": "materialized views; make a table, and INSERT the query into it",
	"FUNCTION":     "functions of its own language", "PROCEDURE": "procedures",
	"DATABASE": "databases in a database; each is a directory", "SCHEMA": "schemas",
	"USER": "users", "TYPE": "types of its own language",
}

// absentConstraints stand in CREATE TABLE.
var absentConstraints = map[string]string{
	"FOREIGN":    "foreign keys; check them in a transaction",
	"CHECK":      "CHECK; check it in the program",
	"REFERENCES": "foreign keys; check them in a transaction", "CONSTRAINT": "named constraints",
	"AUTOINCREMENT":  autoIncrement,
	"AUTO_INCREMENT": autoIncrement,
	"AUTO_RANDOM":    autoIncrement,
	"GENERATED":      "generated columns",
	"ON":             "ON UPDATE of a column; set it in each UPDATE",
}

const autoIncrement = "keys that it makes itself; give the column the type UUID, and write a " +
	"random one with each row"

// absentChanges follow ALTER TABLE name.
var absentChanges = map[string]string{
	"MODIFY": "changes of types; add a column, UPDATE it from the old one and drop that",
	"CHANGE": "changes of types; RENAME COLUMN name TO name renames one",
}

// oneChange fails if another change of a table follows.
func (p *parser) oneChange() {
	if p.isOp(",") {
		p.fail("kstone makes one change in an ALTER TABLE; write a statement for each")
	}
}

// absentClauses stand after calls, tables and queries.
var absentClauses = map[string]string{
	"OVER":  "window functions; group by what the window is over, or number rows in the program",
	"FETCH": "FETCH; write LIMIT", "WINDOW": "window functions",
}

// refuseAbsent fails if the present token is a word for what kstone has not.
func (p *parser) refuseAbsent(words map[string]string) {
	if p.tok.kind != tokenName {
		return
	}
	if what := words[strings.ToUpper(p.tok.text)]; what != "" {
		p.fail("kstone has no %s", what)
	}
}

// meantAlias is meant for what stands after a query, or before: FORM is taken for an alias.
func (p *parser) meantAlias() string {
	if p.before.kind == tokenName && !reserved[strings.ToLower(p.before.text)] {
		if near := Nearest(p.before.text, clauses); near != "" {
			return "; " + p.before.text + " is taken for a name; did you mean " + near + "?"
		}
	}
	return p.meant(clauses...)
}

// meant is the end of a message about a misspelt keyword.
func (p *parser) meant(words ...string) string {
	if p.tok.kind == tokenName {
		if near := Nearest(p.tok.text, words); near != "" {
			return "; did you mean " + near + "?"
		}
	}
	return ""
}
