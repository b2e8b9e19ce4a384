package ship

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: an object other than an SST is a header of 128 bytes and a body. All integers are
// little-endian. docs/format/ship.md has the pictures.
//
//	 0  8  magic "KSTNSHIP"           72  8  seq: of the last commit
//	 8  4  version 1                  80  8  history of seq
//	12  4  kind                       88  8  Unix ms: of the last moment
//	16 16  database id                96  8  length of the body
//	32  8  epoch                     104  4  CRC-32C of the body
//	40  8  first slot                108  4  CRC-32C of the properties
//	48  8  last slot                 112  8  history of the seq at 64
//	56  8  slot of the object before 120  4  zero
//	64  8  seq before the first      124  4  CRC-32C of bytes 0..124

// On disk: never change.
const (
	objectMagic   = "KSTNSHIP"
	objectVersion = 1
	headerBytes   = 128

	kindDestination objectKind = 1
	kindEpoch       objectKind = 2
	kindBase        objectKind = 3
	kindLog         objectKind = 4
)

// maxBodyBytes bounds a body: a record has at most 1 GiB, and a log object that is not one record
// is much smaller.
const maxBodyBytes = 1<<30 + 1<<20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type objectKind uint32

// header is the header of an object. What its kind has no use for is zero.
type header struct {
	kind        objectKind
	dbid        [16]byte
	epoch       uint64 // of the shipper; of a destination: its random identity
	slot        uint64 // first; of a base: no commit above seq is in an earlier one
	lastSlot    uint64
	prev        uint64 // last slot of the object before; those in between are void
	from        base.SeqNum
	fromHistory uint64 // not stored in a base
	seq         base.SeqNum
	history     uint64
	ms          int64
	properties  uint32 // checksum of those in force at seq
	bodyBytes   int64
	bodyCRC     uint32
}

// encode returns the object with a body.
func (h *header) encode(body []byte) []byte {
	b := make([]byte, headerBytes, headerBytes+len(body))
	b = append(b, body...)
	h.seal(b)
	return b
}

// seal writes the header of an object, whose body is there, into its first bytes.
func (h *header) seal(b []byte) {
	body := b[headerBytes:]
	h.bodyBytes, h.bodyCRC = int64(len(body)), crc32.Checksum(body, castagnoli)
	clear(b[:headerBytes])
	le := binary.LittleEndian
	copy(b, objectMagic)
	le.PutUint32(b[8:], objectVersion)
	le.PutUint32(b[12:], uint32(h.kind))
	copy(b[16:], h.dbid[:])
	for i, v := range [...]uint64{h.epoch, h.slot, h.lastSlot, h.prev, uint64(h.from),
		uint64(h.seq), h.history, uint64(h.ms), uint64(h.bodyBytes)} {
		le.PutUint64(b[32+8*i:], v)
	}
	le.PutUint32(b[104:], h.bodyCRC)
	le.PutUint32(b[108:], h.properties)
	le.PutUint64(b[112:], h.fromHistory)
	le.PutUint32(b[124:], crc32.Checksum(b[:124], castagnoli))
}

// decodeHeader is the inverse of encode, without the body.
func decodeHeader(name string, b []byte) (h header, err error) {
	const what = "header of a shipped object"
	le := binary.LittleEndian
	if len(b) < headerBytes {
		return h, corrupt.New(name, 0, what, "128 bytes", len(b))
	}
	if string(b[:8]) != objectMagic {
		return h, corrupt.New(name, 0, what, fmt.Sprintf("magic %q", objectMagic),
			fmt.Sprintf("%q", b[:8]))
	}
	if want, got := crc32.Checksum(b[:124], castagnoli), le.Uint32(b[124:]); want != got {
		return h, corrupt.New(name, 124, what, fmt.Sprintf("checksum %08x", want),
			fmt.Sprintf("%08x", got))
	}
	if v := le.Uint32(b[8:]); v != objectVersion {
		return h, corrupt.NewVersion(name, what, objectVersion, v)
	}
	h.kind = objectKind(le.Uint32(b[12:]))
	copy(h.dbid[:], b[16:])
	word := func(i int) uint64 { return le.Uint64(b[32+8*i:]) }
	h.epoch, h.slot, h.lastSlot, h.prev = word(0), word(1), word(2), word(3)
	h.from, h.seq, h.history = base.SeqNum(word(4)), base.SeqNum(word(5)), word(6)
	h.ms, h.bodyBytes = int64(word(7)), int64(word(8))
	h.bodyCRC, h.properties, h.fromHistory = le.Uint32(b[104:]), le.Uint32(b[108:]),
		le.Uint64(b[112:])
	if h.lastSlot < h.slot || h.prev > h.slot || h.seq < h.from || h.seq > base.MaxSeqNum ||
		h.bodyBytes < 0 || h.bodyBytes > maxBodyBytes {
		return h, corrupt.New(name, 40, what, "slots, commits and a length in range",
			fmt.Sprintf("%+v", h))
	}
	return h, nil
}

