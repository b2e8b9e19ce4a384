package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

func Example() {
	dir, err := os.MkdirTemp("", "kstone")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	db, err := engine.Open(dir, nil) // nil: default options
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	for _, sk := range []string{"like#7", "post#1", "post#2"} {
		key := engine.K("user#1", sk)
		if err := db.Put(key, []byte("text of "+sk)); err != nil {
			log.Fatal(err)
		}
	}

	v, err := db.Get(engine.K("user#1", "post#1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("got %q\n", v)

	posts := engine.Query{PK: []byte("user#1"), SK: engine.SKBeginsWith([]byte("post#"))}
	for item, err := range db.Query(context.Background(), posts) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", item.Key.SK, item.Value)
	}
	// Output:
	// got "text of post#1"
	// post#1: text of post#1
	// post#2: text of post#2
}

// memory opens a database in memory for an example.
func memory() *engine.DB {
	db, err := engine.Open("example", &engine.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

func ExampleDB_Apply() {
	db := memory()
	defer db.Close()
	b := engine.NewBatch()
	for _, name := range []string{"alice", "bob"} {
		if err := b.Put(engine.Key{PK: []byte(name)}, []byte("100")); err != nil {
			log.Fatal(err)
		}
	}
	if err := db.Apply(context.Background(), b); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Len(), "writes, one commit")
	// Output: 2 writes, one commit
}

func ExampleDB_UpdateRetry() {
	db := memory()
	defer db.Close()
	key := engine.K("counter")
	for range 3 {
		err := db.UpdateRetry(context.Background(), func(tx *engine.Tx) error {
			v, err := tx.Get(key)
			if err != nil && !errors.Is(err, engine.ErrNotFound) {
				return err
			}
			return tx.Put(key, append(v, '+'))
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	v, _ := db.Get(key)
	fmt.Printf("%s\n", v)
	// Output: +++
}

func ExampleIfAbsent() {
	db := memory()
	defer db.Close()
	key := engine.K("name")
	fmt.Println(db.PutIf(key, []byte("first"), engine.IfAbsent()))
	err := db.PutIf(key, []byte("second"), engine.IfAbsent())
	fmt.Println(errors.Is(err, engine.ErrConditionFailed), err)
	// Output:
	// <nil>
	// true engine: condition failed: "name" exists at version 1
}

func ExampleDB_Snapshot() {
	db := memory()
	defer db.Close()
	key := engine.K("k")
	_ = db.Put(key, []byte("before"))
	snap, err := db.Snapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer snap.Close()
	_ = db.Put(key, []byte("after"))
	then, _ := snap.Get(key)
	now, _ := db.Get(key)
	fmt.Printf("%s %s\n", then, now)
	// Output: before after
}

func ExampleQuery_CursorAfter() {
	db := memory()
	defer db.Close()
	for i := range 5 {
		_ = db.Put(engine.Key{PK: []byte("p"), SK: []byte{'0' + byte(i)}}, nil)
	}
	q := engine.Query{PK: []byte("p"), Limit: 2}
	for page := 1; ; page++ {
		n := 0
		for item, err := range db.Query(context.Background(), q) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("page %d: %s\n", page, item.Key.SK)
			q.After = q.CursorAfter(item)
			n++
		}
		if n < q.Limit {
			break
		}
	}
	// Output:
	// page 1: 0
	// page 1: 1
	// page 2: 2
	// page 2: 3
	// page 3: 4
}

// A composite sort key made of typed fields sorts by them, and a prefix of fields
// selects a part of the hierarchy.
func ExampleSKBeginsWith() {
	db := memory()
	defer db.Close()
	place, err := keycodec.NewSchema(
		keycodec.Field{Name: "region", Type: keycodec.TypeString},
		keycodec.Field{Name: "city", Type: keycodec.TypeString},
	)
	if err != nil {
		log.Fatal(err)
	}
	places := [][2]string{{"Lombardy", "Brescia"}, {"Lombardy", "Milan"}, {"Lazio", "Rome"}}
	for _, p := range places {
		sk, err := place.Append(nil, p[0], p[1])
		if err != nil {
			log.Fatal(err)
		}
		_ = db.Put(engine.Key{PK: []byte("IT"), SK: sk}, nil)
	}
	prefix, err := place.AppendPrefix(nil, "Lombardy")
	if err != nil {
		log.Fatal(err)
	}
	q := engine.Query{PK: []byte("IT"), SK: engine.SKBeginsWith(prefix)}
	for item, err := range db.Query(context.Background(), q) {
		if err != nil {
			log.Fatal(err)
		}
		text, _ := place.Format(item.Key.SK)
		fmt.Println(text)
	}
	// Output:
	// Lombardy / Brescia
	// Lombardy / Milan
}

func ExampleWriteOption() {
	var now atomic.Int64 // the clock is also read in the background
	db, err := engine.Open("ttl", &engine.Options{
		InMemory: true, Clock: func() time.Time { return time.UnixMilli(now.Load()) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	key := engine.K("session")
	_ = db.Put(key, []byte("token"), engine.TTL(time.Minute), engine.Process)
	before, _ := db.Has(key)
	now.Add(time.Minute.Milliseconds())
	after, _ := db.Has(key)
	fmt.Println(before, after)
	// Output: true false
}
