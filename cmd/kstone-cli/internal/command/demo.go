package command

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/testdata"
)

func demoCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "demo [DIR]",
		Short: "Import the cities of the world, kill that, and look around",
		Long: `Import the cities of the world, which are built in, kill the import with kill -9,
finish it, and show what one does with the database, each step with its command. All of
it happens in a temporary directory that is removed at the end, or in DIR, which stays.
In DIR every command can be run again as it is shown.`,
		Example: `  kstone-cli demo
  kstone-cli demo try && kstone-cli shell try/cities.db`,
		Args: cli.Words(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t := &tour{app: a, ctx: cmd.Context()}
			if len(args) == 1 {
				t.dir, t.stays = args[0], true
				if names, err := os.ReadDir(t.dir); err == nil && len(names) > 0 {
					return cli.Usage("demo: %s exists and is not empty",
						t.dir).WithHint("name a new directory")
				}
				return errors.Join(os.MkdirAll(t.dir, 0o755), t.run())
			}
			dir, err := os.MkdirTemp("", "kstone-demo-")
			if err != nil {
				return err
			}
			t.dir = dir
			return errors.Join(t.run(), os.RemoveAll(dir))
		},
	}
}

// tour is a running demo. Its steps are runs of this program, with the arguments that are shown.
type tour struct {
	app   *cli.App
	ctx   context.Context
	dir   string
	stays bool
}

// demoCols is how wide the demo writes, unless the terminal is narrower.
const demoCols = 100

// path returns the end of a command that makes the system's shell find the program by its name; it
// is empty if it does so already.
func (t *tour) path() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if found, err := exec.LookPath(cli.Program); err == nil && found == self {
		return ""
	}
	return " && PATH=" + forShell(filepath.Dir(self)) + ":$PATH"
}

// imports are the arguments of the import that is killed and finished.
var imports = []string{"import", "cities.db", "cities.jsonl.gz", "--pk", "country", "--sk",
	"region,county,city"}

func (t *tour) run() error {
	start := time.Now()
	if err := t.files(); err != nil {
		return err
	}
	fmt.Fprintf(t.app.Out, "171,075 cities (GeoNames, CC BY 4.0) go into a database in %s.\n",
		t.dir)
	if t.stays {
		fmt.Fprintf(t.app.Out, "Every command can be copied after:\n$ cd %s%s\n", forShell(t.dir),
			t.path())
	}
	const south = "SELECT country, count(*) AS n FROM cities WHERE lat < 0" +
		" GROUP BY country ORDER BY n DESC LIMIT 3"
	for _, step := range []func() error{
		t.killed,
		t.step("The same import completes what is missing.", imports...),
		t.step("One item by its key.", "get", "cities.db", "IT", "--sk-part", "Lombardy",
			"--sk-part", "Provincia di Brescia", "--sk-part", "Brescia"),
		t.step("A range of one partition, backwards.", "query", "cities.db", "IT", "--sk-prefix",
			"Lombardy", "--reverse", "--limit", "2"),
		t.step("Every eighth city as a row of a table, made of the file; an index; a query.",
			"import", "cities.db", "sample.jsonl", "--table", "cities", "--key",
			"country,region,county,city,lat,lng"),
		t.step("", "sql", "cities.db", "CREATE INDEX IF NOT EXISTS by_lat ON cities (lat)"),
		t.step("", "sql", "cities.db", south),
		t.step("Every stored byte is checked; a page about the database.", "verify", "cities.db"),
		t.step("", "report", "cities.db", "-o",
			"report.html"),
	} {
		if err := step(); err != nil {
			return err
		}
	}
	size, err := sizeOfFiles(filepath.Join(t.dir, "cities.db"))
	if err != nil {
		return err
	}
	fmt.Fprintf(t.app.Out, "\n%s All of it took %s; the database has %s.\n", t.bold("Done."),
		figure.Duration(time.Since(start)), figure.Bytes(size))
	return t.offer()
}

// files writes the data sets that the commands name.
func (t *tour) files() error {
	sample, err := sampleOfCities()
	return errors.Join(err,
		os.WriteFile(filepath.Join(t.dir, "cities.jsonl.gz"), testdata.Cities, 0o644),
		os.WriteFile(filepath.Join(t.dir, "sample.jsonl"), sample, 0o644))
}

// sampleEvery is how many cities there are for one that becomes a row: the demo is to
// be short.
const sampleEvery = 8

