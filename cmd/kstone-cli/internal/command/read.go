package command

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
)

func queryCommand(a *cli.App) *cobra.Command {
	var conditions conditionFlags
	var page pageFlags
	cmd := &cobra.Command{
		Use:   a.Use("query", "PK [conditions] [--reverse] [--limit N] [--after CURSOR]"),
		Short: "List the items of one partition, in the order of their sort keys",
		Long: `List the items of one partition, in the order of their sort keys. Conditions compare
bytes, or the fields of the sort key if an import has declared some; then operands
may name just the first fields ("Lombardy" is the first, '["Lombardy","X"]' two).

If --limit cuts the list, a cursor is printed as "next: CURSOR" on standard error.
With --after CURSOR the same query goes on exactly there, whatever was written since.`,
		Example: `  kstone-cli query my.db user#1
  kstone-cli query my.db user#1 --sk-begins-with post# --reverse --limit 10
  kstone-cli query my.db sensor --sk-between 2026-01-01,2026-02-01
  kstone-cli query cities.db IT --sk-prefix Lombardy --sk-prefix "Provincia di Brescia"
  kstone-cli query cities.db IT --sk-prefix Lombardy --sk-ge "Provincia di Milano"`,
		Args:              a.Arguments(1, 1),
		ValidArgsFunction: completePK(a),
	}
	conditions.add(a, cmd)
	page.add(cmd)
	a.ItemFlag(cmd)
	cmd.RunE = a.OnDB(cli.ReadOnly, func(ctx context.Context, d *cli.Database,
		args []string) error {
		q, err := query(a, d, args[0], &conditions)
		if err != nil {
			return err
		}
		q.Reverse = page.reverse
		return list(ctx, a, d, &page, listing{
			page: func(ctx context.Context, s *engine.Snapshot, p *position) present.Items {
				return func(yield func(engine.Item, error) bool) {
					q := q
					q.After, q.Limit = p.after, p.limit()
					p.pass(s.Query(ctx, q), q.CursorAfter, yield)
				}
			},
			last: func(ctx context.Context, s *engine.Snapshot, n int) present.Items {
				q := q
				q.Reverse, q.Limit = !q.Reverse, n
				return s.Query(ctx, q)
			},
			about: func() (float64, error) { return d.CountAbout(q) },
		})
	})
	return cmd
}

// query builds the query for a partition and conditions.
func query(a *cli.App, d *cli.Database, pkText string, c *conditionFlags) (q engine.Query,
	err error) {
	pk, err := a.Arg("PK", pkText)
	if err != nil {
		return q, err
	}
	if q.PK, err = d.Schema.PK(pk); err != nil {
		return q, err
	}
	condition, err := c.condition(a)
	if err != nil {
		return q, err
	}
	r, err := d.Schema.Range(condition)
	q.SK, q.Filter = r.SK, r.Filter
	return q, err
}

