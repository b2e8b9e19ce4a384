package upkeep

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
)

// InspectCommand returns the command inspect.
func InspectCommand(a *cli.App) *cobra.Command {
	var summary bool
	cmd := &cobra.Command{
		Use:   "inspect DB | FILE…",
		Short: "Show the files of a database, or what is in them",
		Long: `Show the files of a database by kind, and the data files of each stripe; or what
is in files: log segments, SSTs, manifests and CURRENT. --summary leaves out the blocks
of SSTs and the operations of log segments.

Files are only read; the database need not be closed. A file that cannot be shown does
not keep the others from being shown.`,
		Example: `  kstone-cli inspect cities.db
  kstone-cli inspect cities.db/CURRENT
  kstone-cli inspect --summary cities.db/094-*.sst`,
		Args: cli.Words(1, -1),
	}
	cmd.Flags().BoolVar(&summary, "summary", false, "the head of each file only")
	a.OutputFlag(cmd, "`FORMAT`: json prints the files of a database as JSON", "table", "json")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 1 && isDir(args[0]) {
			return inspectDir(a, args[0])
		}
		if a.Format == "json" {
			return cli.Usage("inspect: -o json is for the directory of a database")
		}
		out := a.Out
		if summary {
			lines := &headLines{w: a.Out}
			defer lines.flush()
			out = lines
		}
		var failed []error
		for i, name := range args {
			if len(args) > 1 {
				gap := map[bool]string{true: "\n"}[i > 0]
				if _, err := fmt.Fprintf(out, "%s==> %s <==\n", gap, name); err != nil {
					return err
				}
			}
			if err := inspectFile(name, out); err != nil {
				failed = append(failed, err)
			}
		}
		return errors.Join(failed...)
	}
	return cmd
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// inspectFile shows what is in a file. Files without content are named.
func inspectFile(name string, out io.Writer) error {
	info, err := os.Stat(name)
	switch of := kindOf(filepath.Base(name)); {
	case err != nil:
		return cli.Advise(err, "name the directory of a database, or files in it")
	case info.IsDir():
		return cli.Usage("inspect: %s is a directory among files", name).
			WithHint("inspect of one directory shows its files")
	case slices.Contains([]string{"lock", "reserve", "readers", "times"}, of.kind):
		fmt.Fprintf(out, "%s: %s\n", filepath.Base(name), of.about)
		return nil
	}
	return engine.InspectFile(name, out)
}

// fileKind is a kind of files of a database: what they are for, and their names.
type fileKind struct {
	kind, about string
	name        *regexp.Regexp
}

// fileKinds are all; the last one is any file.
var fileKinds = []*fileKind{
	{"data", "sorted items of one stripe", regexp.MustCompile(`^[0-9]{3}-[0-9]+\.sst$`)},
	{"values", "large values of one stripe", regexp.MustCompile(`^[0-9]{3}-[0-9]+\.val$`)},
	{"log", "the newest commits", regexp.MustCompile(`^wal-.*\.log$`)},
	{"manifest", "which data files are in use, and the settings",
		regexp.MustCompile(`^MANIFEST-`)},
	{"times", "which commit was the newest at a time", regexp.MustCompile(`^TIMES$`)},
	{"current", "the name of the manifest", regexp.MustCompile(`^CURRENT$`)},
	{"lock", "locked while a process writes the database", regexp.MustCompile(`^LOCK$`)},
	{"reserve", "space for deletes when the disk is full", regexp.MustCompile(`^RESERVE$`)},
	{"readers", "leases of processes that read beside the writer",
		regexp.MustCompile(`^READERS$`)},
	{"other", "spare or unknown: see docs/format", regexp.MustCompile(``)},
}

// kindOf returns the kind of a file by its name.
func kindOf(name string) *fileKind {
	return fileKinds[slices.IndexFunc(fileKinds, func(k *fileKind) bool {
		return k.name.MatchString(name)
	})]
}

