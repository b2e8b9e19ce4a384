package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/internal/figure"
)

// ImportFlags are the flags of import, and of others that read records.
type ImportFlags struct {
	Format    string
	Delimiter string
	PK, sk    []string
	ifAbsent  bool
	Shown     int
	table     string   // "": items
	key       []string // the primary key of a new table
	types     []string // of columns of a new table, as COLUMN=TYPE
	null      string   // what a CSV cell without quotes holds that is NULL

	export *dynamoExport // what is read, if it is an export of several files

	newSchema []byte // to be stored in the database; nil if it is there

	// Lines reads plain lines, see keyInput; nil where records are read.
	Lines func(in io.Reader) record.Reader
}

// register adds the flags about the records.
func (f *ImportFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Format, "format", "",
		"`FORMAT`: jsonl, csv or dynamodb; default: from the name of the file,\nelse jsonl")
	flags.StringSliceVar(&f.PK, "pk", nil, "`FIELDS` of the partition key")
	flags.StringSliceVar(&f.sk, "sk", nil, "`FIELDS` of the sort key, in this order")
	f.RegisterLines(flags)
}

// RegisterLines adds the flags that every reader of lines has.
func (f *ImportFlags) RegisterLines(flags *pflag.FlagSet) {
	flags.StringVar(&f.Delimiter, "delimiter", ",",
		"`CHARACTER` between CSV fields (\\t for a tab)")
	flags.IntVar(&f.Shown, "show-rejected", 10, "print the first `N` rejected lines")
}

const importHelp = `Write the records of a file (- for standard input) as items: a JSON object
a line, one array of objects, or CSV with the names of the columns in the first line.
Files compressed with gzip or zstd are recognised by their content. The database is
created if there is none.

--pk and --sk name the fields that make up the keys; the other fields become the value,
a JSON object. Several fields are encoded so that they sort one after the other; give
the type of those that are not text: --sk time:int,code. Types: string, bytes, int,
uint, float, bool, uuid, decimal, time-s, time-ms, time-us, time-ns; ":desc" sorts the
largest first, ":null" allows null. The database remembers these fields.

Without --pk the fields the database remembers are used, or, if there are none, the
records are items as export writes them: {"pk":…,"sk":…,"value":…}.

Records that are malformed are reported with their line numbers and left out; the exit
code is then 1. A record whose key exists replaces the item, unless --if-absent is
given. An import that was interrupted can simply be run again.

--table writes rows of a table instead: fields become the columns of the same name, and
fields without a column are left out. Numbers for times count the column's unit since
1970. In CSV a cell without quotes that is empty, or the text of --null, is NULL, or the
default of a column without NULL; lists are JSON.

--format dynamodb reads lines {"Item":{…}} of an export of DynamoDB, or the whole export
from its directory, and compares data files with the manifest. A key that is a number is
named as --pk id:decimal, a binary one as id:bytes. All types of DynamoDB are kept; in
tables sets are lists, and maps JSON.

A table that does not exist is made, and shown: its columns and types come from the first
records, or --type, and its primary key from --key. Otherwise the key is the first column,
or one named id, key or the like, if its values differ, or else the number of the line.`

