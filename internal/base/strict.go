package base

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// UnmarshalStrict reads one JSON value, all of data, and refuses members that it does not know.
func UnmarshalStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}
