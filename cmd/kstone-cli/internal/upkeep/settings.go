package upkeep

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
)

// SettingsCommand returns the command settings.
func SettingsCommand(a *cli.App) *cobra.Command {
	words, example := "", "  settings"
	if a.Open == nil {
		words = "[NAME=VALUE…]"
		example = `  kstone-cli settings cities.db
  kstone-cli settings cities.db compression=lz4 bottom-compression=zstd`
	}
	cmd := &cobra.Command{
		Use:   a.Use("settings", words),
		Short: "Show or change how data files are written",
		Long: `Without NAME=VALUE, list the settings of a database: their names and values, whether
a value is the default or was chosen, and what it means. With it, choose other values.

What is chosen is stored in the database and used by every program that opens it without
options of its own. Data files keep the form that they were written in until they are
merged; compact writes all of them again. Commands that create a database choose its
settings with --set.`,
		Example: example,
		Args:    a.Arguments(0, -1),
	}
	a.OutputFlag(cmd, "`FORMAT`: json prints the settings as JSON", "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, words := a.Split(args)
		m := cli.ReadOnly
		if len(words) > 0 {
			if a.Open != nil {
				return cli.Usage("settings cannot change while the database is open").
					WithHint("leave the shell, then: %s settings DB %s", cli.Program,
						strings.Join(words, " "))
			}
			m, a.Set = cli.ReadWrite, words
		}
		return a.WithDB(path, m, func(d *cli.Database) error {
			if err := stored(d.Settings(), words); err != nil {
				return err
			}
			if a.Format == "json" {
				return a.PrintJSON(settingsJSON(d.Settings()))
			}
			return printSettings(a.Out, d.Settings())
		})
	}
	return cmd
}

// stored returns an error if one of words, which Open has taken, is not in the database.
func stored(all []engine.Setting, words []string) error {
	for _, s := range all {
		named := slices.ContainsFunc(words, func(w string) bool {
			return strings.HasPrefix(w, s.Name+"=")
		})
		if named && s.Lost {
			return cli.Advise(fmt.Errorf("setting %s: %w", s.Name, engine.ErrDiskFull),
				"nothing has changed; free some space and run the command again")
		}
	}
	return nil
}

func printSettings(w io.Writer, all []engine.Setting) error {
	name, value := 0, 0
	for _, s := range all {
		name, value = max(name, len(s.Name)), max(value, len(s.Value))
	}
	for _, s := range all {
		_, err := fmt.Fprintf(w, "%-*s  %-*s  %-7s  %s\n", name, s.Name, value, s.Value, origin(s),
			meaning(s))
		if err != nil {
			return err
		}
	}
	return nil
}

func origin(s engine.Setting) string {
	if s.Chosen {
		return "chosen"
	}
	return "default"
}

func meaning(s engine.Setting) string {
	if len(s.Values) == 0 {
		return s.Meaning
	}
	return s.Meaning + ": " + strings.Join(s.Values, ", ")
}

// settingsText writes what was chosen as it is given to the command.
func settingsText(all []engine.Setting) string {
	var words []string
	for _, s := range all {
		if s.Chosen {
			words = append(words, s.Name+"="+s.Value)
		}
	}
	if len(words) == 0 {
		return "defaults"
	}
	return strings.Join(words, " ") + ", else defaults"
}

type settingJSON struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Chosen bool   `json:"chosen"`
}

func settingsJSON(all []engine.Setting) (out []settingJSON) {
	for _, s := range all {
		out = append(out, settingJSON{s.Name, s.Value, s.Chosen})
	}
	return out
}
