package dedup

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// TestWrongAnswersAreNotMeasured: no contestant may deny keys that are there.
func TestWrongAnswersAreNotMeasured(t *testing.T) {
	b := &bench{Settings: Settings{Repeat: 1, Queries: 100}, ctx: t.Context(),
		rnd: rand.New(rand.NewPCG(1, 2)), emit: func(result.Record) error { return nil }}
	d := &data{all: []uint64{1, 2, 3}, sorted: []uint64{1, 2, 3}}
	say := func(n int) []contestant {
		return []contestant{{"one", func([]uint64) (int, error) { return n, nil }}}
	}
	for _, c := range []struct {
		kind         string
		right, wrong int
	}{{inOrder, 3, 2}, {present, 100, 99}, {mixed, 10, 9}, {outside, 0, 1}} {
		if err := b.compare("t", "c", d, c.kind, 0, say(c.right)); err != nil {
			t.Errorf("%s: %v", c.kind, err)
		}
		if err := b.compare("t", "c", d, c.kind, 0, say(c.wrong)); err == nil ||
			!strings.Contains(err.Error(), "called present") {
			t.Errorf("%s: %d of 100 pass: %v", c.kind, c.wrong, err)
		}
	}
}

// TestQuestionsOfDatabases: no two turns ask about the same new keys.
func TestQuestionsOfDatabases(t *testing.T) {
	b := &bench{Settings: Settings{EngineRows: 1000, EngineQueries: 100},
		rnd: rand.New(rand.NewPCG(1, 2))}
	turns := map[string]int{}
	for turn := range 3 {
		for _, k := range b.engineKeys(turn) {
			turns[string(k.Bytes)]++
		}
	}
	if len(turns) < 3*90+20 {
		t.Errorf("%d different keys in three turns", len(turns))
	}
}
