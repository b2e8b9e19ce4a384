package keytool

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/bulk"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// SegmentCommand returns the command segment.
func SegmentCommand(a *cli.App) *cobra.Command {
	return cli.Family(&cobra.Command{
		Use:   "segment",
		Short: "Find new keys without a database",
		Long: `A segment file holds a set of keys in summary: the smallest and the largest key,
a filter, and with --exact the keys themselves. build makes one, ask reports
which keys of a file are in none of several segments, info shows what a segment
holds. None of them needs a database.`,
		Example: `  kstone-cli segment build seen.seg monday.jsonl tuesday.jsonl --key id
  kstone-cli segment ask seen.seg wednesday.jsonl --key id > new.jsonl
  kstone-cli segment info seen.seg --verify`,
	}, segmentBuildCommand(a), segmentAskCommand(a), segmentInfoCommand(a))
}

// inputHelp describes the files of keys in the help of build and ask.
const inputHelp = `Files hold JSON lines, CSV with the names of the columns in the first line, or
plain lines, one key each; - is standard input, gzip and zstd are recognised.
--key names the fields of a record that make up its key, in the notation of
import, as in --key user,at:time-ms. Plain lines need no --key, and -i says how
they are written: text, escaped, hex or base64.`

// keyInput says how files hold keys. Its pk are the fields of --key.
type keyInput struct {
	bulk.ImportFlags
	schema *layout.Schema
}

func (k *keyInput) register(a *cli.App, cmd *cobra.Command) {
	a.InputFlag(cmd, "`FORM` of plain lines: text (default), escaped (\\x00, \\n), hex or base64")
	flags := cmd.Flags()
	flags.StringSliceVar(&k.PK, "key", nil,
		"`FIELDS` of the key, in this order; a type follows its field after a\n"+
			"colon, as in --key user,at:time-ms")
	flags.StringVar(&k.Format, "format", "",
		"`FORMAT`: jsonl, csv or lines; default: from the name of the file,\n"+
			"else jsonl with --key and lines without")
	k.RegisterLines(flags)
}

// lineField is the field that a plain line without --key is read into.
const lineField = "key"

// of returns how one file holds keys.
func (k *keyInput) of(a *cli.App, cmd *cobra.Command, file string) (*keyInput, error) {
	f := *k
	if f.Format == "" {
		f.Format = formatOf(file, len(f.PK) > 0)
	}
	lines := f.Format == "lines"
	if lines && len(f.PK) == 0 {
		f.PK = []string{lineField}
	}
	if !lines {
		if err := f.Check(file); err != nil {
			return nil, err
		}
	}
	switch {
	case lines && len(f.PK) > 1:
		return nil, cli.Usage("--key has %d fields, a plain line holds one", len(f.PK)).
			WithHint("name the format with --format if %s holds records", file)
	case len(f.PK) == 0:
		return nil, cli.Usage("%s: the fields of the key are not named", file).
			WithHint("add --key FIELD,…; or --format lines if every line is a key")
	case f.Shown < 0:
		return nil, cli.Usage("--show-rejected %d is negative", f.Shown)
	case !lines && cmd.Flags().Changed("input"):
		return nil, cli.Usage("-i %s: %s holds records, whose keys are fields", a.Input, file).
			WithHint("-i is for plain lines (--format lines); fields have types instead, see --key")
	}
	var err error
	if f.schema, err = layout.ParseKey(f.PK); err != nil {
		return nil, cli.Usage("--key: %v", err)
	}
	if lines {
		f.Lines = func(in io.Reader) record.Reader {
			return record.NewKeyLines(in, f.schema.PKFields()[0], func(b []byte) ([]byte, error) {
				return a.ReadForm(string(b))
			})
		}
	}
	return &f, nil
}

// formatOf guesses the format of a file from its name.
func formatOf(file string, fields bool) string {
	switch name := strings.ToLower(file); {
	case bulk.IsCSV(file):
		return "csv"
	case strings.Contains(name, ".json") || strings.Contains(name, ".ndjson") || fields:
		return "jsonl"
	}
	return "lines"
}

// database returns an empty database for an intake of keys.
func (k *keyInput) database() *cli.Database { return &cli.Database{Schema: k.schema} }

// singleKey returns an error for an item with a sort key, which a record can hold whole.
func singleKey(name string, items []engine.Item) error {
	for i := range items {
		if items[i].Key.SK != nil {
			return cli.Usage(
				"%s: a record holds a whole item with a sort key, and no field of --key",
				name).WithHint("export the database again without such items, or ask it with dedup")
		}
	}
	return nil
}

// segmentError adds to an error about a segment file what to do next.
func segmentError(err error) error {
	switch {
	case errors.Is(err, engine.ErrVersion):
		return err
	case errors.Is(err, engine.ErrCorrupt):
		return cli.Advise(err, "build a damaged segment again from its keys; the file of keys"+
			" comes after the segments")
	case errors.Is(err, os.ErrNotExist):
		return cli.Advise(err, "check the name; kstone-cli segment build makes a segment")
	case errors.Is(err, keyset.ErrSeed):
		return cli.Advise(err, "ask them one after the other")
	}
	return err
}
