package zonemap_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap"
)

// drawEntries draws sorted entries.
func drawEntries(t *rapid.T) []base.Entry {
	n := rapid.IntRange(1, 20).Draw(t, "n")
	list := make([]base.Entry, n)
	for i := range list {
		list[i] = base.Entry{
			Key:  rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "key"),
			Seq:  base.SeqNum(rapid.Uint64Range(0, 99).Draw(t, "seq")),
			Kind: base.Kind(rapid.IntRange(1, 3).Draw(t, "kind")),
		}
		if list[i].Kind != base.KindDelete {
			list[i].Value = rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "value")
		}
		if list[i].Kind == base.KindPutTTL {
			list[i].Expiry = rapid.Int64().Draw(t, "expiry")
		}
	}
	slices.SortStableFunc(list, func(a, b base.Entry) int { return bytes.Compare(a.Key, b.Key) })
	return list
}

func zoneOf(entries []base.Entry) zonemap.Map {
	var b zonemap.MapBuilder
	for i := range entries {
		b.Add(&entries[i], len(entries[i].Value))
	}
	return b.Map()
}

// TestMapModel: a map is right about its entries, survives encoding, and
// merging parts gives the whole.
func TestMapModel(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		m := zoneOf(entries)
		checkZone(t, &m, entries)

		encoded := m.AppendBinary([]byte("front"))
		got, rest, err := zonemap.Decode(append(encoded[5:], "rest"...))
		if err != nil || string(rest) != "rest" || fmt.Sprint(got) != fmt.Sprint(m) {
			t.Fatalf("%v comes back as %v, %q, %v", m, got, rest, err)
		}

		cut := rapid.IntRange(0, len(entries)).Draw(t, "cut")
		left, right := zoneOf(entries[:cut]), zoneOf(entries[cut:])
		if rapid.Bool().Draw(t, "swap") {
			left, right = right, left
		}
		left.Merge(&right)
		if fmt.Sprint(left) != fmt.Sprint(m) {
			t.Fatalf("merged %v, whole %v", left, m)
		}
	})
}

func checkZone(t *rapid.T, m *zonemap.Map, entries []base.Entry) {
	first, last := entries[0].Key, entries[len(entries)-1].Key
	var tombstones, ttl, raw uint64
	for _, e := range entries {
		if e.Seq < m.MinSeq || e.Seq > m.MaxSeq {
			t.Fatalf("%v denies %v", m, e)
		}
		raw += uint64(len(e.Key) + len(e.Value))
		if e.Kind == base.KindDelete {
			tombstones++
		}
		if e.Kind == base.KindPutTTL {
			ttl++
			if e.Expiry < m.MinExpiry || e.Expiry > m.MaxExpiry {
				t.Fatalf("%v denies expiry %v", m, e.Expiry)
			}
		}
	}
	if m.Entries != uint64(len(entries)) || m.Tombstones != tombstones || m.TTLEntries != ttl ||
		m.RawBytes != raw || !bytes.Equal(m.First, first) || !bytes.Equal(m.Last, last) {
		t.Fatalf("%+v of %v", m, entries)
	}
}

// TestEmptyMap: a map without entries is decoded as such, and a reused builder starts with one.
func TestEmptyMap(t *testing.T) {
	var m zonemap.Map
	got, rest, err := zonemap.Decode(m.AppendBinary(nil))
	if err != nil || len(rest) != 0 || got.Entries != 0 {
		t.Error(got, rest, err)
	}
	var b zonemap.MapBuilder
	b.Add(&base.Entry{Key: []byte("k"), Seq: 4, Kind: base.KindPutTTL, Expiry: 3}, 0)
	b.Reset()
	b.Add(&base.Entry{Key: []byte("a"), Seq: 9, Kind: base.KindPut}, 0)
	if m := b.Map(); string(m.First) != "a" || m.MinSeq != 9 || m.TTLEntries != 0 ||
		m.MinExpiry != 0 {
		t.Errorf("a reused builder remembers: %+v", m)
	}
}

// TestDecodeRefuses: every truncation, and fields that contradict each other.
func TestDecodeRefuses(t *testing.T) {
	e := base.Entry{Key: []byte("key"), Seq: 300, Kind: base.KindPutTTL, Expiry: 5}
	m := zoneOf([]base.Entry{e})
	good := m.AppendBinary(nil)
	for n := range good {
		if _, _, err := zonemap.Decode(good[:n]); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%d of %d bytes: %v", n, len(good), err)
		}
	}
	for name, change := range map[string]func(*zonemap.Map){
		"keys":       func(m *zonemap.Map) { m.First = []byte("l") },
		"sequence":   func(m *zonemap.Map) { m.MaxSeq = base.MaxSeqNum + 1 },
		"tombstones": func(m *zonemap.Map) { m.Tombstones = 2 },
		"ttl":        func(m *zonemap.Map) { m.Tombstones = 1 },
		"expiry":     func(m *zonemap.Map) { m.MaxExpiry = 4 },
	} {
		bad := m
		change(&bad)
		if _, _, err := zonemap.Decode(bad.AppendBinary(nil)); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := zonemap.Decode([]byte{9}); !errors.Is(err, corrupt.ErrVersion) {
		t.Errorf("version 9: %v", err)
	}
}

func FuzzZoneMap(f *testing.F) {
	ttl := base.Entry{Key: []byte("key"), Seq: 300, Kind: base.KindPutTTL, Expiry: -5}
	for _, e := range []base.Entry{{Key: []byte("k"), Kind: base.KindDelete}, ttl} {
		m := zoneOf([]base.Entry{e})
		f.Add(m.AppendBinary(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testutil.Watch(data)()
		m, rest, err := zonemap.Decode(data)
		if err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if len(rest) >= len(data) || m.MinSeq > m.MaxSeq || m.MinExpiry > m.MaxExpiry {
			t.Fatalf("%+v, %d bytes left of %d", m, len(rest), len(data))
		}
		again, rest, err := zonemap.Decode(m.AppendBinary(nil))
		if err != nil || len(rest) != 0 || fmt.Sprint(again) != fmt.Sprint(m) {
			t.Fatalf("%+v comes back as %+v, %v", m, again, err)
		}
	})
}
