package keytool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/bulk"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/keycodec/advise"
)

// adviseFlags are the flags of keys advise.
type adviseFlags struct {
	bulk.ImportFlags
	queries []string
	keys    []string
	options advise.Options
}

func keysAdviseCommand(a *cli.App) *cobra.Command {
	var f adviseFlags
	cmd := &cobra.Command{
		Use:   "advise FILE",
		Short: "Recommend the keys that a set of queries needs",
		Long: `Read sample records, JSON lines or CSV, and recommend which composite keys to create
for the given queries, with which fields in which order, and why; then say how each
query will be answered. A query names fields, the values do not matter:

  user_id = ? AND order_date BETWEEN ? AND ? ORDER BY order_date

Comparisons are = < <= > >= BETWEEN and BEGINS, joined by AND. The queries given first
decide if --max-keys leaves a choice. With --key, keys that exist already are judged
instead of new ones being recommended.

A key has to tell records apart, or the later one replaces the earlier. The file is read
a second time to count the records that repeat a key; standard input cannot be.`,
		Example: `  kstone-cli keys advise orders.jsonl --query 'user_id = ? AND order_date > ?' \
    --query 'category = ?' --rows 50000000
  kstone-cli keys advise orders.jsonl --key user_id,order_date --query 'order_date > ?'`,
		Args: cli.Words(1, 1),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.queries, "query", nil, "`QUERY` that is to be fast (repeat for each)")
	flags.StringArrayVar(&f.keys, "key", nil,
		"`FIELDS` of a key that exists, in their order (repeat for each)")
	flags.Uint64Var(&f.options.Rows, "rows", 0,
		"`NUMBER` of records there will be; default: those of the sample")
	flags.IntVar(&f.options.MaxKeys, "max-keys", 0, "recommend at most `N` keys")
	flags.StringSliceVar(&f.options.ID, "id", nil,
		"`FIELDS` that tell records apart; default: one that is unique in the sample")
	flags.StringVar(&f.Format, "format", "", "`FORMAT`: jsonl or csv; default: from the name")
	flags.StringVar(&f.Delimiter, "delimiter", ",", "`CHARACTER` between CSV fields")
	a.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		queries, err := f.parse()
		if err != nil {
			return err
		}
		if err := f.Check(args[0]); err != nil {
			return err
		}
		sample, err := sample(cmd.Context(), a, &f, args[0])
		if err != nil {
			return err
		}
		return printAdviceOf(cmd.Context(), a, &f, args[0], sample, queries)
	}
	return cmd
}

// parse reads the queries.
func (f *adviseFlags) parse() ([]advise.Query, error) {
	if len(f.queries) == 0 {
		return nil, cli.Usage("advise: no query").
			WithHint("add --query 'FIELD = ? AND FIELD > ?' for every query that is to be fast")
	}
	if f.options.MaxKeys < 0 {
		return nil, cli.Usage("--max-keys %d is negative", f.options.MaxKeys)
	}
	var list []advise.Query
	for i, text := range f.queries {
		q, err := advise.ParseQuery(text)
		var syntax *advise.SyntaxError
		if errors.As(err, &syntax) {
			return nil, cli.Usage("query %d, column %d: %s\n%s\n%s^", i+1,
				syntax.Column, syntax.Reason, text, strings.Repeat(" ", syntax.Column-1)).
				WithHint("kstone-cli help keys advise describes queries")
		}
		if err != nil {
			return nil, err
		}
		list = append(list, q)
	}
	return list, nil
}

// sample reads the records of a file.
func sample(ctx context.Context, a *cli.App, f *adviseFlags, name string) (*advise.Sample, error) {
	var s advise.Sample
	rejected, err := eachRecord(ctx, a, f, name, "reading", s.Add)
	if err != nil {
		return nil, err
	}
	if rejected > 0 {
		fmt.Fprintf(a.Err, "%s: %s left out\n", name, figure.Plural(rejected, "malformed record"))
	}
	if s.Rows() == 0 {
		return nil, fmt.Errorf("%s holds no records", name)
	}
	return &s, nil
}

