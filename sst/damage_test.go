package sst_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
)

// smallFile returns a file of a few blocks, partitions and range tombstones, whose index has no
// parts.
func smallFile(
	t *testing.T, fs vfs.FS, codec sst.Codec,
) (base.FileMeta, []base.Entry, []base.RangeTombstone) {
	t.Helper()
	return fileOfParts(t, fs, codec, 0)
}

// fileOfParts is smallFile with parts of that many blocks.
func fileOfParts(
	t *testing.T, fs vfs.FS, codec sst.Codec, blocks int,
) (base.FileMeta, []base.Entry, []base.RangeTombstone) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	g := generator{rnd: rnd, keys: 24, versions: 3, valueMax: 30, prefix: "pk/"}
	entries := g.entries()
	ranges := []base.RangeTombstone{
		{Start: []byte("pk/a"), End: []byte("pk/b"), Seq: 7},
		{Start: []byte("pk/user"), End: []byte("pk/uses"), Seq: 3},
	}
	o := sst.WriterOptions{BlockBytes: 400, Codec: codec, FilterBits: 8, FilterPartitionKeys: 15,
		PartBlocks: blocks}
	return build(t, fs, o, entries, ranges...), entries, ranges
}

// checkAnswers reads everything in every way. Each answer must be the right one or
// a *corrupt.Error that names the file; it reports whether there was an error.
func checkAnswers(
	t *testing.T, r *sst.Reader, entries []base.Entry, ranges []base.RangeTombstone,
) (damaged bool) {
	t.Helper()
	failed := func(err error) bool {
		if err == nil {
			return false
		}
		var c *corrupt.Error
		if !errors.As(err, &c) || !errors.Is(err, corrupt.ErrCorrupt) || c.File == "" ||
			c.Offset < 0 {
			t.Fatalf("error without file and offset: %#v", err)
		}
		damaged = true
		return true
	}
	want := visible(entries, 500)
	for i := range want {
		var e base.Entry
		found, err := r.Get(want[i].Key, base.Hash(want[i].Key, testSeed), 500, &e)
		if !failed(err) && (!found || !sameVersion(&e, &want[i])) {
			t.Fatalf("wrong answer: Get(%q) = %v, %v", want[i].Key, found, e)
		}
	}
	c := r.NewCursor(500)
	i := 0
	for ok := c.First(); ok; ok = c.Next() {
		if i >= len(want) || !sameEntry(c.Entry(), &want[i]) {
			t.Fatalf("wrong entry %d: %v", i, c.Entry())
		}
		i++
	}
	if !failed(c.Err()) && i != len(want) {
		t.Fatalf("%d entries instead of %d", i, len(want))
	}
	i = len(want) - 1
	for ok := c.Last(); ok; ok = c.Prev() {
		if i < 0 || !sameEntry(c.Entry(), &want[i]) {
			t.Fatalf("wrong entry %d: %v", i, c.Entry())
		}
		i--
	}
	if !failed(c.Err()) && i != -1 {
		t.Fatalf("%d entries are missing", i+1)
	}
	s := r.NewSource()
	i = 0
	for e := range cursor.All(s) {
		if !sameEntry(e, &entries[i]) {
			t.Fatalf("wrong source entry %d: %v", i, e)
		}
		i++
	}
	if !failed(s.Err()) && i != len(entries) {
		t.Fatalf("%d source entries instead of %d", i, len(entries))
	}
	list, err := r.RangeTombstones()
	if !failed(err) && fmt.Sprint(list) != fmt.Sprint(ranges) {
		t.Fatalf("range tombstones %v", list)
	}
	failed(r.Describe(io.Discard))
	return damaged
}

// smallFiles are small files in all forms.
var smallFiles = []struct {
	codec      sst.Codec
	partBlocks int
}{{sst.None, 0}, {sst.LZ4, 0}, {sst.Zstd, 0}, {sst.Snappy, 0}, {sst.None, 2}, {sst.LZ4, 1}}

// TestEveryFlippedByte: no flipped byte gives a wrong answer, and Verify finds each.
func TestEveryFlippedByte(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, c := range smallFiles {
		fs := vfs.NewMem()
		meta, entries, ranges := fileOfParts(t, fs, c.codec, c.partBlocks)
		good := contents(t, fs, meta.Name())
		if r := sst.NewReader(readerOptions(fs, meta)); checkAnswers(t, r, entries, ranges) {
			t.Fatal("the intact file is damaged")
		}
		for at := range good {
			bad := bytes.Clone(good)
			bad[at] ^= byte(1 << (at % 8))
			store(t, fs, meta.Name(), bad)
			r := sst.NewReader(readerOptions(fs, meta))
			checkAnswers(t, r, entries, ranges)
			if err := r.Verify(context.Background()); !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("%v: Verify misses the flip at %d: %v", c, at, err)
			}
			r.Close()
		}
		t.Logf("%v: %d bytes", c, len(good))
	}
}

