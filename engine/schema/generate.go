package schema

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// Generator says what makes the values of a column where a writer gives none.
type Generator uint8

// The generators.
const (
	NotGenerated Generator = iota
	// Identity makes the numbers 1, 2, 3 … with gaps. A number that a writer gives is never made
	// again.
	Identity
	// RandomUUID makes UUIDs of version 7, which begin with the time.
	RandomUUID
	// CurrentTime is the time at which a row is written, or that of its statement.
	CurrentTime
)

// On disk (JSON form): the names.
var generatorNames = [...]string{"", "identity", "uuid", "now"}

// String returns "identity", "uuid", "now", or "" for none.
func (g Generator) String() string {
	if int(g) < len(generatorNames) {
		return generatorNames[g]
	}
	return "unknown"
}

func parseGenerator(name string) (Generator, error) {
	for i, s := range generatorNames {
		if s == name {
			return Generator(i), nil
		}
	}
	return 0, fmt.Errorf("unknown generator %q", name)
}

// IdentityColumn returns the ordinal of the column with the generator Identity, -1 if there is
// none.
func (t *Table) IdentityColumn() int {
	for i := range t.Columns {
		if c := &t.Columns[i]; c.Generated == Identity && !c.Dropped {
			return i
		}
	}
	return -1
}

func (t *Table) validateGenerated() error {
	identities := 0
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Generated == NotGenerated || c.Dropped {
			continue
		}
		kind := c.elementKind()
		switch {
		case c.Generated == CurrentTime && (c.Type != keycodec.TypeTime || c.List ||
			c.Default != nil):
			return fmt.Errorf("column %q is not a time, or has a default, and cannot be the time "+
				"of writing", c.Name)
		case c.Generated == CurrentTime:
		case c.Nullable || c.List || c.Default != nil:
			return fmt.Errorf("column %q is generated and has NULLs, a list or a default", c.Name)
		case c.Generated == Identity && kind != expr.KindInt && kind != expr.KindUint:
			return fmt.Errorf("column %q is not an integer and cannot be an identity", c.Name)
		case c.Generated == RandomUUID && c.Type != keycodec.TypeUUID:
			return fmt.Errorf("column %q is no UUID and cannot be one that is made", c.Name)
		case c.Generated > CurrentTime:
			return fmt.Errorf("column %q has the unknown generator %d", c.Name, c.Generated)
		case c.Generated == Identity:
			identities++
		}
	}
	if identities > 1 {
		return errors.New("two columns are an identity")
	}
	return nil
}
