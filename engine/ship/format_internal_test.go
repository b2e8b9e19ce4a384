package ship

import (
	"os"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/wal"
)

// example is the object of docs/format/ship.md.
func example() []byte {
	h := header{kind: kindLog, epoch: 2, slot: 7, lastSlot: 7, prev: 6, from: 299,
		fromHistory: 0x1122334455667788, seq: 300, history: 0x1122334455667788,
		ms: 1_750_000_000_123}
	for i := range h.dbid {
		h.dbid[i] = byte(i + 1)
	}
	packed, _ := appendPacked(nil, wal.AppendPut(nil, []byte("user#1"), nil, []byte("hi")))
	body := appendBytes(nil, entryCommit, packed)
	return h.encode(appendWord(body, entryMoment, uint64(h.ms)))
}

// The bytes of an object are those of docs/format/ship.md.
func TestShipFormat(t *testing.T) {
	const path = "../../docs/format/ship.md"
	testutil.PageShows(t, path, example())
	page, err := os.ReadFile(path)
	testutil.OK(t, err)
	sst := file{sum: [32]byte{1}, epoch: 2, put: 5}
	names := []string{epochName(2), baseName(300, 2, 0), sst.object(), logName(7, 7),
		logName(1, 1024)}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the page lacks %s", name)
		}
	}
}

// What is packed is unpacked as it was, and takes a byte for a length, not four.
func TestPack(t *testing.T) {
	long := []byte(strings.Repeat("x", 300))
	b := wal.AppendPut(nil, []byte("p"), []byte("s"), []byte("v"))
	b = wal.AppendPut(b, []byte("p"), nil, long)
	b = wal.AppendPutTTL(b, long, []byte("s"), nil, 1_750_000_000_123)
	b = wal.AppendDelete(b, []byte("p"), []byte("s"))
	b = wal.AppendDeleteRange(b, []byte("a"), []byte("b"))
	packed, err := appendPacked(nil, b)
	testutil.OK(t, err)
	if got, ok := unpackOps(nil, packed); !ok || string(got) != string(b) {
		t.Errorf("%q is unpacked as %q", b, got)
	}
	for n := range packed {
		if got, ok := unpackOps(nil, packed[:n]); ok && !strings.HasPrefix(string(b), string(got)) {
			t.Errorf("%d bytes are unpacked as %q", n, got)
		}
	}
	put := wal.AppendPut(nil, []byte("1234567890123456"), nil, long[:100])
	if packed, _ = appendPacked(nil, put); len(packed) != 1+1+16+1+1+100 {
		t.Errorf("%d bytes", len(packed))
	}
}

// FuzzObject: whatever a destination returns is decoded or refused, and what is decoded is written
// as it was read.
func FuzzObject(f *testing.F) {
	f.Add(example())
	b := header{kind: kindBase, seq: 3, from: 3}
	f.Add(b.encode(appendFiles(nil, []file{{name: "CURRENT", size: 2, content: []byte("ab")},
		{name: "001-000000000001.sst", size: 1 << 20},
		{name: "001-000000000002.sst", size: 1 << 20, epoch: 2, put: 5}})))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(string(b))()
		if h, body, err := decodeObject("x", kindLog, b); err == nil {
			if again := h.encode(body); string(again) != string(b) {
				t.Fatalf("%x is written as %x", b, again)
			}
			_ = eachEntry("x", &h, body, func(e *entry) error {
				if e.kind == entryProperties {
					_, _ = decodeProperties("x", e.content)
				}
				return nil
			})
		}
		if _, body, err := decodeObject("x", kindBase, b); err == nil {
			if files, err := decodeFiles("x", body); err == nil {
				for i := range files {
					if strings.ContainsAny(files[i].name, "/\\") || files[i].name == ".." {
						t.Fatalf("name %q", files[i].name)
					}
				}
			}
		}
	})
}
