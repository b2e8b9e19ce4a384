package compaction

import (
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

// Concat returns the entries of sources one after the other: those of the files of
// a run, in key order. A source is not asked for anything before its turn.
func Concat(sources ...cursor.Source) cursor.Source {
	if len(sources) == 1 {
		return sources[0]
	}
	return &concat{rest: sources}
}

type concat struct {
	current cursor.Source // nil before the first
	rest    []cursor.Source
}

// Rows implements cursor.Source.
func (c *concat) Rows() []base.Entry {
	for {
		if c.current != nil {
			if rows := c.current.Rows(); len(rows) > 0 || c.current.Err() != nil {
				return rows
			}
		}
		if len(c.rest) == 0 {
			return nil
		}
		c.current, c.rest = c.rest[0], c.rest[1:]
	}
}

// Err implements cursor.Source.
func (c *concat) Err() error {
	if c.current == nil {
		return nil
	}
	return c.current.Err()
}
