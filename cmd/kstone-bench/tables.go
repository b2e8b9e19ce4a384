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
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/tables"
)

// measureTables measures tables and indexes of kstone and of other databases, and writes raw
// output and, if wanted, a page and charts.
func measureTables(args []string, w io.Writer) error {
	s := tables.Full()
	flags := flag.NewFlagSet("tables", flag.ContinueOnError)
	names := flags.String("engines", strings.Join(s.Engines, ","), "engines, by comma")
	rows := flags.Int("rows", s.Rows, "rows of the table")
	repeat := flags.Int("repeat", s.Repeat, "rounds; medians are shown")
	length := flags.Duration("turn", s.Turn, "time of an engine for a line in a round")
	short := flags.Duration("short", s.Short, "the same where kstone is compared with itself")
	quick := flags.Bool("quick", false, "20,000 rows and short turns, unless said otherwise")
	flags.StringVar(&s.Dir, "dir", s.Dir, "where databases are made and removed")
	from := flags.String("from", "", "raw results to make the page of, instead of measuring")
	out := flags.String("out", "kstone-bench-tables.jsonl", "file that gets the raw results")
	page := flags.String("page", "", "Markdown file whose generated part is replaced "+
		"(default: standard output)")
	charts := flags.String("charts", "", "directory that gets the charts as SVG")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if *quick {
		q := tables.Quick()
		s.Rows, s.Repeat, s.Turn, s.Short = q.Rows, q.Repeat, q.Turn, q.Short
	}
	for name, set := range map[string]func(){
		"rows": func() { s.Rows = *rows }, "repeat": func() { s.Repeat = *repeat },
		"turn": func() { s.Turn = *length }, "short": func() { s.Short = *short },
	} {
		if given[name] {
			set()
		}
	}
	s.Engines = strings.Split(*names, ",")
	result, err := tablesResult(s, *from, *out)
	if err != nil {
		return err
	}
	if *page != "" {
		return tables.WritePage(*page, *charts, result)
	}
	if *charts != "" {
		err = tables.WriteCharts(*charts, result)
	}
	return errors.Join(err, tables.Markdown(w, "", result))
}

// tablesResult reads raw results, or measures and writes them.
func tablesResult(s tables.Settings, from, out string) (r *tables.Result, err error) {
	if from != "" {
		f, err := os.Open(from)
		if err != nil {
			return nil, err
		}
		r, err := tables.Read(f)
		return r, errors.Join(err, f.Close())
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(out)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return tables.Run(ctx, s, f, os.Stderr)
}
