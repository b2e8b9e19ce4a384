package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dedup"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
)

// measureDedup measures how fast it is found out which keys are new, and writes raw
// output and, if wanted, a page with tables, aims and a chart.
func measureDedup(args []string, w io.Writer) error {
	s := dedup.Full()
	flags := flag.NewFlagSet("dedup", flag.ContinueOnError)
	rows := flags.Int("rows", s.Rows, "rows in 10 and in 20 segments")
	repeat := flags.Int("repeat", s.Repeat, "rounds; medians are shown")
	quick := flags.Bool("quick", false, "a million rows, three rounds, unless said otherwise")
	flags.IntVar(&s.Queries, "queries", s.Queries, "keys that are asked in a round")
	flags.BoolVar(&s.Large, "large", false, "also 2 and 3 times the rows, in 20 and 30 segments")
	flags.StringVar(&s.Dir, "dir", s.Dir, "where a filter is saved and removed")
	flags.IntVar(&s.EngineRows, "engine-rows", s.EngineRows,
		"records in each database; 0 leaves databases out")
	flags.IntVar(&s.EngineQueries, "engine-keys", s.EngineQueries,
		"keys that databases are asked about in a round")
	from := flags.String("from", "", "raw results to make the page of, instead of measuring")
	out := flags.String("out", "kstone-bench-dedup.jsonl", "file that gets the raw results")
	page := flags.String("page", "", "Markdown file whose generated part is replaced; the chart "+
		"goes into charts beside it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	s.Rows, s.Repeat = *rows, *repeat
	if *quick {
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		s.Builds = s.Builds[:3]
		if !given["rows"] {
			s.Rows = 1_000_000
		}
		if !given["repeat"] {
			s.Repeat = 3
		}
		if !given["queries"] {
			s.Queries = 1 << 18
		}
		if !given["engine-rows"] {
			s.EngineRows = 500_000
		}
		if !given["engine-keys"] {
			s.EngineQueries = 100_000
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	figures, meta, err := dedupRows(ctx, s, *from, *out)
	if err != nil {
		return err
	}
	if *page != "" {
		return dedup.WritePage(*page, meta, figures)
	}
	dedup.Markdown(w, meta, figures)
	return nil
}

// dedupRows reads raw results, or measures and writes them.
func dedupRows(ctx context.Context, s dedup.Settings, from, out string,
) (rows []dedup.Row, meta report.Meta, err error) {
	if from != "" {
		f, err := os.Open(from)
		if err != nil {
			return nil, meta, err
		}
		meta, rows, err = dedup.Read(f)
		return rows, meta, errors.Join(err, f.Close())
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return nil, meta, err
	}
	f, err := os.Create(out)
	if err != nil {
		return nil, meta, err
	}
	rows, meta, err = dedup.Run(ctx, s, f, os.Stderr)
	return rows, meta, errors.Join(err, f.Close())
}
