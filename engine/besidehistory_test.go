package engine_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// besideEvent is what a process prints: that commit n was called, or was acknowledged, or that it
// was the last one that a reader saw after a refresh. From and to are Unix nanoseconds; all
// processes have one clock.
type besideEvent struct {
	kind     string
	n        int
	from, to int64
}

func (e *besideEvent) print() { fmt.Println("event", e.kind, e.n, e.from, e.to) }

// besideEvents makes durable commits, or looks what is there after a refresh, and prints when.
func besideEvents(dir string, o engine.Options, look func(db *engine.DB, n int) error) error {
	stop := besideStop()
	for {
		db, err := engine.Open(dir, &o)
		if o.ReadOnly && errors.Is(err, engine.ErrNotExist) {
			continue // the writer is not there yet
		}
		if err != nil {
			return err
		}
		n, err := besideNumber(db)
		for i := 0; err == nil && i < 30; i++ {
			n++
			err = look(db, n)
			select {
			case <-stop:
				return errors.Join(err, db.Close())
			default:
			}
		}
		if err = errors.Join(err, db.Close()); err != nil {
			return err
		}
	}
}

func besideEventWriter(db *engine.DB, n int) error {
	e := besideEvent{kind: "call", n: n, from: time.Now().UnixNano()}
	e.print()
	err := db.Apply(ctx, besideCommit(n))
	e.kind, e.to = "ack", time.Now().UnixNano()
	if err == nil {
		e.print()
	}
	return err
}

func besideEventReader(db *engine.DB, _ int) (err error) {
	e := besideEvent{kind: "saw", from: time.Now().UnixNano()}
	if err = db.Refresh(); err != nil {
		return err
	}
	if e.n, err = besideNumber(db); err == nil {
		e.to = time.Now().UnixNano()
		e.print()
	}
	return err
}

// One process makes durable commits, others refresh and read, all are killed at any moment, and
// their histories together are one that a single process could have had: a refreshed reader sees
// every commit that was acknowledged before, and none that was not called.
//
// Promise (readers): Refreshed readers in other processes are linearizable with durable commits,
// over kills of all of them.
func TestProcessesAreLinearizable(t *testing.T) {
	testutil.SlowUnderRace(t, "starts processes")
	dir := filepath.Join(t.TempDir(), "db")
	lines := make(chan string, 1<<16)
	random := testutil.Rand(t)
	roles := []string{"event writer", "event reader", "event reader", "event reader"}
	var all []*besideProcess
	for _, role := range roles {
		all = append(all, startBeside(t, dir, role, lines))
	}
	var events []besideEvent
	note := func(line string) {
		var e besideEvent
		if n, _ := fmt.Sscanf(line, "event %s %d %d %d", &e.kind, &e.n, &e.from, &e.to); n == 4 {
			events = append(events, e)
		}
	}
	for range testutil.Effort(4, 300) {
		for range 100 {
			note(<-lines)
		}
		i := random.IntN(len(all))
		all[i].end(t, true)
		all[i] = startBeside(t, dir, roles[i], lines)
	}
	for _, p := range all {
		p.end(t, false)
	}
	close(lines)
	for line := range lines {
		note(line)
	}
	if porcupine.CheckOperations(lastCommit, besideOperations(events)) {
		t.Logf("%d events", len(events))
		return
	}
	for _, e := range events {
		t.Log(e)
	}
	t.Error("no order of the calls explains what was seen")
}

// lastCommit is a register that has the number of the last commit.
var lastCommit = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		e := input.(besideEvent)
		return e.kind != "saw" || e.n == state, e.n
	},
}

// besideOperations makes operations of events. A call without an acknowledgement may take effect
// at any later time, or not at all, which is the same as at the end.
func besideOperations(events []besideEvent) (ops []porcupine.Operation) {
	acked := map[int64]bool{}
	for _, e := range events {
		if e.kind == "ack" {
			acked[e.from] = true
		}
	}
	for _, e := range events {
		if e.kind == "call" {
			if e.to = math.MaxInt64; acked[e.from] {
				continue
			}
		}
		ops = append(ops, porcupine.Operation{ClientId: len(ops), Input: e, Call: e.from,
			Return: e.to})
	}
	return ops
}
