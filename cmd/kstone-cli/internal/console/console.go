// Package console has the commands that show a database at work: console in a browser, top in a
// terminal.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/console"
)

// flags are those of the command console.
type flags struct {
	addr          string
	write, remote bool
	queryTime     time.Duration
}

// Command returns the command console.
func Command(a *cli.App) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   a.Use("console", "[--addr HOST:PORT] [--write]"),
		Short: "Show the database in a browser",
		Long: `Serve pages about the database on this machine, and print their address: what the
report shows, live metrics, tables and items, statements with their plans, and advice
about indexes. Ctrl-C ends it.

The database is opened read-only, also beside a process that writes to it; --write opens
it for writing and allows statements that change it. The address with its token gives
access, on this machine only: another address than 127.0.0.1, [::1] or localhost needs
--allow-remote, and what is sent can be read on the network.`,
		Example: `  kstone-cli console cities.db
  kstone-cli console cities.db --addr 127.0.0.1:8017 --write`,
		Args: a.Arguments(0, 0),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0: a free one")
	flags.BoolVar(&f.write, "write", false, "allow statements that change the database")
	flags.BoolVar(&f.remote, "allow-remote", false, "listen on an address that others can reach")
	flags.DurationVar(&f.queryTime, "query-time", 30*time.Second,
		"how long a statement may take, as in 2m")
	cli.Before(cmd, f.check)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, _ := a.Split(args)
		mode := cli.ReadOnly
		if f.write {
			mode = cli.ReadWrite
		}
		err := a.WithDB(path, mode, func(d *cli.Database) error {
			return f.serve(cmd.Context(), a, d)
		})
		if errors.Is(err, engine.ErrLocked) {
			return cli.Advise(err, "without --write the console reads beside that program")
		}
		return err
	}
	return cmd
}

// check refuses other addresses than loopback ones, unless they are allowed.
func (f *flags) check() error {
	host, _, err := net.SplitHostPort(f.addr)
	switch {
	case err != nil:
		return cli.Usage("console: --addr %s is not an address", f.addr).
			WithHint("write HOST:PORT, as 127.0.0.1:8017, or 127.0.0.1:0 for a free port")
	case f.queryTime <= 0:
		return cli.Usage("console: --query-time %s is not above zero", f.queryTime)
	case !f.remote && !loopback(host):
		return cli.Usage("console: others can reach --addr %s", f.addr).
			WithHint("127.0.0.1:0 listens on this machine only; --allow-remote listens there")
	}
	return nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// hosts returns the names under which a server on an address that others can reach is asked.
func hosts(host string) (all []string) {
	a, err := netip.ParseAddr(host)
	if host != "" && (err != nil || !a.IsUnspecified()) {
		return []string{strings.ToLower(host)}
	}
	if name, err := os.Hostname(); err == nil {
		all = append(all, strings.ToLower(name))
	}
	addresses, _ := net.InterfaceAddrs()
	for _, one := range addresses {
		if p, err := netip.ParsePrefix(one.String()); err == nil {
			all = append(all, p.Addr().String())
		}
	}
	return all
}

// goodbye is how long requests that are under way may take after Ctrl-C.
const goodbye = 50 * time.Millisecond

// serve answers requests until ctx ends.
func (f *flags) serve(ctx context.Context, a *cli.App, d *cli.Database) error {
	tables, err := a.OpenTables(ctx, d)
	if err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(f.addr)
	o := &console.Options{Version: cli.Build(), Write: f.write,
		QueryTime: f.queryTime, FormatPK: d.Schema.FormatPK, FormatSK: d.Schema.FormatSK,
		ReadPK: func(text string) ([]byte, error) {
			return d.Schema.PK(layout.Arg{Bytes: []byte(text)})
		}}
	if d.Schema == nil {
		o.FormatPK, o.FormatSK, o.ReadPK = nil, nil, nil
	}
	if f.remote {
		o.Hosts = hosts(host)
	}
	c, err := console.New(tables.DB, o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		return cli.Advise(err, "--addr 127.0.0.1:0 takes a free port")
	}
	// Requests end with ctx, so that nothing runs on after the last one is answered.
	server := &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Fprintf(a.Out, "http://%s/?token=%s\n", shown(host, l.Addr()), c.Token())
	fmt.Fprintln(a.Err, "open this address in a browser; Ctrl-C ends the console")
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if server.Shutdown(bounded) != nil {
		_ = server.Close() // a connection that does not end is cut
	}
	return nil
}

// shown returns the host and port of an address for people.
func shown(host string, addr net.Addr) string {
	_, port, _ := net.SplitHostPort(addr.String())
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		host, _ = os.Hostname()
	}
	return net.JoinHostPort(host, port)
}
