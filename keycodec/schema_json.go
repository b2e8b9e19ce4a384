package keycodec

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// Format: the JSON form of a schema is an array of objects with the members name, type
// and, where they apply, unit, scale, collate, keepcase, desc, nullable and nulls:
//
//	[{"name":"at","type":"time","unit":"ms","desc":true,"nullable":true,"nulls":"last"}]
//
// Members that a future version may add make an older version refuse the schema, since
// it could not encode keys the same way.

type fieldJSON struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Unit     string `json:"unit,omitempty"`
	Scale    int32  `json:"scale,omitempty"`
	Collate  string `json:"collate,omitempty"`
	KeepCase bool   `json:"keepcase,omitempty"`
	Desc     bool   `json:"desc,omitempty"`
	Nullable bool   `json:"nullable,omitempty"`
	Nulls    string `json:"nulls,omitempty"`
}

// MarshalJSON implements json.Marshaler. The form is stable: equal schemas give equal
// bytes in every version.
func (s Schema) MarshalJSON() ([]byte, error) {
	out := make([]fieldJSON, len(s.fields))
	for i, f := range s.fields {
		out[i] = fieldJSON{f.Name, f.Type.String(), f.Unit.String(), f.Scale,
			f.Collation.String(), f.KeepCase, f.Desc, f.Nullable, ""}
		if f.NullsLast {
			out[i].Nulls = "last"
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler. It fails, and leaves s unchanged, for
// members it does not know and for everything that NewSchema refuses.
func (s *Schema) UnmarshalJSON(data []byte) error {
	var in []fieldJSON
	if err := base.UnmarshalStrict(data, &in); err != nil {
		return fmt.Errorf("keycodec: reading a schema: %w", err)
	}
	fields := make([]Field, len(in))
	for i, f := range in {
		typ, err := ParseType(f.Type)
		collation := slices.Index(collationNames[:], f.Collate)
		unit := slices.Index(unitNames[:], f.Unit)
		switch {
		case err != nil:
			return fmt.Errorf("keycodec: field %q has the unknown type %q", f.Name, f.Type)
		case unit < 0:
			return fmt.Errorf("keycodec: field %q has the unknown unit %q", f.Name, f.Unit)
		case collation < 0:
			return fmt.Errorf("keycodec: field %q has the unknown collation %q", f.Name, f.Collate)
		case f.Nulls != "" && f.Nulls != "first" && f.Nulls != "last":
			return fmt.Errorf("keycodec: field %q: nulls must be first or last, not %q",
				f.Name, f.Nulls)
		case f.Nulls != "" && !f.Nullable:
			return fmt.Errorf("keycodec: field %q orders NULLs but is not nullable", f.Name)
		}
		fields[i] = Field{f.Name, typ, Unit(unit), f.Desc, f.Nullable, f.Nulls == "last",
			f.Scale, Collation(collation), f.KeepCase}
	}
	read, err := NewSchema(fields...)
	if err != nil {
		return err
	}
	*s = read
	return nil
}
