package engine_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/kstonedb/kstone/engine"
	"pgregory.net/rapid"
)

// chooser draws a number below n, from a seed or from rapid. All random tests of the engine
// draw their keys and options with it, so that what one of them can meet all can.
type chooser func(n int) int

func chooseFrom(rnd *rand.Rand) chooser { return rnd.IntN }

// chooseRapid draws small numbers for a program that is reduced.
func chooseRapid(t *rapid.T, what string) chooser {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
}

// Keys come from a small space, so that programs meet them again, with zero and FF bytes
// and prefixes of each other among them. Now and then one is as long as can be, or nearly:
// runs of one byte, which are the longest in ordered form and have nothing after them, and
// keys that differ in their last byte alone.
var (
	partKeys = []string{
		"a", "b", "a\x00", "a\x00\x01", "\xff", "\xff\xff", "user#1", "user#2", "user#10", "c",
		"d",
	}
	// sortKeys begin with "", for no sort key.
	sortKeys = []string{
		"", "\x00", "a", "aa", "ab", "b", "\xff", "\xff\xff", "k1", "k10", "k2", "\x00\x01",
		"post#1", "post#2",
	}
	longParts = []string{
		repeat("\x00", 0), repeat("\x00", 1), repeat("\xff", 0), repeat("k", 0),
	}
	longSorts = []string{
		repeat("\x00", 0), repeat("\xff", 0), repeat("\xff", 1), repeat("k", 0),
		repeat("k", 1) + "\x00", repeat("k", 1) + "\xff", repeat("k", 20<<10) + "\x01",
		repeat("k", 20<<10) + "\x02",
	}
)

// repeat returns a key of one byte that is short of the limit by so many bytes.
func repeat(b string, short int) string { return strings.Repeat(b, engine.MaxKeyBytes-short) }

// longKeyOneIn and longOperandOneIn are how rare long keys are, as keys and as bounds of
// ranges. Why so rare: each is as much as a thousand others.
const longKeyOneIn, longOperandOneIn = 24, 6

func (c chooser) oneIn(n int) bool { return c(n) == n-1 }

func (c chooser) part() string {
	if c.oneIn(longKeyOneIn) {
		return longParts[c(len(longParts))]
	}
	return partKeys[c(len(partKeys))]
}

// sort draws a sort key, or "" for none.
func (c chooser) sort() string {
	if c.oneIn(longKeyOneIn) {
		return longSorts[c(len(longSorts))]
	}
	return sortKeys[c(len(sortKeys))]
}

// operand draws a sort key.
func (c chooser) operand() []byte {
	if c.oneIn(longOperandOneIn) {
		return []byte(longSorts[c(len(longSorts))])
	}
	return []byte(sortKeys[1+c(len(sortKeys)-1)])
}

func (c chooser) key() engine.Key {
	k := pk(c.part())
	if sk := c.sort(); sk != "" {
		k.SK = []byte(sk)
	}
	return k
}

// options draws options at their bounds, each by itself, so that all combinations occur.
func (c chooser) options() engine.Options {
	codecs := []engine.Compression{
		engine.DefaultCompression, engine.NoCompression, engine.LZ4, engine.Zstd, engine.Snappy,
	}
	o := engine.Options{
		Durability:        engine.Sync + engine.Durability(c(2)),
		FlushRecords:      []int{0, 1, 2, 7, 20}[c(5)],
		MemtableBytes:     []int64{1 << 20, 64 << 20}[c(2)],
		BlockBytes:        []int{1 << 10, 16 << 10, 1 << 20}[c(3)],
		FileBytes:         []int64{64 << 10, 256 << 10, 64 << 20, 4 << 30}[c(4)],
		CacheBytes:        []int64{1, 256 << 10, 64 << 20}[c(3)],
		Compression:       codecs[c(5)],
		BottomCompression: codecs[c(5)],
		FilterBits:        []int{0, 8, 16, engine.NoFilter}[c(4)],
		MaxRuns:           []int{2, 3, 8}[c(3)],
		MaxOpenFiles:      []int{16, 4096}[c(2)],
	}
	o.LogBytes = []int64{8 << 20, 3 * max(o.MemtableBytes, 4<<20)}[c(2)]
	return o
}

// compareKeys orders keys as a database does.
func compareKeys(a, b engine.Key) int {
	return cmp.Or(bytes.Compare(a.PK, b.PK), bytes.Compare(a.SK, b.SK))
}

// shown returns what a failure shows of an argument: of a long key its ends.
func shown(arg any) any {
	const most = 40
	ends := func(b []byte) string {
		if len(b) <= most {
			return fmt.Sprintf("%q", b)
		}
		return fmt.Sprintf("%q..%q (%d bytes)", b[:8], b[len(b)-4:], len(b))
	}
	switch k := arg.(type) {
	case engine.Key:
		if len(k.PK)+len(k.SK) > most {
			return ends(k.PK) + "/" + ends(k.SK)
		}
	case []byte:
		if len(k) > most {
			return ends(k)
		}
	case string:
		if len(k) > 4000 {
			return ends([]byte(k))
		}
	}
	return arg
}

// allShown is shown of each argument.
func allShown(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		out[i] = shown(arg)
	}
	return out
}
