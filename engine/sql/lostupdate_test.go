package sql_test

import (
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine/sql"
)

// TestSubqueriesOfUpdate: what a subquery in SET has read holds when the rows are written, so that
// updates at a time lose none.
func TestSubqueriesOfUpdate(t *testing.T) {
	db := openDB(t)
	s := sql.Open(db)
	exec(t, s, "CREATE TABLE n (id INT PRIMARY KEY, v INT, l INT[])")
	exec(t, s, "INSERT INTO n VALUES (1, 0, []), (2, 0, [])")
	const writers, each = 4, 50
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			own := sql.Open(db)
			for range each {
				_, err := own.Exec(t.Context(), "UPDATE n SET v = (SELECT max(v) FROM n) + 1, "+
					"l = [(SELECT max(v) FROM n)] WHERE id = 1")
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	rows, err := s.Query(t.Context(), "SELECT v, l FROM n WHERE id = 1")
	ok(t, err)
	for row, err := range rows.All() {
		if err != nil || row[0].String() != "200" || row[1].String() != "ARRAY[199]" {
			t.Errorf("%v, %v after %d updates", row, err, writers*each)
		}
	}
}