// ImportCommand returns the command import.
func ImportCommand(a *cli.App) *cobra.Command {
	var f ImportFlags
	cmd := &cobra.Command{
		Use: a.Use("import",
			"FILE|- [--format jsonl|csv|dynamodb] [--pk FIELD,… [--sk FIELD,…]]"),
		Short: "Write the records of a file as items",
		Long:  importHelp,
		Example: `  kstone-cli import cities.db cities.jsonl.gz --pk country --sk region,county,city
  kstone-cli import quakes.db quakes.csv --pk net --sk time:int,code
  kstone-cli import my.db towns.csv --table towns --key country,city
  kstone-cli import shop.db AWSDynamoDB/01693-2d87 --format dynamodb --pk pk --sk sk
  zcat dump.jsonl.gz | kstone-cli import copy.db -`,
		Args: a.Arguments(1, 1),
	}
	flags := cmd.Flags()
	f.register(flags)
	a.SetFlag(cmd)
	flags.BoolVar(&f.ifAbsent, "if-absent", false, "keep the item where the key exists")
	flags.StringVar(&f.table, "table", "", "write rows of this `TABLE`")
	flags.StringVar(&f.null, "null", "", "`TEXT` of CSV cells that are NULL, with --table")
	flags.StringSliceVar(&f.key, "key", nil, "`COLUMNS` of the primary key, for a new table")
	flags.StringArrayVar(&f.types, "type", nil,
		"`COLUMN=TYPE`, for a column of a new table (repeatable)")
	a.SummaryFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, args := a.Split(args)
		in, size, err := openRecords(a, &f, args[0])
		if err != nil {
			return err
		}
		defer in.Close()
		if f.table != "" {
			defer func(name string) { a.Durability = name }(a.Durability)
			a.Durability = "process" // and a sync at the end
			return a.WithTables(cmd.Context(), path, cli.Create, func(t *cli.Tables) error {
				return importTable(cmd.Context(), a, t, &f, args[0], in, size)
			})
		}
		return a.WithDB(path, cli.Create, func(d *cli.Database) error {
			if err := f.settleSchema(d); err != nil {
				return err
			}
			err := importFrom(cmd.Context(), a, d, &f, args[0], in, size)
			return errors.Join(err, d.LoadSchema()) // as it is stored
		})
	}
	return cmd
}

// Check fills in the format and refuses flags that make no sense.
func (f *ImportFlags) Check(file string) error {
	if f.Format == "" {
		f.Format = "jsonl"
		switch name := filepath.Base(file); {
		case IsCSV(file):
			f.Format = "csv"
		case name == manifestName, name == summaryName:
			f.Format = "dynamodb"
		}
	}
	if f.Delimiter == `\t` || hasExt(file, ".tsv") && f.Delimiter == "," {
		f.Delimiter = "\t"
	}
	switch {
	case f.Format != "jsonl" && f.Format != "csv" && f.Format != "dynamodb":
		return cli.Usage("--format is jsonl, csv or dynamodb, not %q", f.Format)
	case len(f.Delimiter) != 1:
		return cli.Usage("--delimiter is one character, not %q", f.Delimiter)
	case f.table != "" && len(f.PK)+len(f.sk) > 0:
		return cli.Usage("--table excludes --pk and --sk").WithHint("a table has its keys already")
	case f.table == "" && len(f.key)+len(f.types) > 0:
		return cli.Usage("--key and --type are about a new table").WithHint("name it with --table")
	case f.null != "" && (f.table == "" || f.Format != "csv"):
		return cli.Usage("--null is about CSV and --table").
			WithHint("NULL in JSON lines is null, or no field")
	case len(f.sk) > 0 && len(f.PK) == 0:
		return cli.Usage("--sk needs --pk").WithHint("name the field of the partition key, too")
	case f.Shown < 0:
		return cli.Usage("--show-rejected %d is negative", f.Shown)
	}
	return nil
}

// IsCSV reports whether a file is CSV by its name.
func IsCSV(file string) bool { return hasExt(file, ".csv") || hasExt(file, ".tsv") }

// hasExt reports whether a file has an extension, which that of a compression may follow.
func hasExt(file, ext string) bool {
	return strings.Contains(strings.ToLower(filepath.Base(file)), ext)
}

// settleSchema makes the fields of --pk and --sk those of the database. They are stored
// with the first items: if a misspelt field makes every record fail, the next try may
// name others.
func (f *ImportFlags) settleSchema(d *cli.Database) error {
	if len(f.PK) == 0 {
		return nil
	}
	s, err := layout.ParseSchema(f.PK, f.sk)
	if err != nil {
		return cli.Usage("%v", err)
	}
	if s.Equal(d.Schema) {
		return nil
	}
	if d.Schema != nil {
		return cli.Usage("the keys of this database are %s, not %s", d.Schema.Flags(), s.Flags()).
			WithHint("leave out --pk and --sk to use those, or import into another database")
	}
	f.newSchema, err = s.Encode()
	d.Schema = s
	return err
}