// eachRecord hands every record of a file to add, and returns how many are malformed.
func eachRecord(ctx context.Context, a *cli.App, f *adviseFlags, name, doing string,
	add func([]advise.Value)) (rejected int64, err error) {
	in, size, err := bulk.OpenInput(a, name)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	m := meter.New(a.Err, a.ErrTTY, size, doing)
	defer m.Done()
	r, err := f.Records(name, m.Reader(in))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var values []advise.Value
	for n := int64(0); ctx.Err() == nil; n++ {
		err := r.Next(func(row *record.Row) error {
			values = valuesOf(values[:0], row)
			add(values)
			return nil
		})
		var reject *record.Reject
		switch {
		case err == io.EOF:
			return rejected, nil
		case errors.As(err, &reject):
			rejected++
		case err != nil:
			return rejected, err
		}
		m.Rows(n)
	}
	return rejected, ctx.Err()
}

// valuesOf appends the fields of a record as values of a sample.
func valuesOf(values []advise.Value, row *record.Row) []advise.Value {
	for _, field := range row.Fields {
		text := field.JSON
		if string(text) == "null" || row.Untyped && string(text) == `""` {
			text = nil
		}
		values = append(values, advise.Value{Field: string(field.Name), Text: text})
	}
	return values
}

// printAdviceOf prints the recommendation, or the judgement of keys that exist.
func printAdviceOf(ctx context.Context, a *cli.App, f *adviseFlags, name string, s *advise.Sample,
	queries []advise.Query) error {
	r, err := advise.Advise(s, queries, f.options)
	if err != nil {
		return cli.Usage("%v", err).
			WithHint("fields are: %s", strings.Join(namesOf(r.Fields), ", "))
	}
	if len(f.keys) > 0 {
		names := make([][]string, len(f.keys))
		r.Keys = make([]advise.Key, len(f.keys))
		for i, key := range f.keys {
			names[i] = strings.Split(key, ",")
			for _, name := range names[i] {
				if !slices.Contains(namesOf(r.Fields), name) {
					return cli.Usage("--key %d: no record has a field %q", i+1, name).
						WithHint("fields are: %s", strings.Join(namesOf(r.Fields), ", "))
				}
			}
			r.Keys[i] = advise.Key{Fields: names[i], Needed: len(names[i])}
		}
		r.Verdicts, r.Notes = advise.Explain(names, queries, s, r.Rows), nil
	}
	if err := checkRepeats(ctx, a, f, name, &r); err != nil {
		return err
	}
	if a.Format == "json" {
		return a.PrintJSON(adviceJSON(r, s.Rows()))
	}
	return printAdvice(a, r, s.Rows())
}

// checkRepeats reads the file again and counts the records that each key does not tell apart.
func checkRepeats(ctx context.Context, a *cli.App, f *adviseFlags, name string,
	r *advise.Report) error {
	if info, err := os.Stat(name); name == "-" || err == nil && !info.Mode().IsRegular() {
		r.Notes = append(r.Notes, "whether the keys tell all records apart was not checked:"+
			" that takes a file, which can be read twice")
		return nil
	}
	repeats := advise.NewRepeats(r)
	if _, err := eachRecord(ctx, a, f, name, "checking keys", repeats.Add); err != nil {
		return err
	}
	repeats.Settle(r)
	return nil
}

