package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/engine"
)

func (a *app) settingsCommand() *cobra.Command {
	words, example := "", "  settings"
	if a.open == nil {
		words = "[NAME=VALUE…]"
		example = `  kstone-cli settings cities.db
  kstone-cli settings cities.db compression=lz4 bottom-compression=zstd`
	}
	cmd := &cobra.Command{
		Use:   a.use("settings", words),
		Short: "Show or change how data files are written",
		Long: `Without NAME=VALUE, list the settings of a database: their names and values, whether
a value is the default or was chosen, and what it means. With it, choose other values.

What is chosen is stored in the database and used by every program that opens it without
options of its own. Data files keep the form that they were written in until they are
merged; compact writes all of them again. Commands that create a database choose its
settings with --set.`,
		Example:           example,
		Args:              a.arguments(0, -1),
		ValidArgsFunction: a.completeSettingArg,
	}
	a.outputFlag(cmd, "`FORMAT`: json prints the settings as JSON", "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, words := a.split(args)
		m := readOnly
		if len(words) > 0 {
			if a.open != nil {
				return usage("settings cannot change while the database is open").
					withHint("leave the shell, then: %s settings DB %s", program,
						strings.Join(words, " "))
			}
			m, a.set = readWrite, words
		}
		return a.withDB(path, m, func(d *database) error {
			if err := stored(d.Settings(), words); err != nil {
				return err
			}
			if a.format == "json" {
				return a.printJSON(settingsJSON(d.Settings()))
			}
			return printSettings(a.out, d.Settings())
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
		if named && !s.Chosen {
			return &advice{fmt.Errorf("setting %s: %w", s.Name, engine.ErrDiskFull),
				"nothing has changed; free some space and run the command again"}
		}
	}
	return nil
}

func printSettings(w io.Writer, all []engine.Setting) error {
	for _, s := range all {
		_, err := fmt.Fprintf(w, "%-18s  %-8s  %-7s  %s\n", s.Name, s.Value, origin(s),
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

// settingsText writes what is in use as it is given to the command.
func settingsText(all []engine.Setting) string {
	var words []string
	for _, s := range all {
		words = append(words, s.Name+"="+s.Value)
	}
	return strings.Join(words, " ")
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

// setFlag adds --set to a command that may create a database. In a shell the database is
// open, and has its settings.
func (a *app) setFlag(cmd *cobra.Command) {
	if a.open != nil {
		return
	}
	cmd.Flags().StringArrayVar(&a.set, "set", nil, "choose a setting of the database, as"+
		" `NAME=VALUE` (repeatable);\n"+program+" help settings explains them")
	_ = cmd.RegisterFlagCompletionFunc("set", completeSetting)
}

// choose sets the options that NAME=VALUE words name.
func choose(o *engine.Options, words []string) error {
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return usage("setting %q: want NAME=VALUE", w).
				withHint("for example compression=zstd; %s help settings explains them", program)
		}
		if err := o.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// completeSetting completes NAME=VALUE.
func completeSetting(_ *cobra.Command, _ []string, prefix string) ([]string,
	cobra.ShellCompDirective) {
	name, _, named := strings.Cut(prefix, "=")
	var found []string
	for _, s := range engine.DefaultSettings() {
		switch {
		case !named:
			found = append(found, s.Name+"=")
		case s.Name == name:
			for _, v := range s.Values {
				found = append(found, name+"="+v)
			}
		}
	}
	found = slices.DeleteFunc(found, func(c string) bool { return !strings.HasPrefix(c, prefix) })
	if named {
		return found, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeSettingArg completes the database, then settings.
func (a *app) completeSettingArg(cmd *cobra.Command, args []string, prefix string) ([]string,
	cobra.ShellCompDirective) {
	if a.open == nil && len(args) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return completeSetting(cmd, args, prefix)
}