// decodeObject checks a whole object.
func decodeObject(name string, kind objectKind, b []byte) (h header, body []byte, err error) {
	if h, err = decodeHeader(name, b); err != nil {
		return h, nil, err
	}
	body = b[headerBytes:]
	if h.kind != kind {
		return h, nil, corrupt.New(name, 12, "kind of a shipped object", kind, h.kind)
	}
	if int64(len(body)) != h.bodyBytes {
		return h, nil, corrupt.New(name, headerBytes, "body of a shipped object",
			fmt.Sprintf("%d bytes", h.bodyBytes), len(body))
	}
	if got := crc32.Checksum(body, castagnoli); got != h.bodyCRC {
		return h, nil, corrupt.New(name, headerBytes, "body of a shipped object",
			fmt.Sprintf("checksum %08x", h.bodyCRC), fmt.Sprintf("%08x", got))
	}
	return h, body, nil
}

// attempts is how often an object is read before an error counts. Why: a survey reads hundreds of
// headers, which a bad destination leaves out of some answers.
const attempts = 4

// try calls f until it succeeds, or fails in a way that another attempt does not change.
func try(ctx context.Context, f func() error) (err error) {
	for range attempts {
		err = f()
		if err == nil || errors.Is(err, errNotExist) || errors.Is(err, corrupt.ErrCorrupt) ||
			ctx.Err() != nil {
			break
		}
	}
	return err
}

// get returns an object.
func get(ctx context.Context, d Destination, name string, kind objectKind) (h header,
	body []byte, err error) {
	err = try(ctx, func() error {
		b, err := read(ctx, d, name, 0, -1)
		if err != nil {
			return err
		}
		h, body, err = decodeObject(name, kind, b)
		if errors.Is(err, corrupt.ErrCorrupt) {
			err = cmp.Or(checkRead(ctx, d, name, int64(len(b))), err)
		}
		return err
	})
	return h, body, err
}

// getHeader returns the header of an object.
func getHeader(ctx context.Context, d Destination, name string) (h header, err error) {
	err = try(ctx, func() error {
		b, err := read(ctx, d, name, 0, headerBytes)
		if err != nil {
			return err
		}
		h, err = decodeHeader(name, b)
		if errors.Is(err, corrupt.ErrCorrupt) && len(b) < headerBytes {
			err = cmp.Or(checkRead(ctx, d, name, int64(len(b))), err)
		}
		return err
	})
	return h, err
}

// checkRead returns an error if an object has another size than was read of it. Why: an answer
// that ends early is not damage, which a shipper would ship past.
func checkRead(ctx context.Context, d Destination, name string, got int64) error {
	info, err := d.Head(ctx, name)
	if err == nil && info.SizeBytes != got {
		err = fmt.Errorf("get %s: %d of %d bytes: %w", name, got, info.SizeBytes,
			io.ErrUnexpectedEOF)
	}
	return err
}

// read returns bytes of an object, at most what an object may have.
func read(ctx context.Context, d Destination, name string, off, n int64) ([]byte, error) {
	r, err := d.Get(ctx, name, off, n)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(io.LimitReader(r, headerBytes+maxBodyBytes+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("get %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// Names. On disk: never change.
const (
	destinationName = "destination"
	epochPrefix     = "epoch/"
	basePrefix      = "base/"
	logPrefix       = "log/"
	sstPrefix       = "sst/"
)

func epochName(epoch uint64) string { return fmt.Sprintf("%s%010d", epochPrefix, epoch) }

func baseName(seq base.SeqNum, epoch, n uint64) string {
	return fmt.Sprintf("%s%020d-%010d-%d", basePrefix, uint64(seq), epoch, n)
}

// object returns the name of the object with the content of a file.
func (f *file) object() string {
	if f.epoch == 0 {
		return fmt.Sprintf("%s%x", sstPrefix, f.sum)
	}
	return fmt.Sprintf("%s%x-%010d-%d", sstPrefix, f.sum, f.epoch, f.put)
}

func logName(slot, last uint64) string {
	if slot == last {
		return fmt.Sprintf("%s%010d", logPrefix, slot)
	}
	return fmt.Sprintf("%s%010d-%010d", logPrefix, slot, last)
}

// parseEpochName and parseLogName are the inverse of epochName and logName.
func parseEpochName(name string) (epoch uint64, ok bool) {
	epoch, err := strconv.ParseUint(strings.TrimPrefix(name, epochPrefix), 10, 64)
	return epoch, err == nil && epochName(epoch) == name
}

func parseLogName(name string) (slot, last uint64, ok bool) {
	a, b, merged := strings.Cut(strings.TrimPrefix(name, logPrefix), "-")
	slot, err := strconv.ParseUint(a, 10, 64)
	last = slot
	if merged && err == nil {
		last, err = strconv.ParseUint(b, 10, 64)
	}
	return slot, last, err == nil && slot > 0 && slot <= last && logName(slot, last) == name
}