func namesOf(fields []advise.Field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

func printAdvice(a *cli.App, r advise.Report, sampled uint64) error {
	fmt.Fprintf(a.Out, "%s", figure.Plural(int64(sampled), "record"))
	if r.Rows > sampled {
		fmt.Fprintf(a.Out, ", estimates for %s", figure.Count(int64(r.Rows)))
	}
	fmt.Fprintln(a.Out)
	var rows [][]string
	for _, f := range r.Fields {
		rows = append(rows, []string{f.Name, figure.Count(int64(f.Distinct)), f.Class.String(),
			strings.Join(traits(f), ", ")})
	}
	if err := a.Grid([]string{"field", "distinct", "cardinality", ""}, rows, 1); err != nil {
		return err
	}
	for i, k := range r.Keys {
		fmt.Fprintf(a.Out, "\nkey %d: [%s]", i+1, strings.Join(k.Fields, "]["))
		if k.Shard > 0 {
			fmt.Fprintf(a.Out, ", after %d shards", k.Shard)
		}
		fmt.Fprintln(a.Out)
		for _, why := range k.Why {
			fmt.Fprintf(a.Out, "  %s\n", why)
		}
	}
	rows = nil
	for i, v := range r.Verdicts {
		key := "-"
		if v.Key >= 0 {
			key = fmt.Sprint(v.Key + 1)
		}
		rows = append(rows, []string{fmt.Sprint(i + 1), v.Query.Text, key, v.Kind.String(),
			figure.Count(int64(v.Rows)), v.Why})
	}
	fmt.Fprintln(a.Out)
	err := a.Grid([]string{"#", "query", "key", "answered by", "records read", "how"}, rows, 2)
	for _, note := range r.Notes {
		fmt.Fprintf(a.Out, "note: %s\n", note)
	}
	return err
}

// traits says what is special about a field.
func traits(f advise.Field) []string {
	var list []string
	if f.Unique {
		list = append(list, "unique")
	}
	if f.Rising {
		list = append(list, "only grows")
	}
	if f.Missing > 0 {
		list = append(list, "missing in "+figure.Count(int64(f.Missing)))
	}
	return list
}

// Figures of -o json.
type (
	adviceFieldJSON struct {
		Name     string `json:"name"`
		Distinct uint64 `json:"distinct"`
		Class    string `json:"cardinality"`
		Missing  uint64 `json:"missing"`
		Unique   bool   `json:"unique"`
		Rising   bool   `json:"only_grows"`
	}
	adviceKeyJSON struct {
		Fields []string `json:"fields"`
		Needed int      `json:"needed"`
		Shards int      `json:"shards,omitempty"`
		Why    []string `json:"why"`
		// How many records of the sample repeat the key of another, nil if that was not
		// checked, and what to add to the key.
		Repeated *uint64  `json:"repeated,omitempty"`
		Add      []string `json:"add,omitempty"`
	}
	adviceQueryJSON struct {
		Query string `json:"query"`
		Key   int    `json:"key"` // counted from 1, 0 for none
		Kind  string `json:"answered_by"`
		Rows  uint64 `json:"records_read"`
		Sorts bool   `json:"sorts"`
		Why   string `json:"how"`
	}
	adviceReportJSON struct {
		Sampled uint64            `json:"sampled"`
		Rows    uint64            `json:"rows"`
		Fields  []adviceFieldJSON `json:"fields"`
		Keys    []adviceKeyJSON   `json:"keys"`
		Queries []adviceQueryJSON `json:"queries"`
		Notes   []string          `json:"notes"`
	}
)

func adviceJSON(r advise.Report, sampled uint64) adviceReportJSON {
	out := adviceReportJSON{Sampled: sampled, Rows: r.Rows, Notes: append([]string{}, r.Notes...)}
	for _, f := range r.Fields {
		out.Fields = append(out.Fields, adviceFieldJSON{f.Name, f.Distinct, f.Class.String(),
			f.Missing, f.Unique, f.Rising})
	}
	for _, k := range r.Keys {
		key := adviceKeyJSON{Fields: k.Fields, Needed: k.Needed, Shards: k.Shard,
			Why: append([]string{}, k.Why...), Add: k.Add}
		if k.Checked {
			key.Repeated = &k.Repeated
		}
		out.Keys = append(out.Keys, key)
	}
	for _, v := range r.Verdicts {
		out.Queries = append(out.Queries, adviceQueryJSON{v.Query.Text, v.Key + 1, v.Kind.String(),
			v.Rows, v.Sorts, v.Why})
	}
	return out
}