func scanCommand(a *cli.App) *cobra.Command {
	var page pageFlags
	var segment string
	var unordered, internal bool
	cmd := &cobra.Command{
		Use:   a.Use("scan", "[--segment i/n] [--unordered] [--limit N]"),
		Short: "List all items",
		Long: `List all items in the order of their keys, without rows of tables and entries of
indexes, which --internal adds. --unordered lists them stripe by stripe,
which is several times as fast. Segments divide the items into n disjoint parts,
counted from 0, for readers in parallel.`,
		Example: `  kstone-cli scan my.db --limit 20
  kstone-cli scan my.db -o jsonl | wc -l
  kstone-cli scan my.db --segment 0/4 --unordered -o jsonl`,
		Args: a.Arguments(0, 0),
	}
	page.add(cmd)
	cmd.Flags().StringVar(&segment, "segment", "", "part `i/n`, counted from 0, for example 0/4")
	cmd.Flags().BoolVar(&unordered, "unordered", false,
		"list stripe by stripe instead of in key order")
	a.InternalFlag(cmd, &internal)
	a.ItemFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		sc := engine.Scan{Unordered: unordered, Reverse: page.reverse}
		if err := parseSegment(segment, &sc); err != nil {
			return err
		}
		path, _ := a.Split(args)
		return a.WithDB(path, cli.ReadOnly, func(d *cli.Database) error {
			if !internal {
				owners, err := cli.OwnersOf(cmd.Context(), d.DB)
				if err != nil {
					return err
				}
				sc.Filter = owners.Outer()
			}
			l := listing{
				page: func(ctx context.Context, s *engine.Snapshot, p *position) present.Items {
					return func(yield func(engine.Item, error) bool) {
						sc := sc
						sc.After, sc.Limit = p.after, p.limit()
						p.pass(s.Scan(ctx, sc), sc.CursorAfter, yield)
					}
				},
				last: func(ctx context.Context, s *engine.Snapshot, n int) present.Items {
					sc := sc
					sc.Reverse, sc.Limit = !sc.Reverse, n
					return s.Scan(ctx, sc)
				},
				about: func() (float64, error) {
					if sc.Filter != nil { // an estimate counts what it leaves out
						return 0, nil
					}
					return d.CountScanAbout(sc, 10_000, 256)
				},
			}
			if sc.Unordered || sc.Segments > 0 { // no order from the other side
				l.last = nil
			}
			return list(cmd.Context(), a, d, &page, l)
		})
	}
	return cmd
}

func parseSegment(text string, sc *engine.Scan) error {
	if text == "" {
		return nil
	}
	i, n, ok := strings.Cut(text, "/")
	segment, err1 := strconv.Atoi(i)
	segments, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || segments < 1 || segments > 256 ||
		segment < 0 || segment >= segments {
		return cli.Usage("--segment %q is not i/n with 0 <= i < n <= 256", text).
			WithHint("--segment 0/4 is the first of four parts, --segment 3/4 the last")
	}
	sc.Segment, sc.Segments = segment, segments
	return nil
}

// pageFlags cut a list into pages.
type pageFlags struct {
	reverse bool
	limit   int
	after   string
}

func (p *pageFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&p.reverse, "reverse", "r", false, "highest keys first")
	cmd.Flags().IntVarP(&p.limit, "limit", "n", 0, "stop after `N` items; 0 means all")
	cmd.Flags().StringVar(&p.after, "after", "", "resume after the item of a `CURSOR` (see next:)")
	cli.Before(cmd, p.check)
}

func (p *pageFlags) check() error {
	if p.limit < 0 {
		return cli.Usage("--limit %d is negative", p.limit).WithHint("0, or no --limit, means all")
	}
	return nil
}

// position follows a list through one page.
type position struct {
	page  int           // items on a page, 0 for all
	after engine.Cursor // where it starts
	next  engine.Cursor // where the next page starts; nil if there is none
}

// limit asks for one item more than the page holds, to see whether there is one.
func (p *position) limit() int {
	if p.page == 0 {
		return 0
	}
	return p.page + 1
}

// pass hands on the items of the page.
func (p *position) pass(items iter.Seq2[engine.Item, error],
	cursor func(engine.Item) engine.Cursor, yield func(engine.Item, error) bool) {
	n := 0
	var last engine.Cursor
	p.next = nil
	for item, err := range items {
		if err == nil && p.page > 0 {
			if n == p.page {
				p.next = last
				return
			}
			if n++; n == p.page {
				last = cursor(item)
			}
		}
		if !yield(item, err) {
			return
		}
	}
}

// listing is what a command lists.
type listing struct {
	// page returns the items of the page at a position.
	page func(context.Context, *engine.Snapshot, *position) present.Items
	// last returns the last n items, the last one first, and about how many there are, for lists
	// whose middle is left out; nil if all have to be read for it.
	last  func(ctx context.Context, s *engine.Snapshot, n int) present.Items
	about func() (float64, error)
}

