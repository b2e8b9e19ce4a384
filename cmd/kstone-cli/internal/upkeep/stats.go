package upkeep

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/overview"
	"github.com/kstonedb/kstone/keycodec"
)

// exactLimit is up to how many records stats counts instead of estimating. Why: a scan
// of that many takes about a second.
const exactLimit = 5_000_000

// census is how the items spread.
type census struct {
	Items   int64           `json:"items"`
	Exact   bool            `json:"exact"`
	Stripes [256]int64      `json:"stripes"`
	counted overview.Census // if Exact
}

// StatsCommand returns the command stats.
func StatsCommand(a *cli.App) *cobra.Command {
	var exact, estimate bool
	var top int
	cmd := &cobra.Command{
		Use:   a.Use("stats", "[--exact|--estimate]"),
		Short: "Show size, spread over the stripes and the largest partitions",
		Long: `Show how many items there are, how they spread over the 256 stripes, which partitions
are the largest, what the database takes on disk and in memory, and with which statistics
queries of its tables are planned.

Up to five million records are counted by a scan. Beyond that the numbers come from
the files, where overwritten and deleted items count until a merge drops them.`,
		Example: `  kstone-cli stats cities.db
  kstone-cli stats cities.db --top 20
  kstone-cli stats cities.db -o json | jq .items`,
		Args: a.Arguments(0, 0),
	}
	cmd.Flags().BoolVar(&exact, "exact", false, "count, however many there are")
	cmd.Flags().BoolVar(&estimate, "estimate", false, "do not count")
	cmd.Flags().IntVar(&top, "top", 5, "show the `N` largest partitions")
	a.OutputFlag(cmd, "`FORMAT`: json prints the figures as JSON", "table", "json")
	cli.Before(cmd, func() error {
		switch {
		case exact && estimate:
			return cli.Usage("stats: --exact and --estimate exclude each other")
		case top < 0:
			return cli.Usage("stats: --top %d is negative", top)
		}
		return nil
	})
	cmd.RunE = a.OnDB(cli.ReadOnly, func(ctx context.Context, d *cli.Database, _ []string) error {
		m := d.Metrics()
		c := &census{}
		known, err := overview.OwnersOf(ctx, d.DB)
		if err != nil {
			return err
		}
		if exact || !estimate && m.Total.Records <= exactLimit {
			if err := c.count(ctx, a, d, known, top); err != nil {
				return err
			}
		} else {
			c.estimate(&m)
		}
		if a.Format == "json" {
			return printStatsJSON(a, d, c, &m, known)
		}
		return printStats(a, d, c, &m, known)
	})
	return cmd
}

// tableStatistics says where the statistics of a table come from, for plans.
type tableStatistics struct {
	Table      string `json:"table"`
	Statistics string `json:"statistics"`
}

// count scans the database.
func (c *census) count(ctx context.Context, a *cli.App, d *cli.Database, known *overview.Owners,
	top int) error {
	all := &c.counted
	all.Owners, all.Top = known, top
	all.Size = func(p *overview.Partition) int64 { return p.Items }
	items := cli.Followed(a, "counting", int64(d.Metrics().Total.Records),
		d.Scan(ctx, engine.Scan{Unordered: true}))
	for item, err := range items {
		if err != nil {
			return err
		}
		all.Add(item)
	}
	all.Done(d.Schema.FormatPK)
	all.Sort()
	c.Exact, c.Items = true, all.Items
	for i, s := range all.Stripes {
		c.Stripes[i] = s.Items
	}
	return nil
}

func (c *census) estimate(m *engine.Metrics) {
	for i := range m.Stripes {
		n := int64(m.Stripes[i].Records) - 2*int64(m.Stripes[i].Tombstones)
		c.Stripes[i] = max(n, 0)
		c.Items += c.Stripes[i]
	}
}

