// Command kstone-cli explores and maintains kstone databases: it imports and exports,
// reads and writes items, shows how they spread over the stripes, verifies and backs
// up. Its manual is docs/cli.md.
package main

import (
	"os"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/command"
)

func main() { os.Exit(command.Main(os.Args[1:])) }