// openRecords checks the flags of a command that reads records, and opens its file.
func openRecords(a *cli.App, f *ImportFlags, name string) (in io.ReadCloser, size int64,
	err error) {
	if err := f.Check(name); err != nil {
		return nil, 0, err
	}
	if f.Format == "dynamodb" {
		manifest, err := findManifest(name)
		if err != nil {
			return nil, 0, err
		}
		if manifest != "" {
			if f.export, err = openExport(manifest); err != nil {
				return nil, 0, err
			}
			return f.export, f.export.bytes, nil
		}
	}
	return OpenInput(a, name)
}

// OpenInput opens the file, or standard input; size is -1 if it is not known.
func OpenInput(a *cli.App, name string) (in io.ReadCloser, size int64, err error) {
	if name == "-" {
		in, err := a.Stdin("records", "name a file")
		return io.NopCloser(in), -1, err
	}
	f, info, err := a.OpenFile(name)
	if err != nil {
		hint := "check the name of the file; - reads standard input"
		if a.Open != nil {
			hint = "check the name of the file"
		}
		return nil, 0, cli.Advise(err, hint)
	}
	switch {
	case info.IsDir():
		f.Close()
		return nil, 0, cli.Usage("%s is a directory, not a file of records", name)
	case !info.Mode().IsRegular():
		return f, -1, nil
	}
	return f, info.Size(), nil
}

// importFrom imports everything and prints the summary.
func importFrom(ctx context.Context, a *cli.App, d *cli.Database, f *ImportFlags, name string,
	in io.Reader, size int64) error {
	im := &importer{Intake: NewIntake(a, d, f, name, size, "importing")}
	im.same = newSameKeys()
	err := im.run(ctx, in)
	return imported(a, &im.Intake, &im.sum, err)
}

// imported prints the summary of an import, and returns the error of the command.
func imported(a *cli.App, in *Intake, s *summary, err error) error {
	r := in.End(a)
	s.Read, s.Rejected, s.Expired, s.Seconds = r.Read, r.Rejected, r.Expired, r.Took.Seconds()
	known := err == nil // or else the parser may still be at work
	if known {
		s.SameKey = in.same.n
	}
	if printErr := printSummary(a, s, r); err == nil {
		err = printErr
	}
	if known {
		in.same.report(a, in)
	}
	return r.Verdict(err, "all others were imported; correct these lines and import them again",
		"what was written stays; run the import again to finish it")
}

// summary is what an import did. Read is the sum of the others, blank lines not
// counted: written (replaced ones included), kept, expired and rejected.
type summary struct {
	Read     int64   `json:"read"`
	Written  int64   `json:"written"`
	Replaced int64   `json:"replaced"`
	Kept     int64   `json:"kept"`
	Expired  int64   `json:"expired"`
	Rejected int64   `json:"rejected"`
	SameKey  int64   `json:"same_key"`
	Seconds  float64 `json:"seconds"`
}

func printSummary(a *cli.App, s *summary, r Reading) error {
	if a.Format == "json" {
		return a.PrintJSON(s)
	}
	kept := ""
	if s.Kept > 0 {
		kept = fmt.Sprintf(", %s kept", figure.Count(s.Kept))
	}
	_, err := fmt.Fprintln(a.Out, r.Text(fmt.Sprintf(", %s written (%s new, %s replaced)",
		figure.Count(s.Written), figure.Count(s.Written-s.Replaced), figure.Count(s.Replaced)),
		kept))
	return err
}

func (f *ImportFlags) reader(in io.Reader) (record.Reader, error) {
	switch {
	case f.Lines != nil:
		return f.Lines(in), nil
	case f.Format == "csv":
		return record.NewCSV(in, f.Delimiter[0])
	case f.Format == "dynamodb":
		return record.NewDynamoDB(in, f.table != ""), nil
	}
	return record.NewJSONL(in), nil
}