func sampleOfCities() (sample []byte, err error) {
	in, err := record.Decompress(bytes.NewReader(testdata.Cities))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	for n := 0; lines.Scan(); n++ {
		if n%sampleEvery == 0 {
			sample = append(append(sample, lines.Bytes()...), '\n')
		}
	}
	return sample, lines.Err()
}

func (t *tour) bold(text string) string {
	if !t.app.Color {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// show writes what a step is about, and its command.
func (t *tour) show(text string, args []string) {
	if text != "" {
		fmt.Fprintf(t.app.Out, "\n%s\n", t.bold(text))
	}
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = forShell(arg)
	}
	fmt.Fprintf(t.app.Out, "$ %s %s\n", cli.Program, strings.Join(words, " "))
}

var plainWord = regexp.MustCompile(`^[\w./,:=@%+-]+$`)

// forShell returns an argument as the system's shell takes it.
func forShell(arg string) string {
	if plainWord.MatchString(arg) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// command returns this program with arguments, in the directory of the demo.
func (t *tour) command(args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(t.ctx, self, args...)
	cmd.Args[0], cmd.Dir = cli.Program, t.dir
	return cmd, nil
}

// step returns a step that runs the program.
func (t *tour) step(text string, args ...string) func() error {
	return func() error {
		t.show(text, args)
		cmd, err := t.command(args)
		if err != nil {
			return err
		}
		cols := demoCols
		if t.app.Width > 0 {
			cols = min(cols, t.app.Width)
		}
		out, err := cmd.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			for _, part := range present.WrapLine(strings.TrimRight(line, "\n"), cols) {
				fmt.Fprintln(t.app.Out, part)
			}
		}
		return err
	}
}

// killed starts the import, kills it when the log has half of it, and looks at what is there.
func (t *tour) killed() error {
	t.show("An import, which kill -9 ends in the middle.", imports)
	cmd, err := t.command(imports)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	db := filepath.Join(t.dir, "cities.db")
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 20_000 {
		if logReaches(db, enoughLog) || t.ctx.Err() != nil {
			break
		}
		<-tick.C
	}
	if err := cmp.Or(t.ctx.Err(), cmd.Process.Kill()); err != nil {
		return errors.Join(err, cmd.Wait())
	}
	_ = cmd.Wait()
	fmt.Fprintln(t.app.Out, "Killed")
	return t.step("What was written is there.", "count", "cities.db")()
}

// enoughLog is how many bytes of log the import may write before it is killed, of about 15 million.
const enoughLog = 6_000_000

// logReaches reports whether a database has written that much of a log segment, whose space is
// reserved and zero.
func logReaches(db string, offset int64) bool {
	names, _ := filepath.Glob(filepath.Join(db, "wal-*.log"))
	return slices.ContainsFunc(names, func(name string) bool {
		f, err := os.Open(name)
		if err != nil {
			return false
		}
		defer f.Close()
		var b [512]byte
		n, err := f.ReadAt(b[:], offset)
		return err == nil && len(bytes.Trim(b[:n], "\x00")) > 0
	})
}

func sizeOfFiles(dir string) (size int64, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	for _, name := range names {
		info, statErr := os.Stat(name)
		if statErr != nil {
			return size, statErr
		}
		size += info.Size()
	}
	return size, err
}

// offer says how to go on, and asks on a terminal whether to do so now.
func (t *tour) offer() error {
	db := filepath.Join(t.dir, "cities.db")
	if !t.app.InTTY || !t.app.OutTTY {
		next := "kstone-cli demo try keeps all of it in try; then"
		if t.stays {
			next, db = "Next:", forShell(db)
		} else {
			db = "try/cities.db"
		}
		_, err := fmt.Fprintf(t.app.Out, "%s kstone-cli shell %s\n"+
			"or, in a browser, kstone-cli console %s\n", next, db, db)
		return err
	}
	fmt.Fprintf(t.app.Out, "The page is %s.\nEnter opens a shell on the database, c pages about "+
		"it for a browser, q leaves: ", filepath.Join(t.dir, "report.html"))
	line, err := bufio.NewReader(t.app.In).ReadString('\n')
	command := map[string]string{"": "shell", "c": "console"}[strings.TrimSpace(line)]
	if err != nil || command == "" {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
	root := Root(t.app)
	root.SetArgs([]string{command, db})
	return root.ExecuteContext(t.ctx)
}
