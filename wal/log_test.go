package wal_test

import (
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

func TestAppendRecoverReopen(t *testing.T) {
	eachKind(t, 1<<10, func(t *testing.T, o wal.Options) {
		l := openNew(t, o)
		for _, seq := range []base.SeqNum{0, 1, 50, 200} {
			fill(t, l, seq)
			ok(t, l.Sync(seq))
			if l.SyncedSeq() < seq {
				t.Fatalf("synced %d, want %d", l.SyncedSeq(), seq)
			}
			ok(t, l.Close())
			ok(t, l.Close())
			wantIs(t, second(l.Append(nil)), wal.ErrClosed)
			tail, n := replay(t, o, 0, 1)
			if n != int(seq) || tail.TornBytes != 0 {
				t.Fatalf("%d records and %d torn bytes, want %d and 0", n, tail.TornBytes, seq)
			}
			l = reopen(t, o, 0, 1)
		}
		ok(t, l.Close())
	})
}

// RecordBytes counts the payloads that were appended since Open, over all segments.
func TestRecordBytes(t *testing.T) {
	o := memOptions(512)
	o.MaxRecordBytes = 1 << 10
	l := openNew(t, o)
	var want uint64
	for seq := base.SeqNum(1); seq <= 40; seq++ {
		want += uint64(len(payload(seq)))
		ok(t, second(l.Append(payload(seq))))
		if n := l.RecordBytes(); n != want {
			t.Fatalf("%d bytes after %d records, want %d", n, seq, want)
		}
	}
	wantIs(t, second(l.Append(make([]byte, o.MaxRecordBytes+1))), wal.ErrRecordTooLarge)
	if n := l.RecordBytes(); n != want {
		t.Errorf("%d bytes after a record that is too large, want %d", n, want)
	}
	ok(t, l.Close())
	l = reopen(t, o, 0, 1)
	if n := l.RecordBytes(); n != 0 {
		t.Errorf("%d bytes after Open", n)
	}
	ok(t, l.Close())
}

// Opening and closing costs no more than the sync of the new header.
func TestCloseOfAnIdleLogDoesNotSync(t *testing.T) {
	o := memOptions(512)
	armed, _ := faulty(&o, vfstest.OpSync, errBoom)
	l := openNew(t, o)
	armed.Store(true)
	ok(t, l.Close())
	armed.Store(false)
	replay(t, o, 0, 1)
}

func TestErrorOfApplyEndsTheRecovery(t *testing.T) {
	o, img := closedImage(t)
	n := 0
	_, err := wal.Recover(img.restore(t, o), 0, 1, func(wal.SegmentNum, base.SeqNum, []byte) error {
		if n++; n == 5 {
			return errBoom
		}
		return nil
	})
	if err != errBoom || n != 5 {
		t.Fatalf("got %v after %d records", err, n)
	}
}

func second[T any](_ T, err error) error { return err }
