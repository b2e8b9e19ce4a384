package sst_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/sst"
)

// valueFile writes values into value file 4 of stripe 154, and an SST whose entries refer to them.
func valueFile(tb testing.TB, fs vfs.FS, codec sst.Codec, values ...[]byte) base.FileMeta {
	tb.Helper()
	f, err := fs.Create(base.ValueName(154, 4))
	ok(tb, err)
	defer f.Close()
	var w sst.ValueWriter
	w.Reset(f, testDBID, 4, codec)
	var entries []base.Entry
	for i, v := range values {
		ref, err := w.Add(nil, v)
		ok(tb, err)
		e := base.Entry{Key: fmt.Appendf(nil, "u1\x00\x00%03d", i), Value: ref, Seq: 9,
			Kind: base.KindPut, Large: true}
		if i%2 == 1 {
			e.Kind, e.Expiry = base.KindPutTTL, 1<<40
		}
		entries = append(entries, e)
	}
	size, err := w.Finish()
	ok(tb, err)
	o := sst.WriterOptions{FileNum: 3, Stripe: 154, FilterBits: 8, Codec: codec}
	meta := build(tb, fs, o, entries)
	meta.Values[0].FileBytes = size
	raw := 0
	for i := range entries {
		raw += len(entries[i].Key) + len(values[i])
	}
	if meta.RawBytes != uint64(raw) {
		tb.Errorf("%d raw bytes, keys and values have %d", meta.RawBytes, raw)
	}
	return meta
}

// TestValueFileExample: the bytes in docs/format/values.md are what the writer makes.
func TestValueFileExample(t *testing.T) {
	fs := vfs.NewMem()
	meta := valueFile(t, fs, sst.None, []byte("Ada Lovelace"))
	got := contents(t, fs, base.ValueName(154, 4))
	want, err := testutil.PageBytes("../docs/format/values.md", "hex")
	if ok(t, err); !bytes.Equal(got, want) {
		t.Errorf("the page shows %d bytes, the writer makes %d:\n%s", len(want), len(got),
			hex.Dump(got))
	}
	if u := meta.Values[0]; u.Num != 4 || u.Bytes != 21 || u.FileBytes != 61 {
		t.Errorf("the SST needs %+v", u)
	}
}

// Each read of an SST returns large values as they were put, by lookup and by verification.
func TestLargeValuesAreRead(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, codec := range []sst.Codec{sst.None, sst.LZ4, sst.Zstd, sst.Snappy} {
		var values [][]byte
		for i := range 40 {
			v := bytes.Repeat([]byte{byte(i)}, 1+rnd.IntN(3000))
			for j := range v[:rnd.IntN(len(v))] {
				v[j] = byte(rnd.Uint32())
			}
			values = append(values, v)
		}
		fs := vfs.NewMem()
		meta := valueFile(t, fs, codec, values...)
		r := sst.NewReader(readerOptions(fs, meta))
		for i, want := range values {
			key := fmt.Appendf(nil, "u1\x00\x00%03d", i)
			var e base.Entry
			found, err := r.Get(key, base.Hash(key, testSeed), base.MaxSeqNum, &e)
			if err != nil || !found || !bytes.Equal(e.Value, want) || e.Large {
				t.Fatalf("%v, value %d: %v, %v", codec, i, found, err)
			}
		}
		ok(t, r.Verify(context.Background()))
		ok(t, r.Close())
	}
}

// Lookups find large values in the cache, never those of others in the same place, and nothing
// stays in it when the file is closed.
//
// Promise (reads and writes): Large values that are looked up are in the cache, within its budget.
func TestLargeValuesInTheCache(t *testing.T) {
	rng := testutil.Rand(t)
	var values [][]byte
	for range 100 {
		v := make([]byte, 4<<10)
		for i := range v {
			v[i] = byte(rng.Uint32())
		}
		values = append(values, v)
	}
	reads := 0
	fs := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && strings.HasSuffix(op.Name, ".val") {
			reads++
		}
		return nil
	})
	o := readerOptions(fs, valueFile(t, fs, sst.None, values...))
	o.Cache = cache.New(200 << 10)
	r := sst.NewReader(o)
	get := func(i int) {
		key := fmt.Appendf(nil, "u1\x00\x00%03d", i)
		var e base.Entry
		found, err := r.Get(key, base.Hash(key, testSeed), base.MaxSeqNum, &e)
		if err != nil || !found || !bytes.Equal(e.Value, values[i]) {
			t.Fatalf("value %d: %v, %v", i, found, err)
		}
	}
	for range 50 {
		get(0)
	}
	if reads != 1 {
		t.Errorf("one value was read %d times", reads)
	}
	reads = 0
	for range 1000 {
		get(rng.IntN(20)) // they fit
	}
	if reads > 300 {
		t.Errorf("20 values were read %d times", reads)
	}
	reads = 0
	before := o.Cache.Metrics().Inserts
	for range 1000 {
		get(rng.IntN(len(values)))
		if m := o.Cache.Metrics(); m.UsedBytes > m.BudgetBytes {
			t.Fatalf("%+v", m)
		}
	}
	if n := int(o.Cache.Metrics().Inserts - before); n > reads/2 { // a full cache takes some
		t.Errorf("%d of %d values that were read have pushed others out", n, reads)
	}
	if err := r.Close(); err != nil || o.Cache.Metrics().UsedBytes != 0 {
		t.Errorf("%v, %+v", err, o.Cache.Metrics())
	}
}

