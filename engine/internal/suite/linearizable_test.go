package suite_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// openFixed opens a database whose clock stands still.
func openFixed(t testing.TB, fsys vfs.FS, o engine.Options) *engine.DB {
	t.Helper()
	o.Clock = func() time.Time { return time.UnixMilli(now) }
	db, err := openOn(fsys, "db", &o)
	ok(t, err)
	return db
}

func mustClose(t testing.TB, db *engine.DB) {
	t.Helper()
	ok(t, db.Close())
}

// Goal: single keys are linearizable: whatever is read, written and compared at the same
// time behaves as if each call had taken effect at one moment between its beginning and
// its end; snapshots show that of the moment when they were taken. Method: many
// goroutines work on few keys, with every call there is: alone, in batches that touch each
// key several times, in transactions. Meanwhile flushes and merges go on, and the
// database is closed and opened in between; porcupine looks for such moments.
//
// Promise (reads and writes): Single keys are linearizable, by every call, in batches and
// transactions too; snapshots contain every commit acknowledged before. Also
// `TestNothingIsSeenWithinACommit`.
func TestSingleKeysAreLinearizable(t *testing.T) {
	rounds, calls := testutil.Effort(4, 8), min(150, testutil.Effort(60, 150))
	seed := testutil.Seed(t)
	total := 0
	for round := range rounds {
		h := &history{t: t}
		fsys := vfs.NewMem()
		for phase := range 3 {
			h.db = openFixed(t, fsys, engine.Options{
				Durability: engine.Process, FlushRecords: []int{2, 1, 0, 10}[round%4], MaxRuns: 2,
				CacheBytes: 1 << 20,
			})
			h.phase(calls, rand.New(rand.NewPCG(seed, uint64(round*3+phase))))
			mustClose(t, h.db)
		}
		total += h.check()
	}
	t.Logf("%d calls", total)
}

// Goal: there is no moment within a commit, and nothing of it after Get has returned what
// was there before it. Method: as above, without what takes long: commits that remove a
// register and write it again follow each other closely, beside readers that do nothing
// else, and of what they read only changes are noted.
func TestNothingIsSeenWithinACommit(t *testing.T) {
	rounds, calls := testutil.Effort(4, 8), testutil.Effort(1500, 6000)
	seed := testutil.Seed(t)
	total := 0
	for round := range rounds {
		h := &history{t: t, db: openFixed(t, vfs.NewMem(), engine.Options{
			Durability: engine.Process, FlushRecords: []int{0, 0, 0, 1}[round%4], MaxRuns: 2,
		})}
		var readers sync.WaitGroup
		var done atomic.Bool
		for n := range 2 {
			c := h.client(1+n, 1, nil)
			readers.Go(func() {
				c.watch(&done, n == 1)
				c.done()
			})
		}
		writer := h.client(0, 1, rand.New(rand.NewPCG(seed, uint64(round))))
		for range calls {
			away := op{Kind: []string{"put", "delete", "delete-range"}[writer.IntN(3)]}
			writer.write(&away)
			away.If = ""
			back := op{Kind: "put", Key: writer.registers[0]}
			writer.do(op{Kind: "batch", Ops: []op{away, back}})
		}
		writer.done()
		done.Store(true)
		readers.Wait()
		mustClose(t, h.db)
		total += h.check()
	}
	t.Logf("%d calls", total)
}

// The check itself: histories that no register can have are refused, and such as only
// concurrency explains are accepted.
//
// Promise (tests): The checks of histories see every anomaly, the programs a wrong answer; the
// reduction leaves the cause. Also `TestSerializabilityCheckSeesAnomalies`,
// `TestProgramsNoticeWrongAnswers`, `TestReduceFindsTheCause`.
func TestLinearizabilityCheckSeesAnomalies(t *testing.T) {
	for text, want := range map[string]bool{
		"read in order:           1-2 put a, 3-4 saw a":                              true,
		"read of both:            1-9 put a, 2-3 saw -, 4-5 saw a":                   true,
		"stale read:              1-2 put a, 3-4 put b, 5-6 saw a":                   false,
		"lost write:              1-2 put a, 3-4 saw -":                              false,
		"value from future:       1-2 saw a, 3-4 put a":                              false,
		"read goes back:          1-2 put a, 3-9 put b, 4-5 saw b, 6-7 saw a":        false,
		"deleted comes back:      1-2 put a, 3-4 delete, 5-6 saw a":                  false,
		"two winners:             1-5 put a if -, 2-6 put b if -":                    false,
		"one winner:              1-5 put a if -, 2-6 failed put b if -":             true,
		"condition held twice:    1-2 put a, 3-8 put b if a, 4-9 put c if a":         false,
		"failed without reason:   1-2 put a, 3-4 failed put b if a":                  false,
		"lost update:             1-2 put a, 3-8 saw a + put b, 4-9 saw a + put c":   false,
		"taken twice:             1-2 put a, 3-8 saw a + delete, 4-9 saw a + delete": false,
		"taken by one:            1-2 put a, 3-8 saw a + delete, 4-9 saw - + delete": true,
		"own write unseen:        1-2 put a + saw -":                                 false,
		"own write seen:          1-2 put a + saw a + put b, 3-4 saw b":              true,
		"away within a commit:    1-2 put a, 3-8 put b, 4-5 saw -":                   false,
		"removed and compared:    1-2 put a, 3-4 delete if b":                        false,
		"versions in order:       1-2 put a at 5, 3-4 put b at 6, 5-6 saw b":         true,
		"versions go back:        1-2 put a at 6, 3-4 put b at 5, 5-6 saw b":         false,
		"versions tell the order: 1-9 put a at 6, 2-8 put b at 5, 10-11 saw b":       false,
	} {
		name, calls, _ := strings.Cut(text, ":")
		t.Run(name, func(t *testing.T) {
			var history []porcupine.Operation
			for call := range strings.SplitSeq(calls, ", ") {
				history = append(history, parseCall(call))
			}
			wantLinearizable(t, history, want)
		})
	}
}

// parseCall parses a call of one register: when it was made and returned, and its events, like
// 1-2 saw a + put b if c at 7. A - stands for nothing there.
func parseCall(text string) (made porcupine.Operation) {
	c := &call{register: "r"}
	made.Input = c
	for part := range strings.SplitSeq(text, " + ") {
		var e event
		w := write{key: keyOf("r"), cond: condition{unconditional: true}}
		words := strings.Fields(part)
		for i := 0; i < len(words); i++ {
			next := func() string { i++; return strings.Trim(words[i], "-") }
			switch word := words[i]; word {
			case "saw":
				v := next()
				e.saw = sight{item: engine.Item{Value: []byte(v)}, there: v != "", valued: true}
			case "put", "delete":
				o := &op{Kind: word, Key: "r"}
				w.op, w.match, e.write = o, o.selects(), &w
				if word == "put" {
					w.value = []byte(next())
				}
			case "if":
				v := next()
				w.cond = condition{there: v != "", equal: true, value: []byte(v)}
			case "at":
				c.version, _ = strconv.ParseUint(next(), 10, 64)
			case "failed":
				e.failed = true
			default:
				fmt.Sscanf(word, "%d-%d", &made.Call, &made.Return)
			}
		}
		c.events = append(c.events, e)
	}
	return made
}
