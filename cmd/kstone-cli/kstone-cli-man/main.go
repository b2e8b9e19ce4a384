// Command kstone-cli-man writes the manual pages of kstone-cli, one for each command, into the
// directory that its argument names, which it creates. Releases have them in their archives.
//
// It is a module of its own, as kstone-cli does not link what makes them.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/command"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kstone-cli-man DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "kstone-cli-man:", err)
		os.Exit(1)
	}
}

// write writes the pages into dir.
func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := command.Root(&cli.App{Out: io.Discard, Err: io.Discard})
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Manual: "kstone", Source: "kstone"},
		dir)
}
