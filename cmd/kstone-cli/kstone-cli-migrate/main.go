// Command kstone-cli-migrate is kstone-cli with readers of other engines: its command migrate
// copies what bbolt, Badger, goleveldb, Pebble and SQLite store. docs/migrating.md has how to
// install it.
//
// It is a module of its own, as kstone-cli links none of them, and not part of kstone-cli-stores,
// which a service keeps in use: these are needed once.
package main

import (
	"os"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/command"
	"github.com/kstonedb/kstone/cmd/kstone-cli/kstone-cli-migrate/internal/readers"
)

func main() {
	readers.Register()
	os.Exit(command.Main(os.Args[1:]))
}
