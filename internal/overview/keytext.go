package overview

import (
	"strings"

	"github.com/kstonedb/kstone/engine/schema"
)

// KeyColumnsText describes columns of a key: "at desc, id".
func KeyColumnsText(t *schema.Table, columns []schema.KeyColumn) string {
	var parts []string
	for _, k := range columns {
		parts = append(parts, keyColumnText(t, k))
	}
	return strings.Join(parts, ", ")
}

// PartitionText describes what chooses the partition of a row: columns, or the buckets of a
// sharded key, "mix64:8(src, at)".
func PartitionText(t *schema.Table) string {
	if !t.Sharded() {
		return KeyColumnsText(t, t.PK)
	}
	names := make([]string, t.ShardColumns)
	for i := range names {
		names[i] = t.Columns[t.SK[i].Ordinal].Name
	}
	return t.Shard.String() + "(" + strings.Join(names, ", ") + ")"
}

func keyColumnText(t *schema.Table, k schema.KeyColumn) string {
	text := t.Columns[k.Ordinal].Name
	if k.Desc {
		text += " desc"
	}
	if k.NullsLast && !k.Desc {
		text += " nulls last"
	}
	return text
}

// IndexText describes an index after its name: "(country, population desc) unique".
func IndexText(t *schema.Table, x *schema.Index) string {
	var parts []string
	for _, c := range x.Columns {
		text := keyColumnText(t, c.KeyColumn)
		if c.Each {
			text = "each " + text
		}
		parts = append(parts, text)
	}
	out := "(" + strings.Join(parts, ", ") + ")"
	if x.Unique {
		out += " unique"
	}
	if len(x.Include) > 0 {
		var names []string
		for _, i := range x.Include {
			names = append(names, t.Columns[i].Name)
		}
		out += " include (" + strings.Join(names, ", ") + ")"
	}
	if x.Sharded() {
		out += " shard " + x.Shard.String()
	}
	if x.Placement == schema.Local {
		out += " local"
	}
	if x.Where != nil {
		out += " where " + x.Where.String()
	}
	if x.State != schema.Ready {
		out += ", " + x.State.String()
	}
	return out
}
