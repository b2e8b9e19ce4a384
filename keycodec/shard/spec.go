package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// MaxCount is the largest number of buckets: they are written as two bytes.
const MaxCount = 1 << 16

// TidbCount is the number of buckets that Tidb has in the system it comes from.
const TidbCount = 256

// Bucket is the value of a shard function, below the number of buckets of its Spec.
type Bucket uint16

// ErrIntegersOnly is returned by Spec.Bytes for Tidb and other than 8 bytes.
var ErrIntegersOnly = errors.New("shard: tidb takes integers only")

// Spec says how values are spread over buckets. It belongs to the data and never changes:
// for other buckets the keys have to be written again. Compare specs with ==.
type Spec struct {
	Function Function
	Count    int    // number of buckets, 1 to MaxCount
	Seed     uint64 // 0 for functions that take none; of Murmur3 at most 32 bits
}

// Validate reports whether the spec can be used. The other methods of Spec require that.
func (s Spec) Validate() error {
	switch {
	case !s.Function.valid():
		return fmt.Errorf("shard: unknown %s", s.Function)
	case s.Count < 1 || s.Count > MaxCount:
		return fmt.Errorf("shard: %d buckets are outside 1 to %d", s.Count, MaxCount)
	case s.Seed > s.Function.maxSeed() && s.Function.maxSeed() == 0:
		return fmt.Errorf("shard: %s takes no seed", s.Function)
	case s.Seed > s.Function.maxSeed():
		return fmt.Errorf("shard: seed %d of %s is above %d", s.Seed, s.Function,
			s.Function.maxSeed())
	}
	return nil
}

// Bytes returns the bucket of b. The only error is ErrIntegersOnly. Only Tidb allocates.
func (s Spec) Bytes(b []byte) (Bucket, error) {
	if s.Function == Tidb && len(b) != 8 {
		return 0, ErrIntegersOnly
	}
	return Bucket(s.Function.hash(b, s.Seed) % uint64(s.Count)), nil
}

// Int64 returns the bucket of v: that of its 8 bytes in two's complement, big-endian. An
// unsigned integer has the bucket of int64(u).
func (s Spec) Int64(v int64) Bucket {
	return Bucket(s.hashInt64(v) % uint64(s.Count))
}

func (s Spec) hashInt64(v int64) uint64 {
	switch s.Function { // without a slice that escapes
	case Mix64:
		return mix64Int(uint64(v), s.Seed)
	case Tidb:
		return tidb(uint64(v))
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(v))
	return s.Function.hash(b[:], s.Seed)
}

// Format: the stored form of a spec has EncodedBytes bytes, integers big-endian:
//
//	version 1 | function 1 | count 4 | seed 8 | check 4
//
// Check is the CRC-32C of the bytes before it, followed by the 64 bits that the function
// gives for the integer probe. So it fails for damage, and in a program that computes
// the function differently.

// EncodedBytes is the length of the stored form of a Spec.
const EncodedBytes = 18

const (
	specVersion       = 1
	checkAt           = 14
	probe       int64 = 0x0123456789abcdef
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends the stored form of s, EncodedBytes bytes. It fails, with dst as it was,
// if s is not valid.
func (s Spec) Append(dst []byte) ([]byte, error) {
	if err := s.Validate(); err != nil {
		return dst, err
	}
	start := len(dst)
	dst = append(dst, specVersion, byte(s.Function))
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.Count))
	dst = binary.BigEndian.AppendUint64(dst, s.Seed)
	return binary.BigEndian.AppendUint32(dst, s.check(dst[start:])), nil
}

// check returns the check value for the bytes that describe s.
func (s Spec) check(encoded []byte) uint32 {
	var proof [8]byte
	binary.BigEndian.PutUint64(proof[:], s.hashInt64(probe))
	return crc32.Update(crc32.Checksum(encoded, castagnoli), castagnoli, proof[:])
}

// DecodeSpec reads the stored form of a Spec, which is all of b. It fails with a
// *corrupt.Error, which matches corrupt.ErrVersion for a version or function that this
// program does not know.
func DecodeSpec(b []byte) (Spec, error) {
	const what = "shard spec"
	if len(b) != EncodedBytes {
		return Spec{}, corrupt.New("", int64(min(len(b), EncodedBytes)), what,
			fmt.Sprintf("%d bytes", EncodedBytes), fmt.Sprintf("%d bytes", len(b)))
	}
	if b[0] != specVersion {
		return Spec{}, corrupt.NewVersion("", what, specVersion, b[0])
	}
	s := Spec{Function: Function(b[1]), Seed: binary.BigEndian.Uint64(b[6:])}
	if !s.Function.valid() {
		return Spec{}, corrupt.NewVersion("", what, "a known function", b[1])
	}
	count := binary.BigEndian.Uint32(b[2:])
	if count > MaxCount {
		return Spec{}, corrupt.New("", 2, what, fmt.Sprintf("at most %d buckets", MaxCount), count)
	}
	s.Count = int(count)
	if err := s.Validate(); err != nil {
		return Spec{}, corrupt.New("", 2, what, "a valid spec", err)
	}
	want := binary.BigEndian.Uint32(b[checkAt:])
	if got := s.check(b[:checkAt]); got != want {
		return Spec{}, corrupt.New("", checkAt, what, fmt.Sprintf("check %08x", want),
			fmt.Sprintf("%08x", got))
	}
	return s, nil
}

// String returns the text form, which ParseSpec reads: "md5:256", "mix64:16:seed=7".
func (s Spec) String() string {
	out := s.Function.String() + ":" + strconv.Itoa(s.Count)
	if s.Seed != 0 {
		out += ":seed=" + strconv.FormatUint(s.Seed, 10)
	}
	return out
}

// ParseSpec reads the text form of a spec: the function, the number of buckets and, if
// there is one, the seed.
func ParseSpec(text string) (Spec, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return Spec{}, fmt.Errorf("shard: %q is not of the form function:count[:seed=n]", text)
	}
	f, err := ParseFunction(parts[0])
	if err != nil {
		return Spec{}, err
	}
	s := Spec{Function: f}
	if s.Count, err = strconv.Atoi(parts[1]); err != nil {
		return Spec{}, fmt.Errorf("shard: %q is not a number of buckets", parts[1])
	}
	if len(parts) == 3 {
		digits, ok := strings.CutPrefix(parts[2], "seed=")
		if s.Seed, err = strconv.ParseUint(digits, 10, 64); err != nil || !ok {
			return Spec{}, fmt.Errorf("shard: %q is not of the form seed=n", parts[2])
		}
	}
	return s, s.Validate()
}