// fileGroup is the files of a kind, or the data and value files of a stripe.
type fileGroup struct {
	Name  string `json:"name"` // of the kind, or the number of the stripe
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
	about string
}

// tree is what a directory has.
type tree struct {
	Kinds   []*fileGroup `json:"kinds"`
	Stripes []*fileGroup `json:"stripes"` // those with data files, the largest first
}

// shownStripes is how many stripes are shown.
const shownStripes = 10

func readTree(dir string) (*tree, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	t := &tree{}
	kinds, stripes := map[string]*fileGroup{}, map[string]*fileGroup{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // removed meanwhile
		}
		of := kindOf(e.Name())
		kind := of.kind
		if kinds[kind] == nil {
			kinds[kind] = &fileGroup{Name: kind, about: of.about}
			t.Kinds = append(t.Kinds, kinds[kind])
		}
		groups := []*fileGroup{kinds[kind]}
		if kind == "data" || kind == "values" {
			n := e.Name()[:3]
			if stripes[n] == nil {
				stripes[n] = &fileGroup{Name: n}
				t.Stripes = append(t.Stripes, stripes[n])
			}
			groups = append(groups, stripes[n])
		}
		for _, g := range groups {
			g.Files++
			g.Bytes += info.Size()
		}
	}
	if kinds["current"] == nil {
		return nil, cli.Advise(fmt.Errorf("%s: %w", dir, engine.ErrNotDatabase),
			"name the directory of a kstone database, or files in it")
	}
	bySize := func(a, b *fileGroup) int { return cmp.Compare(b.Bytes, a.Bytes) }
	slices.SortStableFunc(t.Kinds, bySize)
	slices.SortStableFunc(t.Stripes, bySize)
	return t, nil
}

// inspectDir shows the files of a database.
func inspectDir(a *cli.App, dir string) error {
	t, err := readTree(dir)
	if err != nil {
		return err
	}
	if a.Format == "json" {
		return a.PrintJSON(t)
	}
	var rows [][]string
	for _, g := range t.Kinds {
		rows = append(rows, []string{g.Name, figure.Count(int64(g.Files)), figure.Bytes(g.Bytes),
			g.about})
	}
	if err := a.Grid([]string{"kind", "files", "bytes", "what it is"}, rows, 1); err != nil {
		return err
	}
	if len(t.Stripes) == 0 {
		_, err := fmt.Fprintln(a.Out, "no data files: everything is in the log")
		return err
	}
	all, most := int64(0), t.Stripes[0].Bytes
	for _, g := range t.Stripes {
		all += g.Bytes
	}
	fmt.Fprintf(a.Out, "\ndata files of %s of 256, the largest:\n",
		figure.Plural(int64(len(t.Stripes)), "stripe"))
	for _, g := range t.Stripes[:min(len(t.Stripes), shownStripes)] {
		bar := bytes.Repeat([]byte("#"), int(1+29*g.Bytes/max(most, 1)))
		fmt.Fprintf(a.Out, "  %s  %-9s %10s  %5.1f %%  %s\n", g.Name,
			figure.Plural(int64(g.Files), "file"), figure.Bytes(g.Bytes),
			100*float64(g.Bytes)/float64(max(all, 1)), bar)
	}
	return nil
}

// headLines writes the lines that are about a whole file.
type headLines struct {
	w    io.Writer
	line []byte
}

// Write implements io.Writer.
func (h *headLines) Write(b []byte) (int, error) {
	for _, c := range b {
		if h.line = append(h.line, c); c != '\n' {
			continue
		}
		if err := h.flush(); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

var detailLine = regexp.MustCompile(`^(block |    |[0-9]+: commit )`)

func (h *headLines) flush() error {
	line := h.line
	h.line = h.line[:0]
	if detailLine.Match(line) {
		return nil
	}
	_, err := h.w.Write(line)
	return err
}
