package sst

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Format: a value file is a header of 40 bytes and blocks, one for each value, in the form of the
// blocks of SSTs: payload, codec, decoded length, checksum. Little-endian:
//
//	 0  8   magic "kstn\xf0VAL"
//	 8  u32 format version, 1
//	12  16  identity of the database
//	28  u64 file number
//	36  u32 CRC-32C of bytes 0 to 36
//
// A reference, in the place of the value of an SST's entry, is four uvarints: file number, offset
// of the block, length of its payload, length of the value. It has no checksum: that of the data
// block covers it, and the block that it leads to proves that it belongs there.

const (
	valueHeaderBytes = 40
	valueVersion     = 1
	valueMagic       = "kstn\xf0VAL"
)

// valueRef is a decoded reference.
type valueRef struct {
	num base.FileNum
	h   blockHandle
}

func (v valueRef) append(dst []byte) []byte {
	for _, n := range [...]uint64{uint64(v.num), v.h.off, uint64(v.h.stored), uint64(v.h.raw)} {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// bytes returns what of the value file belongs to the value.
func (v valueRef) bytes() uint64 { return v.h.end() - v.h.off }

// decodeRef decodes a reference. What passes may still lead out of the file.
func decodeRef(b []byte) (v valueRef, ok bool) {
	r := propertiesReader{rest: b}
	num, off, stored, raw := r.uvarint(), r.uvarint(), r.uvarint(), r.uvarint()
	if r.bad || len(r.rest) != 0 || stored == 0 || stored > raw || raw > MaxValueBytes {
		return v, false
	}
	return valueRef{base.FileNum(num), blockHandle{off, uint32(stored), uint32(raw)}}, true
}

// ValueFile returns the number of the value file that a reference leads to, 0 if it is damaged.
func ValueFile(ref []byte) base.FileNum {
	v, _ := decodeRef(ref)
	return v.num
}

// ValuesIn returns how many bytes of a value file of that size are values.
func ValuesIn(fileBytes int64) int64 { return fileBytes - valueHeaderBytes }

// ValueBytes returns the length of the value that a reference leads to, 0 if it is damaged.
func ValueBytes(ref []byte) int {
	v, _ := decodeRef(ref)
	return int(v.h.raw)
}

func appendValueHeader(dst []byte, dbid [16]byte, num base.FileNum) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(append(dst, valueMagic...), valueVersion)
	dst = binary.LittleEndian.AppendUint64(append(dst, dbid[:]...), uint64(num))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// ValueWriter writes one value file, front to back. After an error every further call returns the
// same error. It can be used again through Reset.
type ValueWriter struct {
	blockFile
	num   base.FileNum
	codec Codec
}

// Reset starts a file, which is empty or will be cut at its size.
func (w *ValueWriter) Reset(f vfs.File, dbid [16]byte, num base.FileNum, codec Codec) {
	w.f, w.num, w.id, w.codec = f, num, newFileID(dbid, num), codec
	w.out, w.off, w.err = appendValueHeader(keep(w.out), dbid, num), 0, nil
}

// Add appends a value, and appends to dst the reference to it.
func (w *ValueWriter) Add(dst, value []byte) ([]byte, error) {
	if w.err == nil && (len(value) == 0 || len(value) > MaxValueBytes) {
		w.err = fmt.Errorf("sst: large value of %d bytes, at most %d fit", len(value),
			MaxValueBytes)
	}
	if w.err != nil {
		return nil, w.err
	}
	h, err := w.writeBlock("large value", value, w.codec, MaxValueBytes)
	if err != nil {
		return nil, err
	}
	return valueRef{w.num, h}.append(dst), nil
}

// SizeBytes returns the size of the file so far.
func (w *ValueWriter) SizeBytes() int64 { return int64(w.offset()) }

// Finish completes the file and returns its size. It neither syncs nor closes it.
func (w *ValueWriter) Finish() (int64, error) {
	if w.err == nil {
		w.err = w.flush()
	}
	if w.err != nil {
		return 0, w.err
	}
	w.err = errors.New("sst: writer is finished")
	return int64(w.off), nil
}

// valueFile returns a reader of the blocks of a value file.
func (r *Reader) valueFile(
	dir string, num base.FileNum, size int64, files *cache.Files,
) *Reader {
	path := filepath.Join(dir, base.ValueName(r.meta.Stripe, num))
	return &Reader{
		meta: &base.FileMeta{Num: num, Stripe: r.meta.Stripe, SizeBytes: size}, path: path,
		dbid: r.dbid, id: newFileID(r.dbid, num), stats: r.stats, file: files.Handle(path),
	}
}

// Value returns the value that a reference in the file leads to: in *memory, which grows as needed,
// or in new memory if that is nil.
func (r *Reader) Value(memory *[]byte, ref []byte) ([]byte, error) {
	v, f, err := r.follow(ref)
	if err != nil {
		return nil, err
	}
	return f.readInto(memory, v.h, MaxValueBytes, "value")
}

// CachedValue is Value through the cache, for lookups. The value must not be changed. Why scans and
// merges do without: they would push out of the cache what lookups ask for. A full cache takes one
// of a few, as of blocks.
func (r *Reader) CachedValue(ref []byte) ([]byte, error) {
	v, f, err := r.follow(ref)
	if err != nil {
		return nil, err
	}
	slot, group := f.valueSlot(v.h.off)
	if k := slot.Get(); k != nil && k.h == v.h {
		return k.data, nil
	}
	data, err := f.readBlock(v.h, MaxValueBytes, "value")
	if err == nil && group.Admits(int64(cap(data)), false) {
		cache.Replace(group, slot, keptValue{v.h, data}, int64(cap(data)), dataWeight)
	}
	return data, err
}

// keptValues are the places of the large values of a part of a file.
type keptValues struct {
	slots []cache.Slot[keptValue]
	group *cache.Group // of what is in them
}

// keptValue is a large value in the cache.
type keptValue struct {
	h    blockHandle
	data []byte
}

const (
	// bytesPerSlot is how many bytes of a value file have one place in the cache. Of values that
	// would share one, the last has it. Why no exact index: it would be one more thing to build and
	// to keep for each file, and values of this size lie in places of their own mostly.
	bytesPerSlot = 2 << 10
	// bytesPerRoot is how many bytes of a value file have their places together. Why not all of the
	// file: where files are many times as large as the cache, it has one value of most of them, and
	// the places would take more room than the values.
	bytesPerRoot = 256 * bytesPerSlot
	// maxRoots is for any file that is written: what follows has its places in the last.
	maxRoots = 16 << 10
)

// valueSlot returns the place in the cache of the value at off, and its group. The places of a part
// of the file are a value of the cache themselves.
func (r *Reader) valueSlot(off uint64) (*cache.Slot[keptValue], *cache.Group) {
	root := &r.kept[min(off/bytesPerRoot, uint64(len(r.kept)-1))]
	p := root.Get()
	if p == nil {
		n := 8 + min(r.meta.SizeBytes, bytesPerRoot)/bytesPerSlot
		k := keptValues{make([]cache.Slot[keptValue], n), r.group.Part()}
		p = cache.InsertRoot(r.group, root, k, 8*n, metaWeight, k.group)
	}
	return &p.slots[off*0x9e3779b97f4a7c15>>32%uint64(len(p.slots))], p.group
}

// follow returns what a reference means, and the reader of the file that it leads to.
func (r *Reader) follow(ref []byte) (v valueRef, f *Reader, err error) {
	v, ok := decodeRef(ref)
	if !ok {
		return v, nil, corrupt.New(r.path, -1, "reference to a value", "a whole one",
			fmt.Sprintf("%x", ref))
	}
	i, ok := slices.BinarySearchFunc(r.values, v.num, func(f *Reader, num base.FileNum) int {
		return int(f.meta.Num) - int(num)
	})
	if !ok {
		return v, nil, corrupt.New(r.path, -1, "reference to a value", "a file that is known",
			base.ValueName(r.meta.Stripe, v.num))
	}
	return v, r.values[i], nil
}

// verifyValueHeader checks the beginning of a value file.
func (r *Reader) verifyValueHeader() error {
	b := make([]byte, valueHeaderBytes)
	if err := r.readAt(b, 0, "header"); err != nil {
		return err
	}
	return r.checkValueHeader(b)
}

func (r *Reader) checkValueHeader(b []byte) error {
	if got := string(b[:8]); got != valueMagic {
		return corrupt.New(r.path, 0, "header magic", hexBytes(valueMagic), hexBytes(got))
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != valueVersion {
		return corrupt.NewVersion(r.path, "value file", valueVersion, v)
	}
	if want := appendValueHeader(nil, r.dbid, r.meta.Num); string(want) != string(b) {
		return corrupt.New(r.path, 0, "header", hexBytes(string(want)), hexBytes(string(b)))
	}
	return nil
}

// ReadValueHeader returns the database and the size of a value file, for tools that meet one by
// itself.
func ReadValueHeader(
	fsys vfs.FS, dir string, id base.StripeID, num base.FileNum,
) (dbid [16]byte, size int64, err error) {
	path := filepath.Join(dir, base.ValueName(id, num))
	info, err := fsys.Stat(path)
	if err != nil {
		return dbid, 0, err
	}
	files := cache.NewFiles(func(n string) (cache.File, error) { return fsys.Open(n) }, 1)
	of := &Reader{meta: &base.FileMeta{Stripe: id}, stats: &Stats{}}
	r := of.valueFile(dir, num, info.SizeBytes, files)
	defer r.file.Close()
	b := make([]byte, valueHeaderBytes)
	if err := r.readAt(b, 0, "header"); err != nil {
		return dbid, 0, err
	}
	r.dbid = [16]byte(b[12:28])
	return r.dbid, info.SizeBytes, r.checkValueHeader(b)
}

// salvageValue is Value of a file whose value files nobody has listed.
func (s *Salvaged) salvageValue(ref []byte) ([]byte, error) {
	if num := ValueFile(ref); num != 0 && s.values[num] == nil {
		dir, name := filepath.Dir(s.r.path), base.ValueName(s.id.Stripe, num)
		info, err := s.fs.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			err = corrupt.New(name, -1, "value", "the file", "no such file")
		}
		if err != nil {
			return nil, err
		}
		files := cache.NewFiles(func(n string) (cache.File, error) { return s.fs.Open(n) }, 1)
		s.values[num] = s.r.valueFile(dir, num, info.SizeBytes, files)
	}
	s.r.values = s.r.values[:0]
	if f := s.values[ValueFile(ref)]; f != nil {
		s.r.values = append(s.r.values, f)
	}
	return s.r.Value(nil, ref)
}
