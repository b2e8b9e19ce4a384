package compaction

import "github.com/kstonedb/kstone/internal/cursor"

// Concat returns the entries of sources one after the other: those of the files of
// a run, in key order. A source is not asked for anything before its turn.
func Concat(sources ...cursor.Source) cursor.Source {
	if len(sources) == 1 {
		return sources[0]
	}
	return &concat{rest: sources}
}

type concat struct {
	cursor.Source // the current one, which provides Entry
	rest          []cursor.Source
}

// Next implements cursor.Source.
func (c *concat) Next() bool {
	for {
		if c.Source != nil {
			if c.Source.Next() {
				return true
			}
			if c.Source.Err() != nil {
				return false
			}
		}
		if len(c.rest) == 0 {
			return false
		}
		c.Source, c.rest = c.rest[0], c.rest[1:]
	}
}

// Err implements cursor.Source.
func (c *concat) Err() error {
	if c.Source == nil {
		return nil
	}
	return c.Source.Err()
}
