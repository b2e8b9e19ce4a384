package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine/console"
)

// sampler returns what a database does now, with what has changed since a version.
type sampler func(ctx context.Context, since uint64) (*console.Sample, error)

// TopCommand returns the command top.
func TopCommand(a *cli.App) *cobra.Command {
	var once bool
	interval := time.Second
	use, least := "top DB|ADDRESS [--once]", 1
	if a.Open != nil { // its database is meant
		use, least = "top [ADDRESS] [--once]", 0
	}
	cmd := &cobra.Command{
		Use:   use,
		Short: "Watch a running database in the terminal",
		Long: `Show how much is read and written, latencies, stalls, memory, files, and the stripes
and partitions that change most, again and again; q or Ctrl-C ends it.

ADDRESS is that of a console, as kstone-cli console or a program prints it, with its
token: it has all figures of the process that serves it. A DB is read beside the process
that has it open: commits, changes and files are seen, but not what that process reads
and waits for. Hot partitions are those with the most changed items, and those that
the process reads most, by a sample of one read in 256.

With --once, or if the output is not a terminal, one sample of one interval is written.`,
		Example: `  kstone-cli top cities.db --once
  kstone-cli top http://127.0.0.1:8017/?token=…`,
		Args: cli.Words(least, 1),
	}
	cmd.Flags().BoolVar(&once, "once", false, "write one sample")
	cmd.Flags().DurationVar(&interval, "interval", interval, "`TIME` between samples")
	cli.Before(cmd, func() error {
		if interval < minInterval {
			return cli.Usage("top: --interval %s is less than %s", interval, minInterval)
		}
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := cli.UntilStopped(cmd.Context())
		defer stop()
		show := func(take sampler) error {
			if once || !a.OutTTY || !a.InTTY {
				return sampleOnce(ctx, a, take, interval)
			}
			return watch(ctx, a, take, interval)
		}
		path := append(args, "")[0]
		if address, ok := consoleAddress(path); ok {
			take, err := fromConsole(address)
			if err != nil {
				return err
			}
			return show(take)
		}
		if a.Open != nil && path != "" {
			return cli.Usage("top: %s is not the address of a console", path).
				WithHint("top alone shows the open database")
		}
		return a.WithDB(path, cli.ReadOnly, func(d *cli.Database) error {
			tables, err := a.OpenTables(ctx, d)
			if err != nil {
				return err
			}
			source := &console.Source{Name: d.Path, Engine: d.DB, Tables: tables.DB,
				FormatPK: d.Schema.FormatPK}
			return show(func(ctx context.Context, since uint64) (*console.Sample, error) {
				return source.Sample(ctx, time.Now(), since)
			})
		})
	}
	return cmd
}

const minInterval = 100 * time.Millisecond

// sampleOnce writes what happens in one interval.
func sampleOnce(ctx context.Context, a *cli.App, take sampler, interval time.Duration) error {
	first, err := take(ctx, 0)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(interval):
	}
	second, err := take(ctx, first.Version)
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.Out, strings.Join(newFrame().lines(first, second), "\n")+"\n")
	return err
}

// Sequences of a terminal: another screen without a cursor and back, the first place of it, and
// to erase what is right of or below the cursor.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	firstPlace  = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
)

// watch shows sample after sample until a key or a signal ends it. It restores the content of the
// terminal.
func watch(ctx context.Context, a *cli.App, take sampler, interval time.Duration) (err error) {
	in := int(os.Stdin.Fd())
	state, err := term.MakeRaw(in)
	if err != nil {
		return err
	}
	defer func() {
		_, out := io.WriteString(a.Out, leaveScreen)
		err = errors.Join(err, out, term.Restore(in, state))
	}()
	if _, err := io.WriteString(a.Out, enterScreen); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the program: a read of a terminal cannot be ended otherwise
		key := make([]byte, 1)
		for {
			if n, err := os.Stdin.Read(key); err != nil || n == 1 && endsWatch(key[0]) {
				cancel()
				return
			}
		}
	}()
	f := newFrame()
	var before *console.Sample
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		since := uint64(0)
		if before != nil {
			since = before.Version
		}
		now, err := take(ctx, since)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			draw(a.Out, []string{"no sample: " + cli.PlainText(err), "", "q ends"})
		default:
			draw(a.Out, append(f.lines(before, now), "", "q ends"))
			before = now
		}
		timer.Reset(interval)
	}
}

// endsWatch reports whether a key ends the watch: q, Ctrl-C or Ctrl-D.
func endsWatch(key byte) bool { return key == 'q' || key == 'Q' || key == 3 || key == 4 }

// draw writes lines over those before, cut to the size of the terminal.
func draw(w io.Writer, lines []string) {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var b strings.Builder
	b.WriteString(firstPlace)
	for i, line := range lines[:min(len(lines), height)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(runewidth.Truncate(line, width, "…") + eraseLine)
	}
	b.WriteString(eraseBelow)
	fmt.Fprint(w, b.String())
}
