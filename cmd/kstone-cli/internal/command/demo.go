package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/shell"
	"github.com/kstonedb/kstone/testdata"
)

func demoCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Import the cities of the world and look around",
		Long: `Import the cities of the world, which are built in, into a fresh database, and show
what one does with it, each step with the command for it. The database is made in a
temporary directory and removed at the end; if DIR is given, it is made there and
stays.`,
		Example: `  kstone-cli demo
  kstone-cli demo cities.db && kstone-cli shell cities.db`,
		Args: cli.Words(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t := &tour{app: a, ctx: cmd.Context()}
			if len(args) == 1 {
				t.dir = args[0]
				if names, err := os.ReadDir(t.dir); err == nil && len(names) > 0 {
					return cli.Usage("demo: %s exists and is not empty",
						t.dir).WithHint("name a new directory")
				}
				return t.run()
			}
			dir, err := os.MkdirTemp("", "kstone-demo-")
			if err != nil {
				return err
			}
			t.dir = filepath.Join(dir, "cities.db")
			return errors.Join(t.run(), os.RemoveAll(dir))
		},
	}
}

// tour is a running demo.
type tour struct {
	app *cli.App
	ctx context.Context
	dir string

	sample []byte // the records for the table
}

func (t *tour) run() error {
	start := time.Now()
	for _, step := range []func() error{
		t.fill, t.get, t.query, t.pages, t.stats, t.reopen, t.verify, t.tables,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(t.app.Out, "\nAll of it took %s. Next: kstone-cli demo cities.db,"+
		" then kstone-cli shell cities.db\n", present.Duration(time.Since(start)))
	return err
}

// step says what comes, and runs it.
func (t *tour) step(text string, args ...string) (stderr string, err error) {
	shown := make([]string, len(args))
	for i, arg := range args {
		if shown[i] = shell.Quote(arg); arg == t.dir {
			shown[i] = "cities.db"
		}
	}
	bold, end := "", ""
	if t.app.Color {
		bold, end = "\x1b[1m", "\x1b[0m"
	}
	fmt.Fprintf(t.app.Out, "\n%s%s%s\n$ kstone-cli %s\n", bold, text, end, strings.Join(shown, " "))
	var notes bytes.Buffer
	sub := *t.app
	sub.In, sub.Format, sub.Err = nil, "", &notes
	sub.OutTTY = true // tables, also in a pipe
	if sub.Width == 0 {
		sub.Width = 100
	}
	if args[0] == "import" {
		sub.In, sub.Err, sub.InTTY = bytes.NewReader(testdata.Cities), t.app.Err, false
	}
	if slices.Contains(args, "--table") {
		sub.In = bytes.NewReader(t.sample)
	}
	root := root(&sub)
	root.SetArgs(args)
	err = root.ExecuteContext(t.ctx)
	fmt.Fprint(t.app.Out, notes.String())
	return notes.String(), err
}

func (t *tour) fill() error {
	_, err := t.step("Import 171,075 cities (GeoNames, CC BY 4.0). The country becomes the"+
		" partition\nkey; region, county and city become a sort key that sorts field by field.",
		"import", t.dir, "-", "--format", "jsonl", "--pk", "country", "--sk", "region,county,city")
	return err
}

func (t *tour) get() error {
	_, err := t.step("Read one item by its key.", "get", t.dir, "IT", "--sk-part", "Lombardy",
		"--sk-part", "Provincia di Brescia", "--sk-part", "Brescia")
	return err
}

func (t *tour) query() error {
	_, err := t.step("A query reads a range of one partition: here the first cities of Lombardy.",
		"query", t.dir, "IT", "--sk-prefix", "Lombardy", "--limit", "5")
	return err
}

// pages shows two pages, backwards.
func (t *tour) pages() error {
	args := []string{"query", t.dir, "IT", "--sk-prefix", "Lombardy", "--reverse", "--limit", "3"}
	notes, err := t.step("Backwards, in pages of three. The cursor continues exactly after the"+
		" last item.", args...)
	if err != nil {
		return err
	}
	cursor := strings.TrimSpace(strings.TrimPrefix(notes, "next: "))
	_, err = t.step("The next page.", append(args, "--after", cursor)...)
	return err
}

func (t *tour) stats() error {
	_, err := t.step("A scan of everything: how the items spread over the 256 stripes.", "stats",
		t.dir)
	return err
}

// reopen counts, closes, opens again and counts again.
func (t *tour) reopen() error {
	counts, times := [2]int64{}, [2]time.Duration{}
	for i := range counts {
		sub := *t.app
		start := time.Now()
		d, err := sub.OpenDB(t.dir, cli.ReadWrite, nil)
		if err != nil {
			return err
		}
		times[i] = time.Since(start)
		counts[i], _, err = count(t.ctx, &sub, d, nil, nil, true)
		if err := errors.Join(err, d.Close()); err != nil {
			return err
		}
	}
	if counts[0] != counts[1] {
		return fmt.Errorf("%d items before closing, %d after", counts[0], counts[1])
	}
	_, err := fmt.Fprintf(t.app.Out,
		"\nClosed and opened again: %s items before, %s after; opening took %s.\n",
		present.Count(counts[0]), present.Count(counts[1]), present.Duration(times[1]))
	return err
}

func (t *tour) verify() error {
	_, err := t.step("Check every stored byte.", "verify", t.dir)
	return err
}

// sampleEvery is how many cities there are for one that becomes a row: the demo is to
// be short.
const sampleEvery = 8

// tables shows a table with indexes, and plans of queries.
func (t *tour) tables() error {
	if err := t.readSample(); err != nil {
		return err
	}
	const create = "CREATE TABLE cities (country TEXT, region TEXT, county TEXT, city TEXT," +
		" lat FLOAT, lng FLOAT, PARTITION KEY (country), SORT KEY (region, county, city)," +
		" INDEX by_name (city) INCLUDE (lat, lng), INDEX by_lat (lat DESC) SHARD (16))"
	const byName = "SELECT country, region, lat FROM cities WHERE city BEGINS WITH 'San Jo'" +
		" ORDER BY city LIMIT 5"
	const north = "SELECT city, country, lat FROM cities ORDER BY lat DESC LIMIT 5"
	const most = "SELECT country, count(*) AS n FROM cities WHERE lat < 0 GROUP BY country" +
		" ORDER BY n DESC LIMIT 5"
	for _, s := range []struct {
		text string
		args []string
	}{
		{"A table beside the items: typed columns, an index that covers, an index in 16 buckets.",
			[]string{"sql", t.dir, create}},
		{"Every eighth city becomes a row.",
			[]string{"import", t.dir, "-", "--table", "cities"}},
		{"An index finds names that begin alike; the rows themselves are not read.",
			[]string{"sql", t.dir, byName + "; EXPLAIN " + byName}},
		{"The most northern cities: 16 sorted buckets are merged, and reading ends after five.",
			[]string{"sql", t.dir, north + "; EXPLAIN " + north}},
		{"The countries with the most cities south of the equator.",
			[]string{"sql", t.dir, most + "; EXPLAIN ANALYZE " + most}},
	} {
		if _, err := t.step(s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// readSample takes some of the cities.
func (t *tour) readSample() error {
	in, err := record.Decompress(bytes.NewReader(testdata.Cities))
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	for n := 0; lines.Scan(); n++ {
		if n%sampleEvery == 0 {
			t.sample = append(append(t.sample, lines.Bytes()...), '\n')
		}
	}
	return lines.Err()
}
