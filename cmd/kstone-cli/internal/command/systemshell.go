package command

import (
	"bytes"
	_ "embed"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
)

// bashWords stands in for what completion takes from the package bash-completion.
//
//go:embed bashwords.sh
var bashWords string

func completionCommand(a *cli.App) *cobra.Command {
	generate := map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(root *cobra.Command, w io.Writer) error {
			if _, err := io.WriteString(w, bashWords); err != nil {
				return err
			}
			return root.GenBashCompletionV2(w, true)
		},
		"zsh": (*cobra.Command).GenZshCompletion,
		"fish": func(root *cobra.Command, w io.Writer) error {
			return root.GenFishCompletion(w, true)
		},
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	}
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print completion for bash, zsh, fish or powershell",
		Long: `Print a script with which the system's shell completes commands, flags and their
values, tables, columns, partition keys and fields of sort keys. It asks this program,
which opens the database read-only.`,
		Example: `  source <(kstone-cli completion bash)
  kstone-cli completion bash > ~/.local/share/bash-completion/completions/kstone-cli
  kstone-cli completion zsh > "${fpath[1]}/_kstone-cli"
  kstone-cli completion fish > ~/.config/fish/completions/kstone-cli.fish`,
		Args:      cli.Words(1, 1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			print, ok := generate[args[0]]
			if !ok {
				return cli.Usage("completion: there is none for %q", args[0]).
					WithHint("there is: %s", strings.Join(names, ", "))
			}
			var b bytes.Buffer
			if err := print(cmd.Root(), &b); err != nil {
				return err
			}
			_, err := a.Out.Write(b.Bytes())
			return err
		},
	}
}

// completeAsShell gives commands on a database the completion that they have in a shell, for their
// flags and their arguments after the database.
func completeAsShell(a *cli.App, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		completeAsShell(a, sub)
	}
	if _, args, _ := strings.Cut(cmd.Use, " "); !strings.HasPrefix(args, "DB") {
		return
	}
	complete := func(args []string, prefix string, of func(*session, []string) []string,
	) (found []string, how cobra.ShellCompDirective) {
		if len(args) > 0 {
			_ = a.OnEither(args[0], func(d *cli.Database) error {
				found = matching(of(&session{app: a, db: d}, args[1:]), prefix)
				return nil
			})
		}
		if len(found) > 0 && strings.HasSuffix(found[0], "=") { // of a setting
			return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, prefix string) ([]string,
		cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return nil, cobra.ShellCompDirectiveFilterDirs
		case len(args) == 1 && takesFile[cmd.Name()]:
			return nil, cobra.ShellCompDirectiveDefault
		}
		return complete(args, prefix, func(s *session, args []string) []string {
			return s.arguments(cmd, args, prefix)
		})
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" || f.Annotations[cobra.BashCompFilenameExt] != nil {
			return
		}
		// One that has its own completion keeps it.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, args []string,
			prefix string) ([]string, cobra.ShellCompDirective) {
			return complete(args, prefix, func(s *session, args []string) []string {
				return s.flagValues(cmd, f.Name, args, prefix)
			})
		})
	})
}

// takesFile are the commands whose first argument after the database is a file, which the system's
// shell completes better.
var takesFile = map[string]bool{"import": true, "dedup": true, "report": true, "backup": true}

// matching returns the candidates that begin with a prefix.
func matching(names []string, prefix string) (found []string) {
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			found = append(found, name)
		}
	}
	return found
}
