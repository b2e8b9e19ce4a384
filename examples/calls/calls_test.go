// Package calls_test has the calls that docs/migrating.md shows, and compares the page with them.
package calls_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
)

// What the page shows of items runs.
func TestCalls(t *testing.T) {
	ctx := context.Background()
	db, err := engine.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := items(ctx, db); err != nil {
		t.Fatal(err)
	}
	if n, err := below(ctx, db); n != 2 || err != nil {
		t.Errorf("%d items, %v", n, err)
	}
	if err := counted(ctx, db); err != nil {
		t.Error(err)
	}
}

func items(ctx context.Context, db *engine.DB) error {
	err := db.Put(engine.K("users", "1:name"), []byte("Ada"), engine.TTL(time.Hour))
	if err != nil {
		return err
	}
	value, err := db.Get(engine.K("users", "1:name")) // the caller owns value
	if errors.Is(err, engine.ErrNotFound) || string(value) != "Ada" {
		return errors.New("it is not there")
	}
	batch := engine.NewBatch() // one commit, all or nothing
	err = errors.Join(batch.Put(engine.K("users", "1:mail"), []byte("ada@example.org")),
		batch.Delete(engine.K("users", "2:name")))
	if err != nil {
		return err
	}
	return db.Apply(ctx, batch)
}

func below(ctx context.Context, db *engine.DB) (n int, err error) {
	q := engine.Query{PK: []byte("users"), SK: engine.SKBeginsWith([]byte("1:"))}
	for item, err := range db.Query(ctx, q) { // ordered, at one snapshot
		if err != nil {
			return n, err
		}
		n += len(item.Value[:1])
	}
	return n, nil
}

func counted(ctx context.Context, db *engine.DB) error {
	return db.UpdateRetry(ctx, func(tx *engine.Tx) error { // again after a conflict
		value, err := tx.Get(engine.K("users", "count"))
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
		return tx.Put(engine.K("users", "count"), append(value, 'x'))
	})
}

// Promise (manners): The Go code of docs/migrating.md compiles and runs.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "migrating.md"))
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("calls_test.go")
	if err != nil {
		t.Fatal(err)
	}
	flat := func(s string) string { return regexp.MustCompile(`\n\t*`).ReplaceAllString(s, "\n") }
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 3 {
		t.Errorf("%d Go blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(flat(string(code)), flat(b[1])) {
			t.Errorf("this is not part of the code:\n%s", b[1])
		}
	}
}
