package command

import (
	"context"
	"fmt"
	"iter"
	"math"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
)

// pageFlags cut a list into pages.
type pageFlags struct {
	reverse  bool
	limit    int
	after    string
	keysOnly bool
}

func (p *pageFlags) add(a *cli.App, cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&p.reverse, "reverse", "r", false, "highest keys first")
	cmd.Flags().IntVarP(&p.limit, "limit", "n", 0, "stop after `N` items; 0 means all")
	cmd.Flags().StringVar(&p.after, "after", "", "resume after the item of a `CURSOR` (see next:)")
	cmd.Flags().BoolVar(&p.keysOnly, "keys-only", false,
		"leave values out; large ones are read only for --where\n"+
			"and to count what belongs to tables")
	cli.Before(cmd, func() error { return p.check(a) })
}

func (p *pageFlags) check(a *cli.App) error {
	if p.keysOnly && present.Format(a.Format) == present.Raw {
		return cli.Usage("-o raw writes values, --keys-only leaves them out")
	}
	if p.limit < 0 {
		return cli.Usage("--limit %d is negative", p.limit).WithHint("0, or no --limit, means all")
	}
	return nil
}

// selection is what a command lists: a query or a scan.
type selection struct {
	// read returns the items after a cursor, up to a limit, 0 for none, and in the other direction
	// if other is set.
	read func(ctx context.Context, s *engine.Snapshot, after engine.Cursor, limit int,
		other bool) present.Items
	cursor func(engine.Item) engine.Cursor
	// about estimates how many items there are, for lists whose middle is left out and whose end is
	// read from the other side; nil if all have to be read for it.
	about func() (float64, error)
	// total is how many items are read at most, -1 if that is not known. Passed counts them: in
	// the filter, if there is one.
	total    int64
	passed   *atomic.Int64
	filtered bool
}

func querySelection(d *cli.Database, q engine.Query, keysOnly bool) selection {
	q.KeysOnly = keysOnly && q.Filter == nil // a filter may look at values
	out := newSelection(-1, &q.Filter, func() (float64, error) { return d.CountAbout(q) })
	out.cursor = q.CursorAfter
	out.read = func(ctx context.Context, s *engine.Snapshot, after engine.Cursor, limit int,
		other bool) present.Items {
		q := q
		q.After, q.Limit, q.Reverse = after, limit, q.Reverse != other
		return s.Query(ctx, q)
	}
	return out
}

func scanSelection(d *cli.Database, sc engine.Scan, keysOnly bool) selection {
	sc.KeysOnly = keysOnly && sc.Filter == nil
	out := newSelection(int64(d.Metrics().Total.Records), &sc.Filter, func() (float64, error) {
		return d.CountScanAbout(sc, 10_000, 256)
	})
	if sc.Unordered || sc.Segments > 0 { // there is no order from the other side
		out.about = nil
	}
	out.cursor = sc.CursorAfter
	out.read = func(ctx context.Context, s *engine.Snapshot, after engine.Cursor, limit int,
		other bool) present.Items {
		sc := sc
		sc.After, sc.Limit, sc.Reverse = after, limit, sc.Reverse != other
		return s.Scan(ctx, sc)
	}
	return out
}

// newSelection returns a selection of at most total items. A filter, if there is one, counts what
// it is asked, and leaves out some of what about counts: then nothing is known.
func newSelection(total int64, filter *func(engine.Item) bool, about func() (float64, error),
) selection {
	out := selection{total: total, passed: new(atomic.Int64), about: about}
	if keep := *filter; keep != nil {
		out.filtered, out.about = true, func() (float64, error) { return 0, nil }
		*filter = func(item engine.Item) bool {
			out.passed.Add(1)
			return keep(item)
		}
	}
	return out
}

// lister writes a selection page by page.
type lister struct {
	selection
	a       *cli.App
	d       *cli.Database
	options present.Options
	limit   int           // items on a page, 0 for all
	after   engine.Cursor // where the page starts
	next    engine.Cursor // where the next page starts; nil if there is none
	whole   bool          // the page was read to the end of the list
	end     func(whole bool)
}

// list writes one page, and says where the next one starts. End is called after each page.
func list(ctx context.Context, a *cli.App, d *cli.Database, page *pageFlags, s selection,
	end func(whole bool)) error {
	l := &lister{selection: s, a: a, d: d, limit: page.limit, end: end,
		options: a.Options(d.Schema, page.limit > 0)}
	l.options.KeysOnly = page.keysOnly
	if page.after != "" {
		after, err := engine.ParseCursor(page.after)
		if err != nil {
			return err
		}
		l.after = after
	}
	return l.show(ctx)
}

// show writes the page at the position.
func (l *lister) show(ctx context.Context) error {
	snap, err := l.a.Snapshot(l.d)
	if err != nil {
		return err
	}
	defer snap.Close()
	l.a.More = nil
	if l.about != nil && l.after == nil && l.a.AsOf == "" { // estimates are of the present
		l.options.Last = func(n int) present.Items { return l.read(ctx, snap, nil, n, true) }
		l.options.About = func() int64 { n, _ := l.about(); return int64(n) }
	}
	out, done := l.a.Patient(cli.Work{Doing: "reading", Total: l.total, Done: l.passed.Load})
	_, err = present.Write(out, l.page(ctx, snap), l.options)
	if done(); err != nil {
		return err
	}
	l.end(l.whole)
	if l.next == nil {
		return nil
	}
	if l.a.Open == nil {
		fmt.Fprintf(l.a.Err, "next: %s\n", l.next)
		return nil
	}
	l.after = l.next
	l.a.More = l.show
	fmt.Fprintf(l.a.Err, "next: %s   (or type more)\n", l.next)
	return nil
}

// page returns the items of the page. It reads one item more than the page holds, to see whether
// there is one.
func (l *lister) page(ctx context.Context, snap *engine.Snapshot) iter.Seq2[engine.Item, error] {
	return func(yield func(engine.Item, error) bool) {
		limit, n := 0, 0
		if l.limit > 0 {
			limit = min(l.limit, math.MaxInt-1) + 1
		}
		var last engine.Cursor
		l.next, l.whole = nil, false
		for item, err := range l.read(ctx, snap, l.after, limit, false) {
			if !l.filtered {
				l.passed.Add(1)
			}
			if err == nil && l.limit > 0 {
				if n == l.limit {
					l.next = last
					return
				}
				if n++; n == l.limit {
					last = l.cursor(item)
				}
			}
			if !yield(item, err) {
				return
			}
		}
		l.whole = true
	}
}
