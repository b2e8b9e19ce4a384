package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec/composite"
)

// Index is one composite key of the records of a collection.
type Index struct {
	// Name is the partition of the keys, or the beginning of the partitions of their
	// shards: UTF-8 without zero bytes, 1 to MaxNameBytes bytes, used by nothing else in the
	// database.
	Name string
	Keys *composite.Schema
}

// MaxNameBytes is the length of the longest name of an index.
const MaxNameBytes = 255

// Record is what a collection stores.
type Record struct {
	// Fields has the values of the fields of all keys. Others are ignored.
	Fields map[string]any
	// Payload is any data, up to engine.MaxValueBytes less the parallel keys.
	Payload []byte
}

// ErrNoKey is matched by the errors about fields that no key of the collection begins with.
var ErrNoKey = errors.New("access: no key of the collection begins with these fields")

// Collection is a set of records in a database, reached by one or more composite keys.
type Collection struct {
	db      *engine.DB
	indexes []Index // the primary one first
	// fields has the fields of each index: Schema.Fields copies them.
	fields [][]composite.Field
	// toPrimary has, for each index, the positions of the primary key's fields in it.
	toPrimary [][]int
}

// property is the database property that pins the keys of a collection. On disk.
const property = "access."

// indexJSON is an element of the property: the indexes, the primary one first.
type indexJSON struct {
	Name string            `json:"name"`
	Keys *composite.Schema `json:"keys"`
}

// Open returns the collection with these keys. The first Open of a collection stores their
// descriptions in the database; later ones fail if theirs differ, since they would not find
// the keys that are there. The first Open must not run beside another of the collection.
func Open(db *engine.DB, primary Index, parallel ...Index) (*Collection, error) {
	c := &Collection{db: db, indexes: append([]Index{primary}, parallel...)}
	pinned := make([]indexJSON, len(c.indexes))
	for i, index := range c.indexes {
		if err := c.check(i); err != nil {
			return nil, err
		}
		pinned[i] = indexJSON(index)
		c.fields = append(c.fields, index.Keys.Fields())
		positions := make([]int, primary.Keys.Len())
		for j, f := range primary.Keys.Fields() {
			positions[j] = index.Keys.Index(f.Name)
		}
		c.toPrimary = append(c.toPrimary, positions)
	}
	want, err := json.Marshal(pinned)
	if err != nil {
		return nil, fmt.Errorf("access: describing the keys of %q: %w", primary.Name, err)
	}
	got, ok := db.Property(property + primary.Name)
	switch {
	case !ok:
		return c, db.SetProperty(property+primary.Name, want)
	case string(got) != string(want):
		return nil, fmt.Errorf("access: the keys of %q are stored as %s, not as %s", primary.Name,
			got, want)
	}
	return c, nil
}

// check validates index i against those before it.
func (c *Collection) check(i int) error {
	index, primary := c.indexes[i], c.indexes[0]
	name := index.Name
	switch {
	case name == "" || len(name) > MaxNameBytes || !utf8.ValidString(name) ||
		strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("access: %q is no name of an index: 1 to %d bytes of UTF-8 without"+
			" zero bytes", name, MaxNameBytes)
	case index.Keys == nil:
		return fmt.Errorf("access: index %q has no schema", name)
	case slices.ContainsFunc(c.indexes[:i], func(o Index) bool { return o.Name == name }):
		return fmt.Errorf("access: two indexes have the name %q", name)
	}
	for _, f := range primary.Keys.Fields() {
		at := index.Keys.Index(f.Name)
		if at < 0 {
			return fmt.Errorf("access: index %q lacks the field %q of the primary key: two"+
				" records could have one key", name, f.Name)
		}
		if got := index.Keys.Fields()[at]; got.Type != f.Type || got.Scale < f.Scale {
			return fmt.Errorf("access: index %q has %s, the primary key %s", name, got, f)
		}
	}
	return nil
}

// pk returns the partition that a composite key of the index lies in. Format: the name;
// with shards, a zero byte and the shard behind it.
func (x Index) pk(key []byte) []byte {
	pk := []byte(x.Name)
	if x.Keys.Options().Shard == nil {
		return pk
	}
	return append(append(pk, 0), key[:2]...)
}

// key returns where a composite key of the index is stored.
func (x Index) key(composite []byte) engine.Key {
	return engine.Key{PK: x.pk(composite), SK: composite}
}

// keyOf returns the composite key of index i for a record.
func (c *Collection) keyOf(i int, fields map[string]any) ([]byte, error) {
	x := c.indexes[i]
	values := make([]any, 0, 8)
	for _, f := range c.fields[i] {
		v, ok := fields[f.Name]
		if !ok {
			return nil, fmt.Errorf("access: the record has no field %q, which index %q needs",
				f.Name, x.Name)
		}
		values = append(values, v)
	}
	key, err := x.Keys.Append(make([]byte, 0, x.Keys.Size()), values...)
	if err != nil {
		return nil, fmt.Errorf("access: index %q: %w", x.Name, err)
	}
	return key, nil
}

// choose returns the index of which the given fields are the first ones, in any order,
// and their values in its order. If next is not empty it must be the field behind them.
func (c *Collection) choose(equal map[string]any, next string) (int, []any, error) {
	var why []string
	for i, index := range c.indexes {
		values, problem := match(c.fields[i], equal, next)
		if problem == "" {
			return i, values, nil
		}
		why = append(why, fmt.Sprintf("%s %s", index.Name, problem))
	}
	return 0, nil, fmt.Errorf("%w: %s", ErrNoKey, strings.Join(why, "; "))
}

// chooseWhole returns the index whose fields are the given ones and no others, and their
// values in its order.
func (c *Collection) chooseWhole(equal map[string]any) (int, []any, error) {
	for i := range c.indexes {
		values, problem := match(c.fields[i], equal, "")
		if problem == "" && len(values) == len(c.fields[i]) {
			return i, values, nil
		}
	}
	i, values, err := c.choose(equal, "")
	if err == nil {
		err = fmt.Errorf("%w: %s has more fields than %d; use PrefixScan", ErrNoKey,
			c.indexes[i].Name, len(values))
	}
	return 0, nil, err
}

// match returns the values of the fields in their order, or what is wrong with them.
func match(fields []composite.Field, equal map[string]any, next string) ([]any, string) {
	values := make([]any, 0, len(fields))
	for _, f := range fields {
		v, ok := equal[f.Name]
		if !ok {
			break
		}
		values = append(values, v)
	}
	used := len(values)
	switch {
	case used < len(equal):
		for name := range equal {
			named := func(f composite.Field) bool { return f.Name == name }
			if !slices.ContainsFunc(fields, named) {
				return nil, fmt.Sprintf("lacks %q", name)
			}
		}
		return nil, fmt.Sprintf("would skip %q", fields[used].Name)
	case next == "":
	case used == len(fields):
		return nil, fmt.Sprintf("has no %q behind them", next)
	case fields[used].Name != next:
		return nil, fmt.Sprintf("has %q before %q", fields[used].Name, next)
	}
	return values, ""
}
