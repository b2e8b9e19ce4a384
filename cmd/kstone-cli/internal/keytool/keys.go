package keytool

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/keyform"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
)

// KeysCommand returns the command keys.
func KeysCommand(a *cli.App) *cobra.Command {
	return cli.Family(&cobra.Command{
		Use:   "keys",
		Short: "Design keys, and take them apart",
		Long: `Make keys of several fields, take keys apart, and ask which keys a set of queries
needs. Needs no database.

--layout is one of
  ordered    fields one after the other, each encoded so that it sorts (the
             default; the layout of imported keys):
             name[:type][:desc][:null|:null-last]; types are those of an
             import, int8 to int32, uint8 to uint32, float32, fixed:PLACES, ip,
             ipprefix and time-full; :ascii and :unicode make strings ignore
             case
  composite  version 1: fields of fixed width between delimiters, after an
             optional shard: name, then :string:WIDTH, :integer, :timestamp,
             :uuid or :decimal:SCALE
  rowkey     parts with a separator: name[:string|:bytes|:int|:varint]`,
		Example: `  kstone-cli keys encode --fields user,at:time-ms:desc ada 2026-01-02T00:00:00Z
  kstone-cli keys advise orders.jsonl --query 'user = ? AND at > ?'`,
	}, keysAdviseCommand(a), keysEncodeCommand(a), keysDecodeCommand(a), keysExplainCommand(a))
}

// formFlags describe the layout of a key.
type formFlags struct{ keyform.Options }

func (f *formFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Layout, "layout", "ordered", "`LAYOUT`: ordered, composite or rowkey")
	flags.StringSliceVar(&f.Fields, "fields", nil, "`FIELDS` of the key, in their order")
	flags.StringVar(&f.Delimiter, "delimiter", "",
		"`NAME` of a composite key's delimiter: unit-separator (default),\n"+
			"null-byte, high-byte or double-byte")
	flags.StringVar(&f.Shard, "shard", "",
		"`SPEC` of a composite key's shard: md5, xxhash or murmur3, :COUNT\n"+
			"and perhaps :seed=N, as md5:256")
	_ = cmd.RegisterFlagCompletionFunc("layout", cobra.FixedCompletions(keyform.Layouts,
		cobra.ShellCompDirectiveNoFileComp))
}

// form returns the layout that the flags describe.
func (f *formFlags) form() (keyform.Form, error) {
	form, err := keyform.New(f.Options)
	if err != nil {
		return nil, cli.Usage("%s", keyText(err)).
			WithHint("kstone-cli help keys describes the layouts and their fields")
	}
	return form, nil
}

// explain takes a key apart.
func (f *formFlags) explain(key []byte) ([]keyform.Part, error) {
	form, err := f.form()
	if err != nil {
		return nil, err
	}
	parts, err := form.Explain(key)
	if err != nil {
		return nil, keyError(err)
	}
	return parts, nil
}

func keysEncodeCommand(a *cli.App) *cobra.Command {
	var f formFlags
	cmd := &cobra.Command{
		Use:   "encode VALUE…",
		Short: "Print the key of some values in hexadecimal",
		Long: `Print the key that has the given values, one for each field, in hexadecimal.
Values are written as in the output of decode: text as it is, numbers, times in
RFC 3339 or as a number of units, UUIDs. -i gives strings and bytes in another form;
without it bytes of a row key are hexadecimal. Values that begin with - go after --.`,
		Example: `  kstone-cli keys encode --fields country,city IT Brescia
  kstone-cli keys encode --layout composite --shard md5:256 \
    --fields user_id,order_date:timestamp USR_12345 1737100800000`,
		Args: cobra.ArbitraryArgs,
	}
	f.add(cmd)
	a.JSONFlag(cmd)
	a.InputFlag(cmd, "`FORM` of strings and bytes: text, escaped (\\x00, \\n), hex or base64")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("input") {
			f.Read = a.ReadForm
		}
		form, err := f.form()
		if err != nil {
			return err
		}
		if n := form.Fields(); n >= 0 && n != len(args) {
			return cli.Usage("encode: %s for %s", figure.Plural(int64(len(args)), "value"),
				figure.Plural(int64(n), "field"))
		}
		key, err := form.Encode(args)
		if err != nil {
			return cli.Usage("encode: %s", keyText(err))
		}
		if a.Format == "json" {
			return a.PrintJSON(struct {
				Hex   string `json:"hex"`
				Bytes int    `json:"bytes"`
			}{hex.EncodeToString(key), len(key)})
		}
		_, err = fmt.Fprintf(a.Out, "%x\n", key)
		return err
	}
	return cmd
}

func keysDecodeCommand(a *cli.App) *cobra.Command {
	var f formFlags
	cmd := &cobra.Command{
		Use:   "decode KEY…",
		Short: "Print the values of a key",
		Long: `Print the values of the fields of a key, which is given in hexadecimal or in the form
of -i. Spaces between the digits are ignored. A key that is not of this layout is an
error that names the position.`,
		Example: `  kstone-cli keys decode --fields country,city 4954000042726573636961 0000
  kstone-cli keys decode --layout rowkey -o json 6120 0000 62`,
		Args: cobra.ArbitraryArgs,
	}
	f.add(cmd)
	a.JSONFlag(cmd)
	a.InputFlag(cmd, keyFormHelp)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := keyOf(a, cmd, args)
		if err != nil {
			return err
		}
		parts, err := f.explain(key)
		if err != nil {
			return err
		}
		var head, row []string
		for _, p := range parts {
			if p.Name != "" {
				head, row = append(head, p.Name), append(row, p.Value)
			}
		}
		if a.Format == "json" {
			return a.PrintJSON(ordered{head, row})
		}
		return a.Grid(head, [][]string{row}, len(head))
	}
	return cmd
}

