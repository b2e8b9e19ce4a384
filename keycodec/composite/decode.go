package composite

import (
	"encoding/binary"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

// Part is a field of a decoded key, and where it stands there.
type Part struct {
	Field      Field
	Start, End int // of the encoding, in the key
	Value      any // of the Go types listed at Type
}

// Decode reads a key and returns the values of its fields. It fails with a
// *corrupt.Error, whose offset is a position in key, if Append does not write these
// bytes.
//
// Ownership: the values share no memory with key.
func (s *Schema) Decode(key []byte) ([]any, error) {
	parts, err := s.Parts(key)
	if err != nil {
		return nil, err
	}
	values := make([]any, len(parts))
	for i, p := range parts {
		values[i] = p.Value
	}
	return values, nil
}

// Parts is Decode that also says where each field stands.
func (s *Schema) Parts(key []byte) ([]Part, error) {
	if len(key) > keycodec.MaxKeyBytes {
		return nil, damaged("composite key", keycodec.MaxKeyBytes, "the end", "more bytes")
	}
	at := 0
	if s.o.Shard != nil {
		if at = shardBytes; len(key) < at {
			return nil, damaged("shard", len(key), "2 bytes", len(key))
		}
		if err := s.delimited(key, &at); err != nil {
			return nil, err
		}
	}
	first := at
	parts := make([]Part, len(s.fields))
	for i, f := range s.fields {
		p := Part{Field: f, Start: at}
		var err error
		if p.End, err = s.fieldEnd(key, i, at); err != nil {
			return nil, err
		}
		if p.Value, err = s.decodeField(key, i, p.Start, p.End); err != nil {
			return nil, err
		}
		parts[i], at = p, p.End
		if i < len(s.fields)-1 {
			if err := s.delimited(key, &at); err != nil {
				return nil, err
			}
		}
	}
	if at < len(key) {
		return nil, damaged("composite key", at, "the end", fmt.Sprintf("%d more bytes",
			len(key)-at))
	}
	return parts, s.checkBucket(key, first)
}

// checkBucket compares the shard with that of the first field, which begins at first.
func (s *Schema) checkBucket(key []byte, first int) error {
	if s.o.Shard == nil {
		return nil
	}
	want, err := s.bucket(key[first:])
	if err != nil {
		return err
	}
	if got := binary.BigEndian.Uint16(key); got != want {
		return damaged("shard", 0, fmt.Sprintf("%04x, the shard of the first field", want),
			fmt.Sprintf("%04x", got))
	}
	return nil
}

// delimited checks the delimiter at position at and moves after it.
func (s *Schema) delimited(key []byte, at *int) error {
	end := *at + len(s.delimiter)
	if got := key[*at:min(end, len(key))]; string(got) != s.delimiter {
		return damaged("delimiter", *at, fmt.Sprintf("%x", s.delimiter), fmt.Sprintf("%x", got))
	}
	*at = end
	return nil
}

// fieldEnd returns where field i, which begins at position at, ends.
func (s *Schema) fieldEnd(key []byte, i, at int) (int, error) {
	f := s.fields[i]
	switch {
	case !f.variable():
		end := at + f.size()
		if end > len(key) {
			return 0, damaged("field "+f.Name, len(key), fmt.Sprintf("%d bytes", f.size()),
				len(key)-at)
		}
		return end, nil
	case i == len(s.fields)-1:
		return len(key), nil
	}
	// The text contains no byte up to the delimiter's first, so it ends at one.
	n := s.reserved(string(key[at:]))
	if n < 0 {
		return 0, damaged("field "+f.Name, len(key), "a delimiter", "the end")
	}
	return at + n, nil
}

func (s *Schema) decodeField(key []byte, i, start, end int) (any, error) {
	f, b := s.fields[i], key[start:end]
	switch f.Type {
	case Integer:
		v, _, err := keycodec.DecodeInt64(b)
		return v, err
	case Timestamp:
		ms := binary.BigEndian.Uint64(b)
		if ms>>63 != 0 {
			return nil, damaged("field "+f.Name, start, "a time from 1970 on",
				fmt.Sprintf("%x", b))
		}
		return time.UnixMilli(int64(ms)).UTC(), nil
	case UUID:
		return keycodec.UUID(b), nil
	case Decimal:
		v, _, err := keycodec.DecodeInt64(b)
		return keycodec.NewDecimal(v, int32(f.Scale)), err
	}
	n := len(b)
	for !f.variable() && n > 0 && b[n-1] == 0 {
		n--
	}
	text := string(b[:n])
	for j := range n {
		if b[j] == 0 && !f.variable() {
			return nil, damaged("field "+f.Name, start+j, "padding up to the end", "text after it")
		}
	}
	if !utf8.ValidString(text) {
		return nil, damaged("field "+f.Name, start, "UTF-8", fmt.Sprintf("%x", text))
	}
	return text, nil
}

func damaged(what string, offset int, want, got any) error {
	return corrupt.New("", int64(offset), what, want, got)
}
