package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/wal"
)

func appendOp(dst []byte, op *wal.Op) []byte {
	switch op.Kind {
	case base.KindPut:
		return wal.AppendPut(dst, op.PK, op.SK, op.Value)
	case base.KindPutTTL:
		return wal.AppendPutTTL(dst, op.PK, op.SK, op.Value, op.Expiry)
	case base.KindDelete:
		return wal.AppendDelete(dst, op.PK, op.SK)
	}
	return wal.AppendDeleteRange(dst, op.Start, op.End)
}

func readOps(payload []byte) (ops []wal.Op, err error) {
	r := wal.NewOpReader(payload)
	for {
		var op wal.Op
		ok, err := r.Next(&op)
		if !ok {
			return ops, err
		}
		ops = append(ops, op)
	}
}

func TestOpsRoundTrip(t *testing.T) {
	key := rapid.SliceOfN(rapid.Byte(), 1, 20)
	testutil.Check(t, func(t *rapid.T) {
		var want []wal.Op
		var payload []byte
		for range rapid.IntRange(0, 8).Draw(t, "ops") {
			op := wal.Op{Kind: base.Kind(rapid.IntRange(1, 4).Draw(t, "kind"))}
			if op.Kind == base.KindDeleteRange {
				op.Start = key.Draw(t, "start")
				op.End = append(bytes.Clone(op.Start), key.Draw(t, "more")...)
			} else {
				op.PK = key.Draw(t, "pk")
				if rapid.Bool().Draw(t, "has sk") {
					op.SK = key.Draw(t, "sk")
				}
			}
			if op.Kind == base.KindPut || op.Kind == base.KindPutTTL {
				op.Value = rapid.SliceOf(rapid.Byte()).Draw(t, "value")
			}
			if op.Kind == base.KindPutTTL {
				op.Expiry = rapid.Int64Min(0).Draw(t, "expiry")
			}
			want = append(want, op)
			payload = appendOp(payload, &op)
		}
		got, err := readOps(payload)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestOpsErrors(t *testing.T) {
	good := wal.AppendPutTTL(nil, []byte("pk"), []byte("sk"), []byte("value"), 1e12)
	good = wal.AppendDeleteRange(good, []byte("a"), []byte("b"))
	lengths := map[int]bool{}
	for n := range good {
		ops, err := readOps(good[:n])
		if err == nil {
			lengths[len(ops)] = true
			continue
		}
		var c *corrupt.Error
		if !errors.As(err, &c) || c.Offset < 0 || c.Offset > int64(n) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	if len(lengths) != 2 { // nothing, and the first operation alone
		t.Fatalf("cuts without error: %v", lengths)
	}
	for name, b := range map[string][]byte{
		"kind 0":         {0},
		"kind 5":         {5, 0, 0},
		"empty pk":       {1, 0, 0, 0, 0, 0, 0, 0, 0},
		"huge pk":        {1, 255, 255, 255, 255},
		"range reversed": wal.AppendDeleteRange(nil, []byte("b"), []byte("a")),
		"range empty":    wal.AppendDeleteRange(nil, []byte("b"), []byte("b")),
		"expiry":         wal.AppendPutTTL(nil, []byte("a"), nil, nil, -1),
	} {
		if _, err := readOps(b); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A bound may be as long as that after the longest key.
	bound := make([]byte, keycodec.MaxOrderedBytes+2)
	for n, ok := range map[int]bool{len(bound) - 1: true, len(bound): false} {
		for what, b := range map[string][]byte{
			"start": wal.AppendDeleteRange(nil, bound[:n], []byte{1}),
			"end":   wal.AppendDeleteRange(nil, nil, bound[:n]),
		} {
			if _, err := readOps(b); (err == nil) != ok {
				t.Errorf("%s of %d bytes: %v", what, n, err)
			}
		}
	}
	second := append(wal.AppendDelete(nil, []byte("a"), nil), 9)
	var c *corrupt.Error
	if _, err := readOps(second); !errors.As(err, &c) || c.Offset != 10 {
		t.Fatalf("offset of the second operation: %v", err)
	}
}

func TestOpsDoNotAllocate(t *testing.T) {
	payload := wal.AppendPut(nil, []byte("user#1"), []byte("profile"), []byte("v"))
	buf := make([]byte, 0, 100)
	if n := testing.AllocsPerRun(100, func() {
		buf = wal.AppendPut(buf[:0], []byte("user#1"), []byte("profile"), []byte("v"))
		r, op := wal.NewOpReader(payload), wal.Op{}
		for ok := true; ok; {
			ok, _ = r.Next(&op)
		}
	}); n > 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	eachKind(t, 1<<20, func(t *testing.T, o wal.Options) {
		l := openNew(t, o)
		p := make([]byte, 109)
		if n := testing.AllocsPerRun(500, func() { ok(t, second(l.Append(p))) }); n >= 1 {
			t.Fatalf("%v allocations", n)
		}
		ok(t, l.Close())
	})
}

func TestDescribe(t *testing.T) {
	o := memOptions(512)
	l := openNew(t, o)
	p := wal.AppendPut(nil, []byte("user#1"), []byte("profile"), []byte(strings.Repeat("v", 40)))
	p = wal.AppendPutTTL(p, []byte("user#2"), nil, []byte("x"), 1700000000000)
	p = wal.AppendDelete(p, []byte("user#3"), nil)
	ok(t, second(l.Append(wal.AppendDeleteRange(p, []byte("a"), []byte("b")))))
	ok(t, second(l.Append([]byte{7})))
	ok(t, l.Close())
	f, err := o.FS.Open("db/wal-0000000001.log")
	ok(t, err)
	var b strings.Builder
	ok(t, wal.Describe(f, &b))
	want := `log segment 1 of database 0102030405060708090a0b0c0d0e0f10, format 1, 264 bytes
  use 9e3779b97f4a7c15, tag ef7a9868, base sequence number 1
  first segment of the log
64: commit 1, 120 bytes, synced up to 0 then
    put "user#1" / "profile" = "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"... (40 bytes)
    put-ttl "user#2" expires 1700000000000 = "x" (1 bytes)
    delete "user#3"
    delete-range ["a", "b")
208: commit 2, 1 bytes, synced up to 0 then
    not decodable: corrupt log operation at offset 0: want a known kind, got 7
240: marker: synced up to 2
264: end of the records; last sequence number 2
`
	if b.String() != want {
		t.Fatalf("got:\n%s", b.String())
	}
	ok(t, f.Close())
	g, err := vfs.NewMem().Create("empty")
	ok(t, err)
	wantIs(t, wal.Describe(g, &b), corrupt.ErrCorrupt)
	ok(t, g.Close())
}

// A segment that waits to be used is one of zeros, as long as a header at least.
func TestDescribePreparedSegment(t *testing.T) {
	for n, prepared := range map[int]bool{0: false, 63: false, 64: true, 512: true} {
		f, err := vfs.NewMem().Create("x")
		ok(t, err)
		ok(t, second(f.Write(make([]byte, n))))
		var b strings.Builder
		err = wal.Describe(f, &b)
		want := ""
		if prepared {
			want = fmt.Sprintf("log segment, prepared and not used yet, %d bytes\n", n)
		}
		if (err == nil) != prepared || b.String() != want {
			t.Errorf("%d bytes of zeros: %q, %v", n, b.String(), err)
		}
		ok(t, f.Close())
	}
}

func TestSetExpiry(t *testing.T) {
	op := wal.AppendPutTTL(nil, []byte("k"), nil, []byte("v"), 7)
	wal.SetExpiry(op, 1<<40+9)
	ops, err := readOps(op)
	ok(t, err)
	if ops[0].Expiry != 1<<40+9 || string(ops[0].PK) != "k" || string(ops[0].Value) != "v" {
		t.Errorf("%+v", ops[0])
	}
}