// ordered is a JSON object whose members keep their order.
type ordered struct{ names, values []string }

// MarshalJSON implements json.Marshaler.
func (o ordered) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, name := range o.names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(record.AppendString(out, record.Text([]byte(name))), ':')
		out = record.AppendString(out, record.Text([]byte(o.values[i])))
	}
	return append(out, '}'), nil
}

func keysExplainCommand(a *cli.App) *cobra.Command {
	var f formFlags
	cmd := &cobra.Command{
		Use:   "explain KEY…",
		Short: "Show what every byte of a key is",
		Long: `Show the parts of a key with their positions and bytes: fields, delimiters, shard.
The key is given in hexadecimal or in the form of -i.
Without --fields, --layout and the other flags, all layouts are tried that need no
description: the two forms of database keys, row keys and tagged tuples. Spaces between
the digits are ignored.`,
		Example: `  kstone-cli keys explain 49540000 4272657363696100 00
  kstone-cli keys explain --fields user,at:time-ms 6164610000 80000194 7346b000`,
		Args: cobra.ArbitraryArgs,
	}
	f.add(cmd)
	a.JSONFlag(cmd)
	a.InputFlag(cmd, keyFormHelp)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := keyOf(a, cmd, args)
		if err != nil {
			return err
		}
		flags := cmd.Flags()
		if len(f.Fields) == 0 && !flags.Changed("layout") && f.Shard == "" && f.Delimiter == "" {
			readings := keyform.Guess(key)
			if len(readings) == 0 {
				err := errors.New("the key fits none of the layouts that need no --fields")
				return cli.Advise(err, "describe it with --layout and --fields")
			}
			return printReadings(a, key, readings)
		}
		parts, err := f.explain(key)
		if err != nil {
			return err
		}
		return printReadings(a, key, []keyform.Reading{{Layout: f.Layout, Parts: parts}})
	}
	return cmd
}

// printReadings writes one table for each way to read the key.
func printReadings(a *cli.App, key []byte, readings []keyform.Reading) error {
	if a.Format == "json" {
		return a.PrintJSON(struct {
			Hex      string            `json:"hex"`
			Bytes    int               `json:"bytes"`
			Readings []keyform.Reading `json:"readings"`
		}{hex.EncodeToString(key), len(key), readings})
	}
	for _, r := range readings {
		if _, err := fmt.Fprintf(a.Out, "%s, %s\n", r.Layout,
			figure.Plural(int64(len(key)), "byte")); err != nil {
			return err
		}
		var rows [][]string
		for _, p := range r.Parts {
			rows = append(rows, []string{fmt.Sprint(p.Start), fmt.Sprint(p.End - p.Start), p.Name,
				p.What, p.Value, hex.EncodeToString(key[p.Start:p.End])})
		}
		head := []string{"at", "bytes", "field", "what", "value", "hex"}
		if err := a.Grid(head, rows, len(head)); err != nil {
			return err
		}
	}
	return nil
}

const keyFormHelp = "`FORM` of the key: text, escaped (\\x00, \\n), hex (default) or base64"

// keyOf reads the key from the arguments: digits, which are joined, or one in the form of -i.
func keyOf(a *cli.App, cmd *cobra.Command, args []string) ([]byte, error) {
	if a.Input == "" || a.Input == "hex" {
		return keyOfHex(cmd, args)
	}
	if len(args) != 1 {
		return nil, cli.Usage("%s: %d arguments for one key in the form %s", cmd.Name(), len(args),
			a.Input).WithHint("quote the key if it has spaces")
	}
	return a.BytesOf("KEY", args[0])
}

// keyOfHex reads the key from the arguments, which are joined.
func keyOfHex(cmd *cobra.Command, args []string) ([]byte, error) {
	if len(args) == 0 {
		return nil, cli.Usage("%s: too few arguments", cmd.Name()).
			WithHint("usage: %s", cmd.UseLine())
	}
	const between = " \t\n_"
	text := strings.Join(args, " ")
	if i := strings.IndexFunc(text, func(r rune) bool {
		return !strings.ContainsRune("0123456789abcdefABCDEF"+between, r)
	}); i >= 0 {
		r, _ := utf8.DecodeRuneInString(text[i:])
		return nil, cli.Usage("%s: character %d, %q, is not a hexadecimal digit", cmd.Name(),
			utf8.RuneCountInString(text[:i])+1, r)
	}
	digits := strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return strings.ContainsRune(between, r)
	}), "")
	if len(digits)%2 == 1 {
		return nil, cli.Usage("%s: %d hexadecimal digits, an odd number", cmd.Name(), len(digits))
	}
	return hex.DecodeString(digits)
}

// keyError is the error for a key that is not of the layout: the hint of damaged databases
// would be out of place.
func keyError(err error) error {
	if errors.Is(err, engine.ErrCorrupt) {
		return cli.Advise(err, "offsets count the bytes of the key from 0; check layout and fields")
	}
	return cli.Usage("%s", keyText(err))
}

// keyText is the text of an error without the names of packages.
func keyText(err error) string {
	text := cli.PlainText(err)
	for _, name := range []string{"composite", "rowkey", "shard", "keyform"} {
		text = strings.TrimPrefix(text, name+": ")
	}
	return text
}
