package ship

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: the body of a log object is a sequence of entries. Integers are little-endian or uvarint.
//
//	05 commit      uvarint length, the packed operations; the seq is 1 more than the last
//	02 history     8: use id of the segment with the commits that follow
//	03 moment      8: Unix ms at which the commits before were there, and none after
//	04 properties  uvarint length, JSON: from the commits before on
//
// That of a base is a uvarint number of files and for each: uvarint length, name; uvarint size;
// 32: SHA-256 of the content; 01 and the content, or 02, uvarint epoch and uvarint number of the
// object with the content. 00: an object of former versions, whose name is the hash alone.

// On disk: never change.
const (
	entryHistory    = 2
	entryMoment     = 3
	entryProperties = 4
	entryCommit     = 5
)

// maxFileName bounds the names of files of a base.
const maxFileName = 64

func appendBytes(dst []byte, kind byte, content []byte) []byte {
	dst = binary.AppendUvarint(append(dst, kind), uint64(len(content)))
	return append(dst, content...)
}

func appendWord(dst []byte, kind byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, kind), v)
}

// entry is an entry of the body of a log object.
type entry struct {
	kind    byte
	content []byte      // of properties; of a commit its payload, valid during the call
	word    uint64      // of a history, of a moment
	seq     base.SeqNum // of the last commit up to here
	history uint64      // of seq
}

// eachEntry calls f for every entry of a log object, and checks that the body is what the header
// says.
func eachEntry(name string, h *header, body []byte, f func(*entry) error) error {
	const what = "entry of a log object"
	bad := func(rest []byte, want string, got any) error {
		return corrupt.New(name, headerBytes+int64(len(body)-len(rest)), what, want, got)
	}
	e := entry{seq: h.from, history: h.fromHistory}
	current := h.fromHistory
	var payload []byte
	for rest := body; len(rest) > 0; {
		at := rest
		e.kind, e.content, e.word = rest[0], nil, 0
		rest = rest[1:]
		switch e.kind {
		case entryHistory, entryMoment:
			if len(rest) < 8 {
				return bad(at, "8 bytes", len(rest))
			}
			e.word, rest = binary.LittleEndian.Uint64(rest), rest[8:]
		case entryCommit, entryProperties:
			n, k := binary.Uvarint(rest)
			if k <= 0 || n > uint64(len(rest)-k) {
				return bad(at, "a length within the body", n)
			}
			e.content, rest = rest[k:k+int(n):k+int(n)], rest[k+int(n):]
		default:
			return bad(at, "a known kind", e.kind)
		}
		switch e.kind {
		case entryHistory:
			current = e.word
		case entryCommit:
			var whole bool
			if payload, whole = unpackOps(payload[:0], e.content); !whole {
				return bad(at, "operations of a commit", fmt.Sprintf("%d other bytes",
					len(e.content)))
			}
			e.content = payload
			e.seq++
			e.history = current
		}
		if err := f(&e); err != nil {
			return err
		}
	}
	if e.seq != h.seq || e.history != h.history {
		return bad(nil, fmt.Sprintf("commit %d of history %016x", h.seq, h.history),
			fmt.Sprintf("%d of %016x", e.seq, e.history))
	}
	return nil
}

// file is a file of a base.
type file struct {
	name    string
	size    int64
	sum     [32]byte
	content []byte // nil: in an object
	epoch   uint64 // of the shipper that has put the object; 0: its name is the hash alone
	put     uint64 // number of the object among those of the epoch
}

// On disk: where the content of a file of a base is.
const (
	inHash   = 0
	inside   = 1
	inObject = 2
)

func appendFiles(dst []byte, files []file) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(files)))
	for i := range files {
		f := &files[i]
		dst = binary.AppendUvarint(dst, uint64(len(f.name)))
		dst = append(dst, f.name...)
		dst = binary.AppendUvarint(dst, uint64(f.size))
		dst = append(dst, f.sum[:]...)
		switch {
		case f.content != nil:
			dst = append(append(dst, inside), f.content...)
		case f.epoch == 0:
			dst = append(dst, inHash)
		default:
			dst = binary.AppendUvarint(append(dst, inObject), f.epoch)
			dst = binary.AppendUvarint(dst, f.put)
		}
	}
	return dst
}

func decodeFiles(name string, body []byte) (files []file, err error) {
	rest := body
	bad := func(want string, got any) error {
		return corrupt.New(name, headerBytes+int64(len(body)-len(rest)), "file of a base", want,
			got)
	}
	number := func(limit uint64) (uint64, error) {
		n, k := binary.Uvarint(rest)
		if k <= 0 || n > limit {
			return 0, bad(fmt.Sprintf("a number up to %d", limit), n)
		}
		rest = rest[k:]
		return n, nil
	}
	count, err := number(uint64(len(body)))
	if err != nil {
		return nil, err
	}
	for range count {
		var f file
		n, err := number(min(maxFileName, uint64(len(rest))))
		if err != nil {
			return nil, err
		}
		if uint64(len(rest)) < n {
			return nil, bad("a name", len(rest))
		}
		f.name, rest = string(rest[:n]), rest[n:]
		if !plainName(f.name) {
			return nil, bad("the name of a file of a database", fmt.Sprintf("%q", f.name))
		}
		if n, err = number(1 << 56); err != nil {
			return nil, err
		}
		f.size = int64(n)
		if len(rest) < 33 {
			return nil, bad("a checksum", len(rest))
		}
		copy(f.sum[:], rest)
		where := rest[32]
		rest = rest[33:]
		switch {
		case where == inside && uint64(len(rest)) >= n:
			f.content, rest = rest[:n:n], rest[n:]
		case where == inObject:
			if f.epoch, err = number(math.MaxUint64); err == nil {
				f.put, err = number(math.MaxUint64)
			}
			if err == nil && f.epoch == 0 {
				err = bad("an epoch", 0)
			}
			if err != nil {
				return nil, err
			}
		case where == inside:
			return nil, bad("the content", len(rest))
		case where != inHash:
			return nil, corrupt.NewVersion(name, "file of a base", inObject, where)
		}
		files = append(files, f)
	}
	if len(rest) > 0 {
		return nil, bad("the end", fmt.Sprintf("%d more bytes", len(rest)))
	}
	return files, nil
}

// plainName reports whether a name is one that a file of a database may have: it stays in its
// directory.
func plainName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
		case c == '.':
			if name[0] == '.' {
				return false
			}
		default:
			return false
		}
	}
	return name != ""
}

// encodeProperties and decodeProperties are the form of properties in log objects. No properties
// and an empty map are the same.
func encodeProperties(p map[string][]byte) []byte {
	if len(p) == 0 {
		return []byte("{}")
	}
	b, _ := json.Marshal(p) // strings and bytes: cannot fail
	return b
}

func decodeProperties(name string, b []byte) (p map[string][]byte, err error) {
	if err = json.Unmarshal(b, &p); err != nil {
		return nil, corrupt.New(name, -1, "properties", "JSON", err)
	}
	return p, nil
}
