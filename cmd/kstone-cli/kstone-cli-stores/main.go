// Command kstone-cli-stores is kstone-cli with back ends for stores on other machines: its commands
// on tables take tikv://, etcd:// and postgres:// where they take a directory, and ship and restore
// s3://. docs/stores.md has how to install it.
//
// It is a module of its own, as kstone-cli links none of the clients.
package main

import (
	"os"

	"github.com/pingcap/log"
	"go.uber.org/zap"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/command"
	_ "github.com/kstonedb/kstone/engine/ship/s3"
	_ "github.com/kstonedb/kstone/engine/store/etcd"
	_ "github.com/kstonedb/kstone/engine/store/postgres"
	_ "github.com/kstonedb/kstone/engine/store/tikv"
)

func main() {
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{}) // TiKV's client writes to the terminal
	os.Exit(command.Main(os.Args[1:]))
}
