package elle_test

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/elle"
)

// The check itself: each anomaly that it is to find, in the smallest history that has it,
// gets its name, and histories that some order of transactions explains pass.
func TestSerializabilityCheckSeesAnomalies(t *testing.T) {
	for name, c := range anomalies() {
		t.Run(name, func(t *testing.T) {
			var history []elle.Tx
			for _, tx := range c.history {
				history = append(history, elle.Tx(tx))
			}
			problems := elle.Check(history)
			if c.want == "" {
				if len(problems) > 0 {
					t.Fatalf("%q", problems)
				}
				return
			}
			if len(problems) == 0 || !strings.HasPrefix(problems[0], c.want) {
				t.Fatalf("%q, want %s", problems, c.want)
			}
		})
	}
}

type (
	listTx elle.Tx
	listOp = elle.Op
)

type anomalyCase struct {
	want    string // beginning of the first problem, "" for none
	history []listTx
}

func txOf(ops ...listOp) listTx                 { return listTx{Ops: ops} }
func listRead(list int, is ...int) listOp       { return listOp{List: list, Read: is} }
func listAppend(list, value int) listOp         { return listOp{List: list, Append: value} }
func (tx listTx) during(call, ret int64) listTx { tx.Call, tx.Return = call, ret; return tx }
func (tx listTx) abort() listTx                 { tx.Aborted = true; return tx }

func anomalies() map[string]anomalyCase {
	r, a := listRead, listAppend
	return map[string]anomalyCase{
		"nothing": {"", nil},
		"one after the other": {"", []listTx{
			txOf(r(1), a(1, 1)), txOf(r(1, 1), a(1, 2)), txOf(r(1, 1, 2)),
		}},
		"own appends": {"", []listTx{
			txOf(a(1, 1), r(1, 1), a(1, 2), r(1, 1, 2)), txOf(r(1, 1, 2)),
		}},
		"aborted and unseen": {"", []listTx{
			txOf(a(1, 1)), txOf(r(1), a(1, 2)).abort(), txOf(r(1, 1)),
		}},
		"concurrent and serial": {"", []listTx{
			txOf(r(1), a(2, 1)).during(1, 5), txOf(r(2, 1), a(1, 2)).during(2, 6),
			txOf(r(1, 2), r(2, 1)).during(7, 8),
		}},
		"lost update": {"G-single", []listTx{
			txOf(r(1), a(1, 1)), txOf(r(1), a(1, 2)), txOf(r(1, 1, 2)),
		}},
		"lost update that overwrites": {"lost append", []listTx{
			txOf(r(1), a(1, 1)), txOf(r(1), a(1, 2)), txOf(r(1, 2)),
		}},
		"write skew": {"G2", []listTx{
			txOf(r(1), a(2, 1)), txOf(r(2), a(1, 2)), txOf(r(1, 2), r(2, 1)),
		}},
		"read skew": {"G-single", []listTx{
			txOf(a(1, 1), a(2, 2)), txOf(r(1), r(2, 2)), txOf(r(1, 1), r(2, 2)),
		}},
		"aborted read": {"G1a", []listTx{
			txOf(a(1, 1)).abort(), txOf(r(1, 1)),
		}},
		"intermediate read": {"G1b", []listTx{
			txOf(a(1, 1), a(1, 2)), txOf(r(1, 1)), txOf(r(1, 1, 2)),
		}},
		"circular information": {"G1c", []listTx{
			txOf(a(1, 1), r(2, 2)), txOf(a(2, 2), r(1, 1)), txOf(r(1, 1), r(2, 2)),
		}},
		"dirty write": {"G0", []listTx{
			txOf(a(1, 1), a(2, 2)), txOf(a(1, 3), a(2, 4)), txOf(r(1, 1, 3), r(2, 4, 2)),
		}},
		"long fork": {"G2", []listTx{
			txOf(a(1, 1)), txOf(a(2, 2)), txOf(r(1, 1), r(2)), txOf(r(1), r(2, 2)),
			txOf(r(1, 1), r(2, 2)),
		}},
		"garbage": {"garbage", []listTx{txOf(r(1, 7))}},
		"orders that differ": {"incompatible", []listTx{
			txOf(a(1, 1)), txOf(a(1, 2)), txOf(r(1, 1, 2)), txOf(r(1, 2)),
		}},
		"own append too early": {"internal", []listTx{
			txOf(r(1, 1), a(1, 1), r(1, 1, 1)), txOf(r(1, 1, 1)),
		}},
		"own append unseen": {"internal", []listTx{txOf(a(1, 1), r(1)), txOf(r(1, 1))}},
		"stale read": {"G-single (lost update or read skew), by real time", []listTx{
			txOf(a(1, 1)).during(1, 2), txOf(r(1)).during(3, 4), txOf(r(1, 1)).during(5, 6),
		}},
		"stale read of a concurrent write": {"", []listTx{
			txOf(a(1, 1)).during(1, 4), txOf(r(1)).during(3, 5), txOf(r(1, 1)).during(6, 7),
		}},
	}
}
