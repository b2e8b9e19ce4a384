package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/bulk"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
)

func getCommand(a *cli.App) *cobra.Command {
	var key keyFlags
	cmd := &cobra.Command{
		Use:   a.Use("get", "PK [--sk SK]"),
		Short: "Print the value of one item",
		Long: `Print the value of one item, followed by a line feed. With -o raw exactly the bytes
of the value are printed; with any other -o the whole item.

Exit code 3 says that there is no such item.`,
		Example: `  kstone-cli get my.db user#1
  kstone-cli get my.db user#1 --sk profile -o json
  kstone-cli get cities.db IT --sk-part Lombardy --sk-part "Provincia di Brescia" --sk-part Brescia
  kstone-cli get my.db picture -o raw > picture.png`,
		Args: a.Arguments(1, 1),
	}
	key.add(a, cmd)
	a.ItemFlag(cmd)
	cmd.Flags().Lookup("output").Usage = "`FORMAT`, as of query; default: the value and a line feed"
	a.AsOfFlag(cmd)
	cmd.RunE = a.OnDB(cli.ReadOnly, func(ctx context.Context, d *cli.Database,
		args []string) error {
		k, err := key.key(a, d.Schema, args[0])
		if err != nil {
			return err
		}
		snap, err := a.Snapshot(d)
		if err != nil {
			return err
		}
		defer snap.Close()
		item, err := snap.GetItem(k)
		if errors.Is(err, engine.ErrNotFound) {
			return missing(ctx, d, k)
		}
		if err != nil {
			return err
		}
		return printItem(a, d, item)
	})
	return cmd
}

// missing explains that there is no item with the key, and where others are.
func missing(ctx context.Context, d *cli.Database, k engine.Key) error {
	n := 0
	var other engine.Key
	for item, err := range d.Query(ctx, engine.Query{PK: k.PK, Limit: 2}) {
		if err != nil {
			return err
		}
		if n == 0 {
			other = item.Clone().Key
		}
		n++
	}
	pk := d.Schema.FormatPK(k.PK)
	hint := ""
	switch {
	case n == 0 && k.SK != nil:
		hint = fmt.Sprintf("the partition %q is empty; keys are case-sensitive", pk)
	case n > 0 && k.SK == nil:
		hint = fmt.Sprintf("%q has items with sort keys, the first is %q; name one with --sk,"+
			" or list them with query", pk, d.Schema.FormatSK(other.SK))
	case n > 0:
		hint = fmt.Sprintf("%q has other items; list them with query", pk)
	}
	return cli.NotFound("not found: "+d.Schema.FormatKey(k), hint)
}

func printItem(a *cli.App, d *cli.Database, item engine.Item) error {
	var err error
	switch a.Format {
	case "raw":
		_, err = a.Out.Write(item.Value)
		return err
	case "":
		if a.OutTTY { // control characters would run wild on a terminal
			_, err = fmt.Fprintln(a.Out, layout.ShowLines(item.Value))
			return err
		}
		_, err = a.Out.Write(append(item.Value, '\n'))
		return err
	}
	_, err = present.Write(a.Out, func(yield func(engine.Item, error) bool) { yield(item, nil) },
		a.Options(d.Schema, true))
	return err
}

func putCommand(a *cli.App) *cobra.Command {
	var key keyFlags
	var ttl time.Duration
	var ifAbsent bool
	var valueFile string
	cmd := &cobra.Command{
		Use:   a.Use("put", "PK VALUE [--sk SK] [--ttl 5m] [--if-absent]"),
		Short: "Write one item",
		Long: `Write one item, replacing the one with the same key. The database is created if
there is none. With --if-absent an existing item stays and the exit code is 4.

A value that begins with - goes after --, one that is long or binary into a file.`,
		Example: `  kstone-cli put my.db user#1 '{"name":"Ada"}'
  kstone-cli put my.db user#1 active --sk status --ttl 5m
  kstone-cli put my.db lock me --if-absent
  kstone-cli put my.db picture --value-file picture.png
  kstone-cli put my.db number -- -5`,
		Args: a.Arguments(1, 2),
	}
	key.add(a, cmd)
	a.SetFlag(cmd)
	cmd.Flags().DurationVar(&ttl, "ttl", 0,
		"let the item expire after that `TIME`, for example 90s, 5m, 24h")
	cmd.Flags().BoolVar(&ifAbsent, "if-absent", false,
		"write only if there is no such item (exit code 4 if there is)")
	cmd.Flags().StringVar(&valueFile, "value-file", "",
		"read the value from a `FILE`, - for standard input")
	_ = cmd.MarkFlagFilename("value-file")
	a.DurabilityFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("ttl") && ttl <= 0 {
			return cli.Usage("--ttl must be positive, not %v", ttl).WithHint("for example --ttl 5m")
		}
		path, args := a.Split(args)
		value, err := putValue(a, args[1:], valueFile)
		if err != nil {
			return err
		}
		return a.WithDB(path, cli.Create, func(d *cli.Database) error {
			k, err := key.key(a, d.Schema, args[0])
			if err != nil {
				return err
			}
			if ifAbsent {
				err = d.PutIf(k, value, engine.IfAbsent(), engine.TTL(ttl), a.Level())
			} else {
				err = d.Put(k, value, engine.TTL(ttl), a.Level())
			}
			return explainCondition(err, d, k)
		})
	}
	return cmd
}

