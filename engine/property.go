package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"unicode/utf8"

	"github.com/kstonedb/kstone/internal/manifest"
)

// MaxPropertyBytes bounds all properties of a database together.
const MaxPropertyBytes = 256 << 10

// settings is the part of the manifest that the engine keeps: the properties of layers
// above, small named values that change rarely, and its own under settingsProperty. Format:
// JSON, values in base64.
type settings struct {
	Properties map[string][]byte `json:"properties"`
}

// SetProperty stores a small named value in the database, durably; nil removes it.
// The name is UTF-8 text. Layers above keep schemas and the like in properties. It
// costs a sync.
func (db *DB) SetProperty(name string, value []byte) error {
	if err := db.writable(); err != nil {
		return err
	}
	if name == "" || !utf8.ValidString(name) {
		return invalid("property name %q: want UTF-8 text", name)
	}
	_, end, err := db.calls.begin(context.Background())
	if err != nil {
		return err
	}
	defer end()
	var refused error
	err = db.upkeep.Edit(func(state *manifest.State) *manifest.Edit {
		var blob []byte
		if blob, refused = withProperty(state.Settings, name, value); refused != nil {
			return nil
		}
		return &manifest.Edit{Settings: blob}
	})
	return cmp.Or(refused, db.upkeep.Fail(err))
}

// withProperty returns stored settings with another value of a property; nil removes it.
func withProperty(stored []byte, name string, value []byte) ([]byte, error) {
	s, err := decodeSettings(stored)
	if err != nil {
		return nil, err
	}
	next := s.with(name, value)
	blob, err := next.encode()
	if err == nil && value != nil && len(blob) > MaxPropertyBytes {
		err = tooLarge("properties", int64(len(blob)), MaxPropertyBytes)
	}
	return blob, err
}

// with returns s with another value of a property; nil removes it.
func (s *settings) with(name string, value []byte) settings {
	next := settings{Properties: maps.Clone(s.Properties)}
	if next.Properties == nil {
		next.Properties = make(map[string][]byte)
	}
	if value == nil {
		delete(next.Properties, name)
	} else {
		next.Properties[name] = value
	}
	return next
}

// encode returns s as the manifest stores it.
func (s *settings) encode() ([]byte, error) {
	blob, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("engine: properties: %w", err)
	}
	return blob, nil
}

// Property returns a copy of the named value; ok is false if there is none.
func (db *DB) Property(name string) (value []byte, ok bool) {
	s, err := decodeSettings(db.upkeep.State().Settings)
	if err != nil || name == settingsProperty {
		return nil, false
	}
	value, ok = s.Properties[name]
	return bytes.Clone(value), ok
}

func decodeSettings(blob []byte) (settings, error) {
	var s settings
	if len(blob) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(blob, &s); err != nil {
		return s, &CorruptionError{
			File: "manifest", Offset: -1, What: "settings", Want: "JSON", Got: err.Error(),
		}
	}
	return s, nil
}
