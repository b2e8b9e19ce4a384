package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/small"
)

// measureSmall measures what small databases cost, and writes raw output and, if wanted, a
// page.
func measureSmall(args []string, w io.Writer) error {
	s := small.Settings{Cases: small.Cases()}
	flags := flag.NewFlagSet("small", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "the first three cases only: seconds")
	flags.StringVar(&s.Dir, "dir", "", "where databases are made and removed "+
		"(default: the directory for temporary files)")
	from := flags.String("from", "", "raw results to make the page of, instead of measuring")
	out := flags.String("out", "kstone-bench-small.jsonl", "file that gets the raw results")
	page := flags.String("page", "", "Markdown file whose generated part is replaced "+
		"(default: standard output)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if *quick {
		s.Cases = s.Cases[:3]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	rows, meta, err := smallRows(ctx, s, *from, *out)
	if err != nil {
		return err
	}
	if *page != "" {
		return small.WritePage(*page, meta, rows)
	}
	small.Markdown(w, meta, rows)
	return nil
}

// smallRows reads raw results, or measures and writes them.
func smallRows(ctx context.Context, s small.Settings, from, out string,
) (rows []small.Row, meta report.Meta, err error) {
	if from != "" {
		f, err := os.Open(from)
		if err != nil {
			return nil, meta, err
		}
		meta, rows, err = small.Read(f)
		return rows, meta, errors.Join(err, f.Close())
	}
	f, err := os.Create(out)
	if err != nil {
		return nil, meta, err
	}
	rows, meta, err = small.Run(ctx, s, f, os.Stderr)
	return rows, meta, errors.Join(err, f.Close())
}