func printStatsJSON(a *cli.App, d *cli.Database, c *census, m *engine.Metrics,
	known *overview.Owners) error {
	type largest struct {
		PK     string `json:"pk"`
		Items  int64  `json:"items"`
		Stripe uint8  `json:"stripe"`
	}
	out := struct {
		*census
		Used     int           `json:"stripes_used"`
		Largest  []largest     `json:"largest_partitions"`
		Disk     int64         `json:"disk_bytes"`
		Raw      int64         `json:"raw_bytes"`
		Values   int64         `json:"value_file_bytes,omitempty"`
		Garbage  int64         `json:"value_garbage_bytes,omitempty"`
		Memtable int64         `json:"memtable_bytes"`
		Files    int           `json:"files"`
		Runs     int           `json:"runs"`
		Keys     string        `json:"keys,omitempty"`
		Settings []settingJSON `json:"settings"`

		Kinds  []*overview.Share `json:"kinds,omitempty"`
		Tables []tableStatistics `json:"tables,omitempty"`
	}{census: c, Disk: m.Total.DiskBytes, Raw: m.Total.RawBytes, Memtable: m.MemtableBytes,
		Files: m.Total.Files, Runs: m.Total.Runs, Keys: d.Schema.Flags(), Largest: []largest{},
		Values: m.Total.ValueBytes, Garbage: m.Total.GarbageBytes,
		Settings: settingsJSON(d.Settings()), Kinds: c.counted.Shares}
	for _, t := range known.Tables {
		out.Tables = append(out.Tables, tableStatistics{t.Name, t.Statistics})
	}
	for _, n := range c.Stripes {
		if n > 0 {
			out.Used++
		}
	}
	for _, p := range c.counted.Largest {
		out.Largest = append(out.Largest, largest{d.Schema.FormatPK(p.PK), p.Items, p.Stripe})
	}
	return a.PrintJSON(out)
}

func printStats(a *cli.App, d *cli.Database, c *census, m *engine.Metrics,
	known *overview.Owners) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	switch {
	case c.Exact:
		row("items", "%s in %s", figure.Count(c.Items),
			figure.Plural(c.counted.Partitions, "partition"))
	default:
		row("items", "about %s (overwritten and deleted ones may count; --exact counts them)",
			figure.Count(c.Items))
	}
	if d.Schema != nil {
		row("keys", "%s", d.Schema.Flags())
	}
	row("on disk", "%s in %s and %s; %s before compression", figure.Bytes(m.Total.DiskBytes),
		figure.Plural(int64(m.Total.Files), "file"), figure.Plural(int64(m.Total.Runs), "run"),
		figure.Bytes(m.Total.RawBytes))
	if m.Total.ValueBytes > 0 {
		row("large values", "%s in files of their own, %s of it garbage",
			figure.Bytes(m.Total.ValueBytes), figure.Bytes(m.Total.GarbageBytes))
	}
	row("settings", "%s", settingsText(d.Settings()))
	row("in memory", "%s of write buffers, %s of cached blocks", figure.Bytes(m.MemtableBytes),
		figure.Bytes(m.CacheBytes))
	if a.Open != nil {
		row("log", "%s of %s", figure.Bytes(m.LogBytes), figure.Bytes(m.LogBudgetBytes))
		row("activity", "%s commits, %s flushes, %s merges, write amplification %.2f",
			figure.Count(int64(m.Commits)), figure.Count(int64(m.Flushes)),
			figure.Count(int64(m.Compactions)), m.WriteAmplification)
	}
	for _, t := range known.Tables {
		row("statistics", "of table %s: %s", t.Name, t.Statistics)
	}
	if len(known.Tables) > 0 && len(c.counted.Shares) > 0 {
		fmt.Fprintf(&b, "\nwhat the items are\n")
		c.counted.Write(&b)
	}
	b.WriteByte('\n')
	b.WriteString(present.HeatMap(&c.Stripes, "items a stripe", a.Color))
	if len(c.counted.Largest) > 0 {
		b.WriteString("\nlargest partitions\n")
		for _, p := range c.counted.Largest {
			if p.Inner {
				p.Name += " (" + p.Owner + ")"
			}
			fmt.Fprintf(&b, "  %-24s %12s   %4.1f %%   stripe %d\n", p.Name,
				figure.Count(p.Items), 100*float64(p.Items)/float64(c.Items), p.Stripe)
		}
	}
	_, err := a.Out.Write([]byte(b.String()))
	return err
}

// StripeCommand returns the command stripe.
func StripeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stripe PK…",
		Short: "Show which stripe partition keys live in",
		Long: `Print the stripe of each partition key, the key, and its bytes in hexadecimal. The
stripe is the CRC-32 (IEEE) of the partition key modulo 256. Needs no database.`,
		Example: `  kstone-cli stripe IT US
  kstone-cli stripe -i hex 00ff`,
		Args: cli.Words(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, text := range args {
				arg, err := a.Arg("PK", text)
				if err != nil {
					return err
				}
				pk := arg.Bytes
				if a.Open != nil {
					if pk, err = a.Open.Schema.PK(arg); err != nil {
						return err
					}
				}
				if len(pk) == 0 {
					return engine.ErrEmptyPK
				}
				if _, err := fmt.Fprintf(a.Out, "%d\t%s\t%x\n", keycodec.Stripe(pk), text,
					pk); err != nil {
					return err
				}
			}
			return nil
		},
	}
	a.InputFlag(cmd, cli.InputFormHelp)
	return cmd
}
