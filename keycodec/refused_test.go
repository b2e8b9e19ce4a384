package keycodec_test

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

// decoder is a decoder of any type.
type decoder func(b []byte) (v any, rest []byte, err error)

func decoderOf[T any](decode func([]byte) (T, []byte, error)) decoder {
	return func(b []byte) (any, []byte, error) { return decode(b) }
}

var decoders = map[string]decoder{
	"int8": decoderOf(keycodec.DecodeInt8), "int16": decoderOf(keycodec.DecodeInt16),
	"int32": decoderOf(keycodec.DecodeInt32), "int64": decoderOf(keycodec.DecodeInt64),
	"uint8": decoderOf(keycodec.DecodeUint8), "uint16": decoderOf(keycodec.DecodeUint16),
	"uint32": decoderOf(keycodec.DecodeUint32), "uint64": decoderOf(keycodec.DecodeUint64),
	"bool": decoderOf(keycodec.DecodeBool), "float32": decoderOf(keycodec.DecodeFloat32),
	"float64": decoderOf(keycodec.DecodeFloat64), "uuid": decoderOf(keycodec.DecodeUUID),
	"decimal": decoderOf(keycodec.DecodeDecimal), "ip": decoderOf(keycodec.DecodeIP),
	"ipprefix": decoderOf(keycodec.DecodeIPPrefix), "string": decoderOf(keycodec.DecodeString),
	"bytes": decoderOf(keycodec.DecodeBytes),
	"key":   decoderOf(keycodec.DecodeLengthPrefixed),
	"ordered": func(b []byte) (any, []byte, error) {
		k, _, err := keycodec.DecodeOrdered(b, nil)
		if _, whole := keycodec.OrderedPKLen(b); whole != (err == nil) {
			return nil, nil, fmt.Errorf("there is a partition key: %v, error %w", whole, err)
		}
		return k, nil, err
	},
	"tagged": func(b []byte) (any, []byte, error) {
		v, err := keycodec.DecodeTagged(b)
		if err != nil {
			return v, nil, err
		}
		text, err := keycodec.FormatTagged(b)
		return text, nil, err
	},
	"fixed": decoderOf(func(b []byte) (keycodec.Decimal, []byte, error) {
		return keycodec.DecodeFixed(b, 2)
	}),
	"null": decoderOf(func(b []byte) (bool, []byte, error) {
		return keycodec.DecodeNull(b, false)
	}),
	"nulllast": decoderOf(func(b []byte) (bool, []byte, error) {
		return keycodec.DecodeNull(b, true)
	}),
	"second": timeDecoder(keycodec.Second), "ms": timeDecoder(keycodec.Millisecond),
	"full": timeDecoder(keycodec.FullRange),
}

// timeDecoder gives seconds: the year of a time.Time is an int, which may have 32 bits.
func timeDecoder(u keycodec.Unit) decoder {
	return func(b []byte) (any, []byte, error) {
		v, rest, err := keycodec.DecodeTime(b, u)
		if err != nil {
			return v, rest, err
		}
		return fmt.Sprintf("%d.%09d s", v.Unix(), v.Nanosecond()), rest, nil
	}
}

// TestDecodersSayWhatIsWrong has, for each decoder, bytes of each class that it refuses and
// those next to them that it takes. After an error there is neither a value nor a rest.
func TestDecodersSayWhatIsWrong(t *testing.T) {
	datadriven.RunTest(t, "testdata/refused/decoders", func(t *testing.T,
		d *datadriven.TestData) string {
		return eachLine(d.Input, func(line string) string {
			v, rest, err := decoders[d.Cmd](unhex(t, line))
			if err == nil {
				text := strings.Trim(strconv.Quote(fmt.Sprint(v)), `"`)
				return fmt.Sprintf("%s, then %x", text, rest)
			}
			// Of these it is 0 with its sign flipped.
			narrow := strings.HasPrefix(d.Cmd, "int") && d.Cmd != "int64"
			if rest != nil || v != nil && !narrow && !reflect.ValueOf(v).IsZero() {
				t.Errorf("%s: %s is refused, but gives %v and %x", d.Pos, line, v, rest)
			}
			return err.Error()
		})
	})
}

// TestTuplesSayWhereTheyAreWrong reads damaged tuples.
func TestTuplesSayWhereTheyAreWrong(t *testing.T) {
	datadriven.RunTest(t, "testdata/refused/tuples", func(t *testing.T,
		d *datadriven.TestData) string {
		form, lines, _ := strings.Cut(d.Input, "\n")
		s := schemaOf(t, form)
		return form + "\n" + eachLine(lines, func(line string) string {
			b := unhex(t, line)
			values, err := s.Decode(b)
			if err == nil {
				return fmt.Sprint(values)
			}
			return err.Error()
		})
	})
}

func eachLine(lines string, f func(line string) string) string {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		fmt.Fprintf(&out, "%s: %s\n", line, f(strings.Trim(line, "-")))
	}
	return out.String()
}

// offsetOf returns the offset of a corruption, -1 of another error.
func offsetOf(err error) int64 {
	var e *corrupt.Error
	if !errors.As(err, &e) {
		return -1
	}
	return e.Offset
}
