package composite

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// Format: the stored form of a schema is a JSON object. Its member shard is the stored
// form of the spec in base64, so that reading it proves the function:
//
//	{"version":1,"delimiter":"UNIT_SEPARATOR","shard":"AQIA…",
//	 "fields":[{"name":"user_id","type":"string","width":32}]}

const schemaVersion = 1

type schemaJSON struct {
	Version   int         `json:"version"`
	Delimiter string      `json:"delimiter"`
	Shard     []byte      `json:"shard,omitempty"`
	Fields    []fieldJSON `json:"fields"`
}

type fieldJSON struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Width int    `json:"width,omitempty"`
	Scale int    `json:"scale,omitempty"`
}

// MarshalJSON implements json.Marshaler. The form is stable: equal schemas give equal
// bytes in every version, so that schemas can be compared by them.
func (s *Schema) MarshalJSON() ([]byte, error) {
	out := schemaJSON{Version: schemaVersion, Delimiter: s.o.Delimiter.String()}
	if s.o.Shard != nil {
		var err error
		if out.Shard, err = s.o.Shard.Append(nil); err != nil {
			return nil, err
		}
	}
	for _, f := range s.fields {
		out.Fields = append(out.Fields, fieldJSON{f.Name, f.Type.String(), f.Width, f.Scale})
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler. It fails, and leaves s unchanged, for members
// and versions it does not know and for everything that NewSchema refuses.
func (s *Schema) UnmarshalJSON(data []byte) error {
	var in schemaJSON
	if err := base.UnmarshalStrict(data, &in); err != nil {
		return fmt.Errorf("composite: reading a schema: %w", err)
	}
	if in.Version != schemaVersion {
		return fmt.Errorf("composite: reading a schema: unknown version %d", in.Version)
	}
	var o Options
	var err error
	if o.Delimiter, err = ParseDelimiter(in.Delimiter); err != nil {
		return err
	}
	if in.Shard != nil {
		spec, err := shard.DecodeSpec(in.Shard)
		if err != nil {
			return fmt.Errorf("composite: reading a schema: %w", err)
		}
		o.Shard = &spec
	}
	fields := make([]Field, len(in.Fields))
	for i, f := range in.Fields {
		t := slices.Index(typeNames[:], f.Type)
		if t < int(String) {
			return fmt.Errorf("composite: field %q has the unknown type %q", f.Name, f.Type)
		}
		fields[i] = Field{f.Name, Type(t), f.Width, f.Scale}
	}
	read, err := NewSchema(o, fields...)
	if err != nil {
		return err
	}
	*s = *read
	return nil
}
