package command

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/overview"
)

const (
	// maxCandidates bounds what a completion fetches.
	maxCandidates = 60
	// completionTime is how long it may take: a person does not wait longer for a Tab.
	completionTime = 300 * time.Millisecond
)

// partitions returns the first partition keys that begin with prefix, without those of tables. It
// jumps from one to the next and never reads a partition.
func partitions(d *cli.Database, prefix string) []string {
	if d.Schema != nil && !d.Schema.PlainPK() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var found []string
	owners, _ := overview.OwnersOf(ctx, d.DB) // nil: all keys are offered
	sc := engine.Scan{Limit: 1}
	if prefix != "" {
		for range d.Query(ctx, engine.Query{PK: []byte(prefix), Limit: 1}) {
			found = append(found, prefix)
		}
		// The lowest key after the partition called prefix itself.
		sc.StartAfter = engine.Key{PK: []byte(prefix + "\x00")}
	}
	for len(found) < maxCandidates {
		n := 0
		for item, err := range d.Scan(ctx, sc) {
			if err != nil || !strings.HasPrefix(string(item.Key.PK), prefix) {
				return found
			}
			pk := string(item.Key.PK)
			if owners == nil || !owners.Of(item.Key.PK).Inner() {
				found = append(found, pk)
			}
			sc.StartAfter = engine.Key{PK: []byte(pk + "\x00")}
			n++
		}
		if n == 0 {
			break
		}
	}
	return found
}

// parts returns the different values of the field of the sort key that follows the
// given ones, for those that begin with prefix.
func parts(d *cli.Database, pkText string, before []string, prefix string) []string {
	pk, err := d.Schema.PK(layout.Arg{Bytes: []byte(pkText)})
	if err != nil || d.Schema == nil {
		return nil
	}
	c := layout.Condition{}
	for _, part := range before {
		c.Prefix = append(c.Prefix, layout.Arg{Bytes: []byte(part)})
	}
	if prefix != "" {
		c.Op, c.A = layout.BeginsWith, layout.Arg{Bytes: []byte(prefix)}
	}
	r, err := d.Schema.Range(c)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var found []string
	for len(found) < maxCandidates {
		n := 0
		for item, err := range d.Query(ctx, engine.Query{PK: pk, SK: r.SK, Filter: r.Filter,
			Limit: 1}) {
			parts := d.Schema.SKParts(item.Key.SK)
			if err != nil || len(parts) <= len(before) ||
				!slices.Equal(parts[:len(before)], before) ||
				!strings.HasPrefix(parts[len(before)], prefix) {
				return found
			}
			found = append(found, parts[len(before)])
			var more bool
			if r, more = d.Schema.NextParts(item.Key.SK, len(before)+1); !more {
				return found
			}
			n++
		}
		if n == 0 {
			break
		}
	}
	return found
}

// itemFields returns the names of the fields of the keys, and of the values of the first items.
func itemFields(d *cli.Database) (names []string) {
	for _, c := range d.Schema.Columns() {
		names = append(names, c.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	for item, err := range d.Scan(ctx, engine.Scan{Unordered: true, Limit: maxCandidates}) {
		if err != nil {
			break
		}
		for _, name := range layout.FieldNames(item.Value) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