// TestEveryTruncation: a file cut at any length is noticed.
func TestEveryTruncation(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, c := range smallFiles {
		fs := vfs.NewMem()
		meta, entries, ranges := fileOfParts(t, fs, c.codec, c.partBlocks)
		good := contents(t, fs, meta.Name())
		for n := range good {
			store(t, fs, meta.Name(), good[:n])
			r := sst.NewReader(readerOptions(fs, meta))
			if !checkAnswers(t, r, entries, ranges) {
				t.Fatalf("%v: cut to %d of %d bytes: no error", c, n, len(good))
			}
			r.Close()
			if _, _, err := sst.ReadMeta(fs, meta.Name()); !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("%v: ReadMeta of %d of %d bytes: %v", c, n, len(good), err)
			}
			short := meta
			short.SizeBytes = int64(n)
			r = sst.NewReader(readerOptions(fs, short))
			if !checkAnswers(t, r, entries, ranges) {
				t.Fatalf("%v: cut to %d bytes and described so: no error", c, n)
			}
			r.Close()
		}
	}
}

// readKey reads one key with a new reader whose options were changed.
func readKey(fs vfs.FS, meta base.FileMeta, key []byte, change func(*sst.ReaderOptions)) error {
	ro := readerOptions(fs, meta)
	if change != nil {
		change(&ro)
	}
	r := sst.NewReader(ro)
	defer r.Close()
	var e base.Entry
	_, err := r.Get(key, base.Hash(key, testSeed), base.MaxSeqNum, &e)
	return err
}

// TestWrongFile: a file in another's place, a block in another's place, a file of
// another database, another seed.
func TestWrongFile(t *testing.T) {
	fs := vfs.NewMem()
	g := generator{rnd: rand.New(rand.NewPCG(5, 5)), keys: 60, versions: 1, valueMax: 9}
	entries := g.entries()
	o := sst.WriterOptions{FileNum: 1, BlockBytes: 512, FilterBits: 8}
	one := build(t, fs, o, entries)
	o.FileNum = 2
	two := build(t, fs, o, entries)
	bytesOne, bytesTwo := contents(t, fs, one.Name()), contents(t, fs, two.Name())
	key := entries[0].Key

	read := func(meta base.FileMeta, change func(*sst.ReaderOptions)) error {
		return readKey(fs, meta, key, change)
	}
	expect := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ok(t, read(one, nil))
	err := read(one, func(ro *sst.ReaderOptions) { ro.DBID[3]++ })
	if expect("other database", err); !strings.Contains(err.Error(), "database id") {
		t.Errorf("the error does not say what is wrong: %v", err)
	}
	expect("other seed", read(one, func(ro *sst.ReaderOptions) { ro.Seed++ }))
	changed := one
	changed.Entries++
	expect("other description", read(changed, nil))
	changed = one
	changed.Largest = append(bytes.Clone(one.Largest), 'x')
	expect("other bounds", read(changed, nil))
	changed = one
	changed.Stripe = 9
	store(t, fs, changed.Name(), bytesOne)
	expect("other stripe", read(changed, nil))

	store(t, fs, one.Name(), bytesTwo)
	expect("swapped file", read(one, nil))
	store(t, fs, one.Name(), bytesOne)
	r := sst.NewReader(readerOptions(fs, one))
	var blocks []sst.BlockInfo
	err = r.Blocks(func(b sst.BlockInfo) bool {
		blocks = append(blocks, b)
		return true
	})
	ok(t, err)
	// The first block of file 2 inside file 1: same keys, same offset.
	end := blocks[1].Offset
	store(t, fs, one.Name(), slices.Concat(bytesTwo[:end], bytesOne[end:]))
	expect("block of another file", read(one, nil))
	// A later block of the same file in the place of the first.
	for _, b := range blocks[1:] {
		if b.StoredBytes > blocks[0].StoredBytes {
			continue
		}
		moved := bytes.Clone(bytesOne)
		copy(moved, bytesOne[b.Offset:int(b.Offset)+b.StoredBytes+9])
		store(t, fs, one.Name(), moved)
		expect("misdirected block", read(one, nil))
	}
}

// TestReadMeta: the description can be had from the file alone.
func TestReadMeta(t *testing.T) {
	fs := vfs.NewMem()
	meta, _, _ := smallFile(t, fs, sst.LZ4)
	got, dbid, err := sst.ReadMeta(fs, meta.Name())
	if err != nil || dbid != testDBID || fmt.Sprint(got) != fmt.Sprint(meta) {
		t.Errorf("got %v, %v, %v, want %v", got, dbid, err, meta)
	}
	if _, _, err := sst.ReadMeta(fs, "none"); err == nil || errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("missing file: %v", err)
	}
}
