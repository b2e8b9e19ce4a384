package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// options are the flags of the command.
type options struct {
	as      string
	files   int
	reasons int
	wrong   int
	limit   time.Duration
	sqlite  bool
}

func main() {
	var o options
	flag.StringVar(&o.as, "as", "kstone", "run the records for this database (onlyif, skipif)")
	flag.IntVar(&o.files, "files", 0, "of each folder this many files, evenly spread; 0 is all")
	flag.IntVar(&o.reasons, "reasons", 20, "how many reasons for refusals to show per folder")
	flag.IntVar(&o.wrong, "wrong", 10, "how many wrong results to show per folder")
	flag.DurationVar(&o.limit, "limit", time.Minute, "the time that a query may take")
	flag.BoolVar(&o.sqlite, "sqlite", false, "run SQLite beside, and compare answers and rates")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "usage: sqllogictest [flags] FOLDER | FILE …\n"+
			"FOLDER is the corpus of sqllogictest or a part of it: its folder \"test\".\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ok, err := o.run(os.Stdout, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "sqllogictest:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run judges the files of paths, writes what it counted, and reports whether nothing was wrong.
func (o options) run(w io.Writer, paths []string) (ok bool, err error) {
	folders := map[string][]string{}
	for _, p := range paths {
		if err := collect(folders, p); err != nil {
			return false, err
		}
	}
	if len(folders) == 0 {
		return false, errors.New("there is no file that ends in .test in " +
			strings.Join(paths, ", "))
	}
	var all tally
	results := map[string]*tally{}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		t := &tally{}
		results[folder] = t
		for _, file := range spread(folders[folder], o.files) {
			if err := o.judge(w, t, file); err != nil {
				return false, fmt.Errorf("%s: %w", file, err)
			}
		}
		o.explain(w, folder, t)
		all.add(t)
	}
	results["all"] = &all
	o.table(w, results)
	return all.wrong+all.unfailing == 0, nil
}

// collect adds the files of a path to those of their folders, where those that differ in a
// number only are one.
func collect(folders map[string][]string, root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path != root && filepath.Ext(path) != ".test" {
			return err
		}
		folder, err := filepath.Rel(filepath.Dir(root), filepath.Dir(path))
		if err != nil {
			return err
		}
		if path == root {
			folder = strings.TrimSuffix(filepath.Base(path), ".test")
		} else {
			folder = strings.TrimRight(filepath.ToSlash(folder), "/0123456789")
		}
		folders[folder] = append(folders[folder], path)
		return nil
	})
}

// spread returns n of the files, evenly spread, or all if n is 0.
func spread(files []string, n int) (out []string) {
	if n <= 0 || n >= len(files) {
		return files
	}
	for i := range n {
		out = append(out, files[i*len(files)/n])
	}
	return out
}

// judge runs a file.
func (o options) judge(w io.Writer, t *tally, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	j := &judge{tally: t, limit: o.limit}
	if o.sqlite {
		if j.referee, err = newReferee(); err != nil {
			return err
		}
		defer j.referee.close()
	}
	j.report = func(line int, what string) {
		if t.wrong+t.unfailing <= o.wrong {
			fmt.Fprintf(w, "WRONG %s:%d: %s\n", file, line, what)
		}
	}
	return j.run(parse(string(text), o.as))
}

// explain writes why records of a folder were refused, the most frequent reason first.
func (o options) explain(w io.Writer, folder string, t *tally) {
	kinds := slices.SortedFunc(maps.Keys(t.reasons), func(a, b string) int {
		x, y := t.reasons[a], t.reasons[b]
		return cmp.Or(cmp.Compare(y.queries, x.queries), cmp.Compare(y.statements, x.statements),
			cmp.Compare(a, b))
	})
	for _, k := range kinds[:min(len(kinds), o.reasons)] {
		r := t.reasons[k]
		fmt.Fprintf(w, "%s: %d queries, %d statements refused: %s\n\t%s\n", folder, r.queries,
			r.statements, k, strings.Join(strings.Fields(r.example), " "))
	}
}

// table writes the counts of all folders, that of their sum last.
func (o options) table(w io.Writer, results map[string]*tally) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "folder\tfiles\tqueries\tequal\t%\twrong\trefused\t%\tper second\t"+
		"statements\trefused\twrong\t")
	folders := slices.DeleteFunc(slices.Sorted(maps.Keys(results)),
		func(name string) bool { return name == "all" })
	for _, name := range append(folders, "all") {
		t := results[name]
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%.2f\t%d\t%d\t%.2f\t%.0f\t%d\t%d\t%d\t\n", name,
			t.files, t.queries, t.equal, percent(t.equal, t.queries), t.wrong, t.refused,
			percent(t.refused, t.queries), float64(t.queries)/max(t.elapsed.Seconds(), 1e-9),
			t.statements, t.statements-t.done-t.unfailing, t.unfailing)
	}
	tw.Flush()
	if !o.sqlite {
		return
	}
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "folder\tboth answer\tas SQLite, not as the corpus\tµs a query\tSQLite\t"+
		"rate\t")
	for _, name := range append(folders, "all") {
		t := results[name]
		each := func(d time.Duration) float64 {
			return float64(d.Microseconds()) / max(1, float64(t.both))
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%.1f\t%.1f\t%.2f\t\n", name, t.both, t.asSQLite,
			each(t.ours), each(t.theirs), t.rate())
	}
	tw.Flush()
}

func percent(part, of int) float64 { return 100 * float64(part) / max(1, float64(of)) }
