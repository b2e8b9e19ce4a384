package sql

import (
	"strings"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// catalog knows the tables and views that the names in a statement stand for. Implementations may
// be called concurrently.
type catalog interface {
	// Schema returns the table with exactly that name, or nil. The same
	// pointer means that nothing has changed.
	Schema(name string) *schema.Table
	// Names returns the names of all tables.
	Names() []string
	// View returns the view with exactly that name, or nil, as Schema does.
	View(name string) *table.View
	// Views returns the names of all views.
	Views() []string
}

// hint returns the end of a message about an unknown name.
func hint(name string, candidates []string) string {
	near := syntax.Nearest(name, candidates)
	if near != "" && near != name { // the name may be there by now
		return "; did you mean " + syntax.QuoteName(near) + "?"
	}
	return ""
}

// columnNames returns the columns of a table that are not dropped.
func columnNames(t *schema.Table) []string {
	var names []string
	for i := range t.Columns {
		if !t.Columns[i].Dropped {
			names = append(names, t.Columns[i].Name)
		}
	}
	return names
}

// indexNames returns the indexes of a table.
func indexNames(t *schema.Table) []string {
	var names []string
	for _, x := range t.Indexes {
		names = append(names, x.Name)
	}
	return names
}

// columnNamed returns the ordinal of a column: of the one with exactly that name, or else
// of the only one that differs in case, or -1.
func columnNamed(t *schema.Table, name string) int {
	if i := t.Column(name); i >= 0 {
		return i
	}
	found := -1
	for i := range t.Columns {
		if !t.Columns[i].Dropped && strings.EqualFold(t.Columns[i].Name, name) {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}
