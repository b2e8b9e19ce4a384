package compare

import "path/filepath"

// sqliteSource names a database of SQLite, with a log and as durable as the others: each commit is
// synced.
func sqliteSource(dir string) string {
	return "file:" + filepath.Join(dir, "sqlite.db") +
		"?_journal_mode=WAL&_synchronous=FULL&_foreign_keys=off&_fk=0"
}
