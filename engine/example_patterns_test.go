package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/engine"
)

// A version makes a write conditional on nobody else having written since the read.
func ExampleDB_PutIf() {
	db := memory()
	defer db.Close()
	key := engine.K("document")
	_ = db.Put(key, []byte("draft"))

	seen, err := db.GetItem(key)
	if err != nil {
		log.Fatal(err)
	}
	_ = db.Put(key, []byte("changed by somebody else"))

	err = db.PutIf(key, []byte("final"), engine.IfVersion(seen.Version))
	var failed *engine.ConditionError
	if errors.As(err, &failed) {
		fmt.Printf("read version %d, now it is %d\n", seen.Version, failed.Version)
	}
	// Output: read version 1, now it is 2
}

// A range delete costs the same for three items and for three million.
func ExampleDB_DeleteRange() {
	db := memory()
	defer db.Close()
	for _, day := range []string{"2026-01-30", "2026-01-31", "2026-02-01"} {
		_ = db.Put(engine.K("sensor#1", day), nil)
	}
	january := engine.SKBeginsWith([]byte("2026-01-"))
	if err := db.DeleteRange([]byte("sensor#1"), january); err != nil {
		log.Fatal(err)
	}
	for item, err := range db.Query(context.Background(), engine.Query{PK: []byte("sensor#1")}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", item.Key.SK)
	}
	// Output: 2026-02-01
}

// Segments divide a scan among goroutines; a partition is always read by one of them.
// Items live until the end of the loop body: Clone keeps them.
func ExampleScan() {
	db := memory()
	defer db.Close()
	for i := range 10 {
		_ = db.Put(engine.Key{PK: fmt.Appendf(nil, "user#%d", i)}, nil)
	}
	snap, err := db.Snapshot() // so that all segments see the same moment
	if err != nil {
		log.Fatal(err)
	}
	defer snap.Close()

	const segments = 4
	var wg sync.WaitGroup
	var mu sync.Mutex
	var users []engine.Item
	for i := range segments {
		wg.Go(func() {
			s := engine.Scan{Segment: i, Segments: segments, Unordered: true}
			for item, err := range snap.Scan(context.Background(), s) {
				if err != nil {
					log.Fatal(err)
				}
				mu.Lock()
				users = append(users, item.Clone())
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.SortFunc(users, func(a, b engine.Item) int { return bytes.Compare(a.Key.PK, b.Key.PK) })
	fmt.Printf("%d users, %s to %s\n", len(users), users[0].Key.PK, users[9].Key.PK)
	// Output: 10 users, user#0 to user#9
}

// A cursor travels as text: a service hands it to its client and gets it back.
func ExampleParseCursor() {
	db := memory()
	defer db.Close()
	for _, sk := range []string{"a", "b", "c"} {
		_ = db.Put(engine.K("list", sk), nil)
	}
	page := func(after string) (items, next string) {
		q := engine.Query{PK: []byte("list"), Limit: 2}
		if after != "" {
			c, err := engine.ParseCursor(after)
			if err != nil {
				return err.Error(), ""
			}
			q.After = c
		}
		for item, err := range db.Query(context.Background(), q) {
			if err != nil {
				return err.Error(), ""
			}
			items += string(item.Key.SK)
			next = q.CursorAfter(item).String()
		}
		return items, next
	}
	first, next := page("")
	second, _ := page(next)
	damaged, _ := page(next[:8] + "A" + next[9:])
	fmt.Println(first)
	fmt.Println(second)
	fmt.Println(damaged)
	// Output:
	// ab
	// c
	// engine: invalid cursor: checksum differs
}

// View reads several keys at one moment.
func ExampleDB_View() {
	db := memory()
	defer db.Close()
	b := engine.NewBatch()
	_ = b.Put(engine.K("alice"), []byte("60"))
	_ = b.Put(engine.K("bob"), []byte("40"))
	_ = db.Apply(context.Background(), b)

	err := db.View(context.Background(), func(tx *engine.Tx) error {
		for _, name := range []string{"alice", "bob"} {
			v, err := tx.Get(engine.Key{PK: []byte(name)})
			if err != nil {
				return err
			}
			fmt.Printf("%s %s\n", name, v)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// alice 60
	// bob 40
}

// Many writes at Process and one Sync: fast, and durable together at the end.
func ExampleDB_Sync() {
	db := memory()
	defer db.Close()
	for i := range 1000 {
		key := engine.Key{PK: fmt.Appendf(nil, "row#%d", i)}
		if err := db.Put(key, nil, engine.Process); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(db.Sync(context.Background()))
	// Output: <nil>
}

// Errors are distinguished by what a caller would do about them.
func ExampleErrNotFound() {
	db := memory()
	defer db.Close()
	_, err := db.Get(engine.K("nobody"))
	switch {
	case errors.Is(err, engine.ErrNotFound):
		fmt.Println("make one")
	case errors.Is(err, engine.ErrCorrupt):
		fmt.Println("restore a backup:", err) // names file and offset
	case err != nil:
		fmt.Println("give up:", err)
	}
	_, err = db.Get(engine.Key{})
	fmt.Println(errors.Is(err, engine.ErrEmptyPK))
	// Output:
	// make one
	// true
}

// A database as an ordered map of byte keys: each key is a PK without SK.
func ExampleIterator() {
	db := memory()
	defer db.Close()
	for _, k := range []string{"ant", "bee", "cat", "dog"} {
		if err := db.Put(engine.K(k), nil); err != nil {
			log.Fatal(err)
		}
	}
	i, err := db.ScanIterator(context.Background(), engine.Scan{To: engine.K("dog")})
	if err != nil {
		log.Fatal(err)
	}
	defer i.Close()
	for found := i.Seek(engine.K("b")); found; found = i.Next() {
		fmt.Printf("%s ", i.Item().Key.PK)
	}
	for i.Prev() {
		fmt.Printf("%s ", i.Item().Key.PK)
	}
	fmt.Println(i.Err())
	// Output: bee cat cat bee ant <nil>
}
