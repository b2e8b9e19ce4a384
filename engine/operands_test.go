package engine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Conditions compare with operands of any length: Query returns, and DeleteRange deletes, what
// a comparison of bytes says, before and after a flush and a replay of the log.
//
// Promise (manners): A condition takes operands of any length, in queries and in range deletes
// alike.
func TestOperandsLongerThanSortKeys(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	longest := bytes.Repeat([]byte("s"), engine.MaxKeyBytes)
	above := append(bytes.Clone(longest[1:]), 't')
	sks := [][]byte{[]byte("a"), longest[1:], longest, above, []byte("t")}
	operands := [][]byte{append(longest, 0), append(longest, 0, 0), append(longest, 'x'),
		append(above, 0xff), bytes.Repeat([]byte{0xff}, 2*engine.MaxKeyBytes)}
	highest := bytes.Repeat([]byte{0xff}, engine.MaxKeyBytes+7)
	for name, condition := range skConditions {
		for i, operand := range operands {
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				fsys := vfs.NewMem()
				db := openOn(t, fsys, engine.Options{})
				for _, sk := range sks {
					ok(t, db.Put(engine.Key{PK: []byte("p"), SK: sk}, nil))
				}
				cond, matches := condition(operand, highest)
				var kept [][]byte
				found := int64(0)
				for _, sk := range sks {
					if matches(sk) {
						found++
					} else {
						kept = append(kept, sk)
					}
				}
				n, err := db.Count(ctx, engine.Query{PK: []byte("p"), SK: cond})
				if err != nil || n != found {
					t.Errorf("%d items, %v, want %d", n, err, found)
				}
				ok(t, db.DeleteRange([]byte("p"), cond))
				wantSKs(t, db, kept)
				mustClose(t, db)
				db = openOn(t, fsys, engine.Options{})
				wantSKs(t, db, kept)
				ok(t, db.Flush(ctx))
				wantSKs(t, db, kept)
				mustClose(t, db)
			})
		}
	}
}

// skConditions make conditions of operands, each with what it says of a sort key.
var skConditions = map[string]func(a, b []byte) (engine.SKCondition, func(sk []byte) bool){
	"all": func(_, _ []byte) (engine.SKCondition, func([]byte) bool) {
		return engine.SKCondition{}, func([]byte) bool { return true }
	},
	"equal": func(a, _ []byte) (engine.SKCondition, func([]byte) bool) {
		return engine.SKEqual(a), func(sk []byte) bool { return bytes.Equal(sk, a) }
	},
	"less": func(a, _ []byte) (engine.SKCondition, func([]byte) bool) {
		return engine.SKLess(a), func(sk []byte) bool { return bytes.Compare(sk, a) < 0 }
	},
	"less or equal": func(a, _ []byte) (engine.SKCondition, func([]byte) bool) {
		return engine.SKLessEqual(a), func(sk []byte) bool { return bytes.Compare(sk, a) <= 0 }
	},
	"greater": func(a, _ []byte) (engine.SKCondition, func([]byte) bool) {
		return engine.SKGreater(a), func(sk []byte) bool { return bytes.Compare(sk, a) > 0 }
	},
	"greater or equal": func(a, _ []byte) (engine.SKCondition, func([]byte) bool) {
		return engine.SKGreaterEqual(a), func(sk []byte) bool { return bytes.Compare(sk, a) >= 0 }
	},
	"begins with": func(a, _ []byte) (engine.SKCondition, func([]byte) bool) {
		return engine.SKBeginsWith(a), func(sk []byte) bool { return bytes.HasPrefix(sk, a) }
	},
	"between": func(a, b []byte) (engine.SKCondition, func([]byte) bool) {
		return engine.SKBetween(a, b), func(sk []byte) bool {
			return bytes.Compare(sk, a) >= 0 && bytes.Compare(sk, b) <= 0
		}
	},
	"range": func(a, b []byte) (engine.SKCondition, func([]byte) bool) {
		return engine.SKRange(a, b), func(sk []byte) bool {
			return bytes.Compare(sk, a) >= 0 && (b == nil || bytes.Compare(sk, b) < 0)
		}
	},
}

// wantSKs compares the sort keys of partition p.
func wantSKs(t *testing.T, db *engine.DB, want [][]byte) {
	t.Helper()
	var got [][]byte
	for it, err := range db.Query(ctx, engine.Query{PK: []byte("p")}) {
		ok(t, err)
		got = append(got, bytes.Clone(it.Key.SK))
	}
	if len(got) != len(want) {
		t.Fatalf("%d items are left, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("item %d has a sort key of %d bytes, want %d", i, len(got[i]), len(want[i]))
		}
	}
}

// Errors of arguments name the engine, their class, the operation and the cause, in this
// order.
func TestTextOfArgumentErrors(t *testing.T) {
	db := openMemory(t, engine.Options{})
	long := make([]byte, engine.MaxKeyBytes+1)
	first := func(q engine.Query) error { return second(db.Count(ctx, q)) }
	for want, err := range map[string]error{
		"engine: keycodec: partition key is empty":        db.Put(engine.Key{}, nil),
		"engine: query: keycodec: partition key is empty": first(engine.Query{}),
		"engine: delete range: keycodec: partition key is empty": db.DeleteRange(nil,
			engine.SKCondition{}),
		"engine: too large: query: keycodec: key part": first(engine.Query{PK: long}),
		"engine: query: keycodec: sort key is empty": first(engine.Query{PK: long[:1],
			SK: engine.SKEqual(nil)}),
		"engine: invalid argument: query: limit -1": first(engine.Query{PK: long[:1], Limit: -1}),
		"engine: scan: keycodec: partition key is empty": second(db.CountScan(ctx,
			engine.Scan{StartAfter: engine.Key{SK: []byte("s")}})),
		"engine: gather: keycodec: partition key is empty": second(db.CountGather(ctx,
			engine.Gather{PKs: [][]byte{nil}})),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %q, want %q", err, want)
		}
	}
}