// list writes one page, and says where the next one starts.
func list(ctx context.Context, a *cli.App, d *cli.Database, page *pageFlags, l listing) error {
	p := &position{page: page.limit}
	if page.after != "" {
		after, err := engine.ParseCursor(page.after)
		if err != nil {
			return err
		}
		p.after = after
	}
	o := a.Options(d.Schema, page.limit > 0)
	var show func(ctx context.Context) error
	show = func(ctx context.Context) error {
		snap, err := d.Snapshot()
		if err != nil {
			return err
		}
		defer snap.Close()
		a.More = nil
		if l.last != nil && p.after == nil {
			o.Last = func(n int) present.Items { return l.last(ctx, snap, n) }
			o.About = func() int64 { n, _ := l.about(); return int64(n) }
		}
		if _, err := present.Write(a.Out, l.page(ctx, snap, p), o); err != nil {
			return err
		}
		if p.next == nil {
			return nil
		}
		if a.Open == nil {
			fmt.Fprintf(a.Err, "next: %s\n", p.next)
			return nil
		}
		p.after = p.next
		a.More = show
		fmt.Fprintf(a.Err, "next: %s   (or type more)\n", p.next)
		return nil
	}
	return show(ctx)
}

func countCommand(a *cli.App) *cobra.Command {
	var conditions conditionFlags
	var internal bool
	cmd := &cobra.Command{
		Use:   a.Use("count", "[PK [conditions]]"),
		Short: "Count items",
		Long: `Print the number of items: of the database, of a partition, or of those in a
partition whose sort keys meet a condition. The conditions are those of query. What
belongs to tables is counted apart, on standard error, or with --internal as items.`,
		Example: `  kstone-cli count my.db
  kstone-cli count cities.db US
  kstone-cli count cities.db IT --sk-prefix Lombardy`,
		Args:              a.Arguments(0, 1),
		ValidArgsFunction: completePK(a),
	}
	conditions.add(a, cmd)
	a.InternalFlag(cmd, &internal)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, args := a.Split(args)
		if len(args) == 0 && conditions.given() {
			return cli.Usage("count: conditions on the sort key need a partition").
				WithHint("usage: %s", cmd.UseLine())
		}
		return a.WithDB(path, cli.ReadOnly, func(d *cli.Database) error {
			n, others, err := count(cmd.Context(), a, d, args, &conditions, internal)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Out, n)
			for _, name := range slices.Sorted(maps.Keys(others)) {
				fmt.Fprintf(a.Err, "beside them: %s of %s\n", present.Count(others[name]), name)
			}
			return err
		})
	}
	return cmd
}

// count counts items, and apart from them what belongs to tables, by its owner.
func count(ctx context.Context, a *cli.App, d *cli.Database, args []string,
	c *conditionFlags, internal bool) (n int64, others map[string]int64, err error) {
	if len(args) == 1 {
		q, err := query(a, d, args[0], c)
		if err != nil {
			return 0, nil, err
		}
		n, err = d.Count(ctx, q)
		return n, nil, err
	}
	owners, err := cli.OwnersOf(ctx, d.DB)
	if err != nil {
		return 0, nil, err
	}
	others = map[string]int64{}
	items := cli.Followed(a, "counting", int64(d.Metrics().Total.Records),
		d.Scan(ctx, engine.Scan{Unordered: true}))
	var pk []byte
	var owner cli.Owner
	var name string
	for item, err := range items {
		if err != nil {
			return 0, nil, err
		}
		if string(item.Key.PK) != string(pk) {
			pk = append(pk[:0], item.Key.PK...)
			owner = owners.Of(pk)
			name = owner.Name()
		}
		switch {
		case internal, !owner.Inner():
			n++
		case !owner.Catalogue:
			others[name]++
		}
	}
	return n, others, nil
}
