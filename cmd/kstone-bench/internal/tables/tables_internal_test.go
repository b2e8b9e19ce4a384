package tables

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// TestData checks that rows are found by their values and that values are those of one row.
func TestData(t *testing.T) {
	for _, n := range []int{1, 2, 100, 1000, 4096} {
		d := newData(n)
		at, seq, codes := map[int64]bool{}, map[int64]bool{}, map[string]bool{}
		for id := int64(1); id <= d.n; id++ {
			r := d.row(id)
			if r.ID != id || r.At < 0 || r.At >= d.n || d.byAt(r.At) != r || d.bySeq(r.Seq) != r {
				t.Fatalf("row %d of %d is %+v, found as %+v and %+v", id, n, r, d.byAt(r.At),
					d.bySeq(r.Seq))
			}
			at[r.At], seq[r.Seq], codes[r.Code] = true, true, true
		}
		if len(at) != n || len(seq) != n || len(codes) != n {
			t.Errorf("%d, %d and %d different values of %d", len(at), len(seq), len(codes), n)
		}
	}
}

// alteredSession changes what a session answers.
type alteredSession struct {
	session
	rows func([]Row) []Row
}

func (l alteredSession) rangeAt(ctx context.Context, dst []Row, lo, hi int64) ([]Row, error) {
	rows, err := l.session.rangeAt(ctx, dst, lo, hi)
	return l.rows(rows), err
}

// TestVerify has an engine that answers wrongly found out.
func TestVerify(t *testing.T) {
	d := newData(200)
	st, err := openBstore(t.Context(), settings{dir: t.TempDir(), indexes: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	var rows []Row
	for id := int64(1); id <= d.n; id++ {
		rows = append(rows, d.row(id))
	}
	if err := st.insert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	s, err := st.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t.Context(), s, d, 20); err != nil {
		t.Errorf("honest answers: %v", err)
	}
	for name, alter := range map[string]func([]Row) []Row{
		"a row less":  func(r []Row) []Row { return r[1:] },
		"a row twice": func(r []Row) []Row { return append(r, r[0]) },
		"order":       func(r []Row) []Row { slices.Reverse(r); return r },
		"a text":      func(r []Row) []Row { r[0].Note += "!"; return r },
	} {
		if err := verify(t.Context(), alteredSession{s, alter}, d, 20); err == nil ||
			!strings.Contains(err.Error(), "range") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestPlans checks that the queries of the comparison use the indexes they are meant for.
func TestPlans(t *testing.T) {
	st, err := openKstone(t.Context(), settings{dir: t.TempDir(), indexes: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	if err := (&bench{ctx: t.Context()}).load(
		&contestant{store: st}, newData(1000)); err != nil {
		t.Fatal(err)
	}
	s, err := st.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t.Context(), s, newData(1000), 30); err != nil {
		t.Error(err)
	}
	k := s.(*kstoneStore)
	for want, explain := range map[string]func() (*plan.Explanation, error){
		"by_code": func() (*plan.Explanation, error) {
			return k.byCode.Explain(t.Context(), k.db, k.argCode.Is("A"))
		},
		"by_at": func() (*plan.Explanation, error) {
			return k.byAt.Explain(t.Context(), k.db, k.argLo.Is(1), k.argHi.Is(20))
		},
		"covering": func() (*plan.Explanation, error) {
			return k.covered.Explain(k.db, expr.Int(1), expr.Int(20))
		},
		"by_seq": func() (*plan.Explanation, error) {
			return k.bySeq.Explain(t.Context(), k.db, k.argLo.Is(1), k.argLimit.Is(10))
		},
	} {
		if e, err := explain(); err != nil || !strings.Contains(e.String(), want) {
			t.Errorf("the plan lacks %q: %v\n%s", want, err, e)
		}
	}
}

func TestTurn(t *testing.T) {
	for _, goroutines := range []int{1, 3} {
		calls := make([]int64, goroutines)
		c, err := turn(t.Context(), goroutines, time.Millisecond, func(g int) error {
			calls[g]++
			return nil
		})
		sum := int64(0)
		for _, n := range calls {
			if n == 0 {
				t.Error("a goroutine has done nothing")
			}
			sum += n
		}
		if err != nil || c.ops != sum || c.seconds < 0.001 {
			t.Errorf("%+v of %d calls, %v", c, sum, err)
		}
	}
	c, err := turn(t.Context(), 1, time.Nanosecond, func(int) error { return nil })
	if err != nil || c.ops != 1 {
		t.Errorf("%+v in no time, %v", c, err)
	}
	if _, err := turn(t.Context(), 2, time.Hour, func(int) error {
		return context.DeadlineExceeded
	}); err == nil {
		t.Error("an error is lost")
	}
}

func TestTargets(t *testing.T) {
	sample := func(engine string, round int, ops int64) result.Record {
		return cost{ops: ops, seconds: 1}.record(entry{group: groupReads, name: "c",
			engine: engine, goroutines: 1, rows: 1}, round)
	}
	got, _ := checks(report.NewTable(&Kind, []result.Run{{Records: []result.Record{
		sample(subject, 0, 100), sample("slow", 0, 50), sample("fast", 0, 400),
		sample(subject, 1, 300), sample("slow", 1, 30), sample("fast", 1, 300),
		sample(subject, 2, 200), sample("slow", 2, 50), sample("fast", 2, 400),
	}}}))
	if len(got) != 1 || got[0].Verdict != report.Missed || got[0].Got != "0.50 (fast)" {
		t.Errorf("checks %+v", got) // of 0.25, 1 and 0.5
	}
}
