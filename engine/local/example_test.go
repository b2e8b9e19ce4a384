package local_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// exampleDB opens a database in memory that retains log and versions.
func exampleDB() (*table.DB, *engine.DB, *sql.Session) {
	db, err := local.OpenDir(context.Background(), "shop", &local.Options{Engine: &engine.Options{
		InMemory: true, RetainBytes: 64 << 20, RetainAge: time.Hour, RetainVersions: time.Hour}})
	check(err)
	return db, local.Engine(db), sql.Open(db)
}

func execute(s *sql.Session, text string, args ...any) {
	_, err := s.Exec(context.Background(), text, args...)
	check(err)
}

// rowsOf yields the rows of a query as text.
func rowsOf(ctx context.Context, s *sql.Session, text string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		rows, err := s.Query(ctx, text)
		check(err)
		for row, err := range rows.All() {
			var words []string
			for _, v := range row {
				words = append(words, strings.Trim(v.String(), "'"))
			}
			if !yield(strings.Join(words, " "), err) {
				return
			}
		}
	}
}

// A derived table is kept up to date: what customers have paid in all. Each change is used exactly
// once, since the position is stored in the same transaction as what was made of it.
func ExampleChanges() {
	ctx := context.Background()
	db, e, s := exampleDB()
	defer db.Close()
	execute(s, "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount BIGINT)")
	execute(s, "CREATE TABLE paid (customer TEXT PRIMARY KEY, amount BIGINT)")
	execute(s, "CREATE TABLE positions (name TEXT PRIMARY KEY, position TEXT)")
	execute(s, "INSERT INTO positions VALUES ('paid', '0')")

	add := func(t *sql.Session, customer string, amount int64) {
		execute(t, "INSERT INTO paid VALUES (?, ?) ON CONFLICT (customer) DO UPDATE "+
			"SET amount = amount + excluded.amount", customer, amount)
	}
	catchUp := func() {
		text := ""
		for row, err := range rowsOf(ctx, s, "SELECT position FROM positions") {
			check(err)
			text = row
		}
		from, err := engine.ParsePosition(text)
		check(err)
		o := &local.ChangesOptions{Tables: []string{"orders"}, Before: true, Stop: true}
		for c, err := range local.Changes(ctx, e, from, o) {
			check(err)
			execute(s, "BEGIN")
			if c.Before != nil {
				customer, _ := c.Before[1].AsString()
				amount, _ := c.Before[2].AsInt()
				add(s, customer, -amount)
			}
			if c.After != nil {
				customer, _ := c.After[1].AsString()
				amount, _ := c.After[2].AsInt()
				add(s, customer, amount)
			}
			execute(s, "UPDATE positions SET position = ?", c.Next().String())
			execute(s, "COMMIT")
		}
	}

	execute(s, "INSERT INTO orders VALUES (1, 'Ada', 10), (2, 'Eve', 5), (3, 'Ada', 7)")
	catchUp()
	execute(s, "UPDATE orders SET amount = 8 WHERE id = 3")
	execute(s, "DELETE FROM orders WHERE id = 2")
	catchUp()
	catchUp() // nothing is counted twice
	for row, err := range rowsOf(ctx, s, "SELECT customer, amount FROM paid ORDER BY customer") {
		check(err)
		fmt.Println(row)
	}
	// Output:
	// Ada 18
	// Eve 0
}

// A cache of rows forgets what has changed.
func ExampleChanges_cache() {
	ctx := context.Background()
	db, e, s := exampleDB()
	defer db.Close()
	execute(s, "CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT)")
	execute(s, "INSERT INTO people VALUES (1, 'Ada'), (2, 'Eve')")
	cache := map[int64]string{1: "Ada", 2: "Eve"}
	from := engine.Position{Version: e.Metrics().LastVersion + 1}

	execute(s, "UPDATE people SET name = 'Eva' WHERE id = 2")
	o := &local.ChangesOptions{Tables: []string{"people"}, Stop: true} // a program goes on
	for c, err := range local.Changes(ctx, e, from, o) {
		check(err)
		if c.Key != nil {
			id, _ := c.Key[0].AsInt()
			delete(cache, id)
		}
	}
	fmt.Println(cache)
	// Output: map[1:Ada]
}

// An index outside of the database, of the words of texts, begins with a snapshot and goes on with
// the changes after it. What a crash lets come again does no harm: the index has words by key.
func ExampleChanges_outsideIndex() {
	ctx := context.Background()
	db, e, s := exampleDB()
	defer db.Close()
	execute(s, "CREATE TABLE notes (id BIGINT PRIMARY KEY, text TEXT)")
	execute(s, "INSERT INTO notes VALUES (1, 'tea and cake'), (2, 'tea')")

	words := map[string]map[int64]bool{}
	set := func(id int64, text string, there bool) {
		for word := range strings.FieldsSeq(text) {
			if words[word] == nil {
				words[word] = map[int64]bool{}
			}
			if words[word][id] = there; !there {
				delete(words[word], id)
			}
		}
	}
	snap, consumer, err := e.SnapshotChanges(ctx, "words")
	check(err)
	then, err := local.Past(ctx, e, snap, nil)
	check(err)
	rows, err := sql.Open(then).Query(ctx, "SELECT id, text FROM notes")
	check(err)
	for row, err := range rows.All() {
		check(err)
		id, _ := row[0].AsInt()
		text, _ := row[1].AsString()
		set(id, text, true)
	}
	check(then.Close())
	check(snap.Close())

	execute(s, "UPDATE notes SET text = 'cake' WHERE id = 2")
	o := &local.ChangesOptions{Consumer: consumer, Before: true, Stop: true}
	for c, err := range local.Changes(ctx, e, engine.Position{}, o) {
		check(err)
		id, _ := c.Key[0].AsInt()
		if c.Before != nil {
			text, _ := c.Before[1].AsString()
			set(id, text, false)
		}
		if c.After != nil {
			text, _ := c.After[1].AsString()
			set(id, text, true)
		}
		check(consumer.Ack(c.Next()))
	}
	for _, word := range []string{"cake", "tea"} {
		fmt.Println(word, slices.Sorted(maps.Keys(words[word])))
	}
	// Output:
	// cake [1 2]
	// tea [1]
}
