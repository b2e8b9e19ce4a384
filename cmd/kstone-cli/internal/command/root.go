package command

import (
	"context"
	"io"
	"os"
	"os/signal"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/bulk"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/console"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/keytool"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/migrate"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/upkeep"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Main runs the program with the given arguments and returns its exit code.
func Main(args []string) int {
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	a.InTTY = term.IsTerminal(int(os.Stdin.Fd()))
	a.OutTTY = term.IsTerminal(int(os.Stdout.Fd()))
	a.ErrTTY = term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb"
	a.Color = a.OutTTY && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // the next Ctrl-C kills, should the first one not be heeded
	a.In = cli.Interruptible(ctx, a.In)
	return cli.ExitCode(runLine(ctx, a, args))
}

// runLine executes one command line, reports its error and returns it.
func runLine(ctx context.Context, a *cli.App, args []string) error {
	if a.OutTTY {
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			a.Width = width
		}
	}
	a.Context = ctx
	out := &cli.Output{Writer: a.Out}
	a.Out = out
	root := Root(a)
	root.SetArgs(args)
	return a.Timed(func() error {
		if err := root.ExecuteContext(ctx); err != nil {
			return err
		}
		return out.Err
	})
}

// Root returns the command tree.
func Root(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:           cli.Program,
		Short:         "Explore and maintain kstone databases",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		Version:       "of the program and its formats",
	}
	root.SetVersionTemplate(cli.Version())
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return a.Unknown(cmd, args[0])
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetHelpCommand(a.HelpCommand(root))
	root.CompletionOptions.DisableDefaultCmd = true
	a.WrapHelp(root)
	flags := root.PersistentFlags()
	flags.BoolVar(&a.Timing, "timing", a.Timing, "print how long the command took")
	for _, group := range groups(a) {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			cmd.DisableFlagsInUseLine = true
			if a.Open != nil {
				inShell(cmd)
			}
			root.AddCommand(cmd)
		}
	}
	if a.Open != nil { // no name of a program before the command
		root.Use = ""
	} else {
		root.SetHelpCommandGroupID(firstGroup)
		completeAsShell(a, root)
	}
	return root
}

// firstGroup is the title of the group of commands to start with.
const firstGroup = "Start here"

const rootHelp = `kstone-cli explores and maintains kstone databases.

A database is a directory. Every item has a partition key (PK), an optional sort
key (SK) and a value. Commands that only read open it read-only, several at a time and
beside one that writes. Commands on tables also take the URL of a store on other machines,
such as postgres://user@host/database; kstone-cli-stores is this program with back ends
for it.

Data goes to standard output, everything else to standard error. Exit codes: 0 ok,
1 error, 2 usage, 3 not found, 4 condition failed, 5 corrupt, 6 locked, 130 interrupted.`

type group struct {
	title    string
	commands []*cobra.Command
}

// groups lists the commands. Those that only make sense outside of a shell are left
// out inside of one.
func groups(a *cli.App) []group {
	all := []group{
		{"Items", []*cobra.Command{
			getCommand(a), putCommand(a), deleteCommand(a),
			queryCommand(a), scanCommand(a), countCommand(a),
		}},
		{"Tables", []*cobra.Command{sqlCommand(a), tableCommand(a), indexCommand(a)}},
		{"Bulk data", []*cobra.Command{
			bulk.ImportCommand(a), bulk.DedupCommand(a), bulk.ExportCommand(a), bulk.DumpCommand(a),
			upkeep.BackupCommand(a), upkeep.ShipCommand(a),
		}},
		{"Look inside", []*cobra.Command{
			upkeep.StatsCommand(a), upkeep.VerifyCommand(a), upkeep.InspectCommand(a),
			upkeep.StripeCommand(a), changesCommand(a), report.Command(a),
		}},
		{"Upkeep", []*cobra.Command{
			upkeep.SettingsCommand(a), upkeep.FlushCommand(a), upkeep.CompactCommand(a),
		}},
		{"Watch", []*cobra.Command{console.Command(a), console.TopCommand(a)}},
	}
	if a.Open != nil {
		return all
	}
	return append(all,
		group{"Keys", []*cobra.Command{keytool.KeysCommand(a), keytool.SegmentCommand(a)}},
		group{"Move", []*cobra.Command{bulk.CopyCommand(a), migrate.Command(a)}},
		group{"Prove and rescue", []*cobra.Command{
			upkeep.RepairCommand(a), upkeep.RestoreCommand(a), upkeep.TortureCommand(a),
		}},
		group{firstGroup, []*cobra.Command{
			shellCommand(a), demoCommand(a), completionCommand(a), versionCommand(a),
		}})
}

func versionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, the commit and the file formats",
		Long: `Show the version and commit of the program, and the versions of the file formats that
it writes. It reads those and all before them.`,
		Example: "  kstone-cli version",
		Args:    cli.Words(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(a.Out, cli.Version())
			return err
		},
	}
}
