package cli

import (
	"context"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/store"
)

// withStores is the program that has the back ends for stores on other machines.
const withStores = "kstone-cli-stores"

// IsURL reports whether a database is named by a URL, SCHEME://…, and not by a directory.
func IsURL(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && scheme != "" && scheme != "file" && !strings.ContainsAny(scheme, `/\.`)
}

// engineOnly is the error of a command that cannot do without the engine.
func engineOnly(name string) error {
	return Usage("%s is not a directory, and only a database in a directory has items by key, "+
		"files and stripes", Shown(name)).WithHint("a URL is taken by sql, table, index, " +
		"dump, copy and shell, and by import, export, scan and count with --table")
}

// openURL opens a store on other machines.
func (a *App) openURL(name string) (*Database, error) {
	if len(a.Set) > 0 {
		return nil, Usage("--set is about the files of a directory, and %s has none", Shown(name)).
			WithHint("leave it out")
	}
	scheme, _, _ := strings.Cut(name, "://")
	if !slices.Contains(store.Schemes(), scheme) {
		e := Usage("this program has no back end for %s://", scheme)
		if slices.Contains([]string{"tikv", "etcd", "postgres", "postgresql"}, scheme) {
			return nil, e.WithHint("%s has it: see docs/stores.md", withStores)
		}
		return nil, e.WithHint("a database is a directory, or a URL with tikv://, etcd:// or " +
			"postgres://")
	}
	start := time.Now()
	s, err := store.Open(a.untilStopped(), name)
	a.opened += time.Since(start)
	if err != nil {
		return nil, err
	}
	return &Database{Path: name, remote: s}, nil
}

// Destination opens what ship and restore name: a directory, or a URL of an object store.
func Destination(ctx context.Context, name string) (ship.Destination, error) {
	scheme, _, isURL := strings.Cut(name, "://")
	if isURL && scheme != "file" && !slices.Contains(ship.Schemes(), scheme) {
		e := Usage("this program ships to no %s://", scheme)
		if scheme == "s3" {
			return nil, e.WithHint("%s does: see docs/stores.md", withStores)
		}
		return nil, e.WithHint("a destination is a directory, or s3://BUCKET/PREFIX")
	}
	return ship.OpenDestination(ctx, name)
}

// secrets match the passwords of URLs in a text: those of users, up to the last @ of a word, also
// where that is no valid URL, and those among the parameters. A port is none.
var secrets = [...]*regexp.Regexp{
	regexp.MustCompile(`(://[^\s:/?#@"']*:)(?:[^\s"'/]*[^\s"'/\d][^\s"']*|\d+)(@)`),
	regexp.MustCompile(`(?i)([?&]password=)[^\s&"']+()`),
}

// Shown returns a text, the name of a database or an error, without the passwords of URLs.
func Shown(text string) string {
	for _, secret := range secrets {
		text = secret.ReplaceAllString(text, "${1}xxxxx$2")
	}
	return text
}

// ShortName returns the last part of a database's name, for prompts.
func (d *Database) ShortName() string {
	if d.DB != nil {
		return strings.TrimSuffix(filepath.Base(d.Path), ".db")
	}
	scheme, rest, _ := strings.Cut(d.Path, "://")
	if u, err := url.Parse(d.Path); err == nil {
		rest = u.Path
	}
	return scheme + ":" + strings.Trim(path.Base("/"+rest), "/")
}
