package migrate

import (
	"context"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
)

// migrateTables copies tables: no program has a reader of any yet.
func migrateTables(context.Context, *cli.App, *flags, Tables, string) error {
	return cli.Usage("migrate: tables are not copied yet")
}