// TestPlacesOfLargeValues: one value of a large file in the cache takes little more than itself.
func TestPlacesOfLargeValues(t *testing.T) {
	fs := vfs.NewMem()
	values := slices.Repeat([][]byte{make([]byte, 4<<20)}, 16)
	values[9] = []byte("a value")
	o := readerOptions(fs, valueFile(t, fs, sst.None, values...))
	o.Cache = cache.New(1 << 20)
	r := sst.NewReader(o)
	defer r.Close()
	var e base.Entry
	var used int64
	for range 2 { // the second finds the block in the cache
		used = o.Cache.Metrics().UsedBytes
		key := []byte("u1\x00\x00009")
		found, err := r.Get(key, base.Hash(key, testSeed), base.MaxSeqNum, &e)
		if err != nil || !found || string(e.Value) != "a value" {
			t.Fatalf("%q, %v, %v", e.Value, found, err)
		}
	}
	if used > 8<<10 {
		t.Errorf("a lookup has put %d bytes into the cache", used)
	}
}

// TestDamagedValueFile: every changed byte of a value file is an error of Verify that names the
// file, and never another value.
//
// Promise (damage): A damaged byte of a value file is an error, never another value.
func TestDamagedValueFile(t *testing.T) {
	fs := vfs.NewMem()
	values := [][]byte{[]byte("Ada Lovelace"), bytes.Repeat([]byte("ab"), 100)}
	meta := valueFile(t, fs, sst.Snappy, values...)
	name := base.ValueName(154, 4)
	whole := contents(t, fs, name)
	for i := range len(whole) + 1 {
		b := bytes.Clone(whole)
		if i < len(b) {
			b[i] ^= 0x10
		} else {
			b = b[:len(b)-1]
		}
		store(t, fs, name, b)
		r := sst.NewReader(readerOptions(fs, meta))
		var bad *corrupt.Error
		if err := r.Verify(context.Background()); !errors.As(err, &bad) || bad.File != name {
			t.Errorf("byte %d: %v", i, err)
		}
		for j, want := range values {
			key := fmt.Appendf(nil, "u1\x00\x00%03d", j)
			var e base.Entry
			_, err := r.Get(key, base.Hash(key, testSeed), base.MaxSeqNum, &e)
			if err == nil && !bytes.Equal(e.Value, want) {
				t.Errorf("byte %d: value %d is %q", i, j, e.Value)
			}
		}
		_ = r.Close()
	}
}

// TestMisplacedValueFile: a value file under another number, or of another database, is an error.
func TestMisplacedValueFile(t *testing.T) {
	fs := vfs.NewMem()
	meta := valueFile(t, fs, sst.None, []byte("Ada Lovelace"))
	o := readerOptions(fs, meta)
	other := vfs.NewMem()
	f, err := other.Create(base.ValueName(154, 4))
	ok(t, err)
	var w sst.ValueWriter
	w.Reset(f, [16]byte{9}, 4, sst.None)
	if _, err := w.Add(nil, []byte("Ada Lovelace")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	store(t, fs, base.ValueName(154, 4), contents(t, other, base.ValueName(154, 4)))
	r := sst.NewReader(o)
	defer r.Close()
	key := []byte("u1\x00\x00000")
	var e base.Entry
	_, err = r.Get(key, base.Hash(key, testSeed), base.MaxSeqNum, &e)
	if !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("%v, value %q", err, e.Value)
	}
}
