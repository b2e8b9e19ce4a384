package crosscheck

import (
	"fmt"
	"strings"
)

// viewNames are words that have to be in quotes wherever a view of a view is read again.
var viewNames = []string{`"lateral"`, `"group"`, `"if"`, `"a ""view"""`, `"Recursive"`}

// addViews makes views in both databases. Each has the columns of a table and no two rows with one
// id, so that it may stand wherever a table does, in other views, too.
func (p *pair) addViews(g *generator, count int) {
	for i := range count {
		of := g.tables[g.rng.IntN(len(g.tables))]
		names := append(viewNames, fmt.Sprint("view", i))
		view := tableInfo{name: names[min(i, len(viewNames))], columns: of.columns, rows: of.rows}
		text := "CREATE VIEW " + view.name + " AS " + g.viewOf(&of)
		p.both(text, translated(text))
		g.tables = append(g.tables, view)
		g.views++
	}
}

// viewOf returns the query of a view.
func (g *generator) viewOf(of *tableInfo) string {
	x := source{of, "x"}
	other := g.base().name // SQLite has indexes of tables only
	condition := g.condition([]source{x}, 1)
	columns := "x." + strings.ReplaceAll(names(of.columns), ", ", ", x.")
	read := "SELECT " + columns + " FROM " + of.name + " x "
	switch g.rng.IntN(9) {
	case 0:
		return "SELECT DISTINCT " + columns + " FROM " + of.name + " x"
	case 1:
		return read + "JOIN " + other + " y ON x.id = y.id WHERE " + condition
	case 2:
		return read + "LEFT JOIN " + other + " y ON x.id = y.id AND y.grade > 5 WHERE " +
			condition + " OR y.id IS NULL"
	case 3:
		return read + "WHERE " + condition + " GROUP BY " + columns
	case 4:
		return read + "ORDER BY x.id LIMIT 200 OFFSET 3"
	case 5:
		columns := strings.Replace(columns, "x.id", "coalesce(x.id, y.id) AS id", 1)
		return "SELECT " + columns + " FROM " + of.name + " x FULL JOIN " + other +
			" y ON x.id = y.id"
	case 6:
		return read + "WHERE x.grade < 6 UNION ALL " + read +
			"WHERE x.grade >= 6 OR x.grade IS NULL"
	case 7:
		columns := strings.Replace(columns, "x.grade", "x.grade % 7 + 1 AS grade", 1)
		return "SELECT " + columns + " FROM " + of.name + " x WHERE x.id IN (SELECT y.id FROM " +
			other + " y WHERE y.grade <> 3)"
	}
	return read + "WHERE " + condition
}