// explainCondition names the key of a failed condition as the layout shows it.
func explainCondition(err error, d *cli.Database, k engine.Key) error {
	if !errors.Is(err, engine.ErrConditionFailed) {
		return err
	}
	return cli.Advise(fmt.Errorf("%s exists already%w", d.Schema.FormatKey(k), cli.Quiet(err)),
		"nothing was written; get shows the item, put without --if-absent replaces it")
}

// putValue returns the value from the arguments or from a file.
func putValue(a *cli.App, args []string, file string) ([]byte, error) {
	switch {
	case file == "" && len(args) == 0:
		return nil, cli.Usage("put: the value is missing").
			WithHint("write it after the key, or name a file with --value-file")
	case file == "":
		return a.BytesOf("VALUE", args[0])
	case len(args) > 0:
		return nil, cli.Usage("put: a value and --value-file exclude each other")
	}
	in, _, err := bulk.OpenInput(a, file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	value, err := io.ReadAll(io.LimitReader(in, engine.MaxValueBytes+1))
	if err == nil && len(value) > engine.MaxValueBytes {
		err = fmt.Errorf("%w: the value in %s has more than 64 MiB", engine.ErrTooLarge, file)
	}
	return value, err
}

func deleteCommand(a *cli.App) *cobra.Command {
	var key keyFlags
	var all, missingOK bool
	cmd := &cobra.Command{
		Use:   a.Use("delete", "PK [--sk SK]"),
		Short: "Delete one item, or all of a partition",
		Long: `Delete one item. Exit code 3 says that there was none; --missing-ok accepts that.
With --all every item of the partition is deleted in one step.`,
		Example: `  kstone-cli delete my.db user#1
  kstone-cli delete my.db user#1 --sk status --missing-ok
  kstone-cli delete my.db user#1 --all`,
		Args: a.Arguments(1, 1),
	}
	key.add(a, cmd)
	cmd.Flags().BoolVar(&all, "all", false,
		"delete all items of the partition, whatever their sort keys")
	cmd.Flags().BoolVar(&missingOK, "missing-ok", false, "it is fine if there is nothing to delete")
	a.DurabilityFlag(cmd)
	cmd.RunE = a.OnDB(cli.ReadWrite, func(ctx context.Context, d *cli.Database,
		args []string) error {
		k, err := key.key(a, d.Schema, args[0])
		switch {
		case err != nil:
			return err
		case !all:
			err = deleteOne(ctx, a, d, k)
		case k.SK != nil:
			return cli.Usage("delete: --all and a sort key exclude each other")
		default:
			err = deleteAll(ctx, a, d, k)
		}
		if missingOK && errors.Is(err, engine.ErrNotFound) {
			return nil
		}
		return err
	})
	return cmd
}

func deleteOne(ctx context.Context, a *cli.App, d *cli.Database, k engine.Key) error {
	err := d.DeleteIf(k, engine.IfPresent(), a.Level())
	if errors.Is(err, engine.ErrConditionFailed) {
		return missing(ctx, d, k)
	}
	return err
}

func deleteAll(ctx context.Context, a *cli.App, d *cli.Database, k engine.Key) error {
	n, err := d.Count(ctx, engine.Query{PK: k.PK})
	if err != nil {
		return err
	}
	if n == 0 {
		return cli.NotFound("not found: the partition "+d.Schema.FormatPK(k.PK)+" is empty", "")
	}
	if err := d.DeleteRange(k.PK, engine.SKCondition{}, a.Level()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Err, "deleted %s\n", figure.Plural(n, "item"))
	return err
}
