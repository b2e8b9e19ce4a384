package wal_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// FuzzRecover recovers a log of two arbitrary files: it must end, with a log or with
// a *corrupt.Error, and a log must open, go on and recover again.
func FuzzRecover(f *testing.F) {
	o, img := crashImage(f)
	names := img.names()
	f.Add(img[names[0]], img[names[1]], uint64(1))
	f.Add(img[names[1]], img[names[2]], uint64(9))
	f.Add(img[names[0]], []byte{}, uint64(0))
	f.Add([]byte("kstonwal"), img[names[1]], uint64(1))
	f.Fuzz(func(t *testing.T, a, b []byte, fromSeq uint64) {
		defer testutil.Watch(a, b, fromSeq)()
		files := image{names[0]: a, names[1]: b}
		ro := files.restore(t, o)
		n := base.SeqNum(0)
		tail, err := wal.Recover(ro, 0, base.SeqNum(fromSeq), count(&n))
		if err != nil {
			wantIs(t, err, corrupt.ErrCorrupt)
			return
		}
		if tail.LastSeq >= base.MaxSeqNum {
			return
		}
		l, err := wal.Open(ro, tail)
		ok(t, err)
		ok(t, second(l.Append([]byte("more"))))
		ok(t, l.Close())
		m := base.SeqNum(0)
		_, err = wal.Recover(ro, 0, base.SeqNum(fromSeq), count(&m))
		if err != nil || m != n+1 {
			t.Fatalf("%d records, then %d: %v", n, m, err)
		}
	})
}

// FuzzDescribe feeds the decoders of headers and records.
func FuzzDescribe(f *testing.F) {
	_, img := crashImage(f)
	for _, name := range img.names() {
		f.Add(img[name])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		file, err := vfs.NewMem().Create("x")
		ok(t, err)
		ok(t, second(file.Write(b)))
		err = wal.Describe(file, io.Discard)
		if err != nil && !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatal(err)
		}
		ok(t, file.Close())
	})
}

// FuzzOps decodes arbitrary payloads; what is accepted encodes to the same bytes.
func FuzzOps(f *testing.F) {
	f.Add(wal.AppendPut(nil, []byte("pk"), []byte("sk"), []byte("value")))
	f.Add(wal.AppendPutTTL(nil, []byte("pk"), nil, nil, 17))
	f.Add(wal.AppendDeleteRange(wal.AppendDelete(nil, []byte("pk"), nil), []byte("a"), []byte("b")))
	longest := bytes.Repeat([]byte{0xff}, 64<<10)
	f.Add(wal.AppendPut(nil, longest, longest, nil))
	f.Add(wal.AppendDeleteRange(nil, longest, append(longest, 0)))
	f.Fuzz(func(t *testing.T, payload []byte) {
		defer testutil.Watch(payload)()
		checkOps(t, payload)
	})
}

// checkOps wants the payload to be damage, or operations that encode to it.
func checkOps(t *testing.T, payload []byte) {
	t.Helper()
	ops, err := readOps(payload)
	if err != nil {
		wantIs(t, err, corrupt.ErrCorrupt)
		return
	}
	var again []byte
	for i := range ops {
		again = appendOp(again, &ops[i])
	}
	if !bytes.Equal(again, payload) {
		t.Fatalf("decoded %x as %+v, which encodes to %x", payload, ops, again)
	}
}

func FuzzParseFileName(f *testing.F) {
	f.Add("wal-0000000001.log")
	f.Add("wal-12345678901.log")
	f.Fuzz(func(t *testing.T, name string) {
		defer testutil.Watch(name)()
		if n, ok := wal.ParseFileName(name); ok && n.FileName() != name {
			t.Fatalf("%q parsed as %d", name, n)
		}
	})
}
