package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/kstonedb/kstone/engine/store"
)

// What a server refuses has not been written, whatever language its messages are in; after the end
// of the connection that is not known.
func TestOutcomeInAnyLanguage(t *testing.T) {
	for severity, unknown := range map[string]bool{"ERROR": false, "FATAL": true} {
		for _, local := range []string{severity, "FEHLER"} {
			err := outcome(context.Background(), "commit", &pgconn.PgError{Severity: local,
				SeverityUnlocalized: severity, Code: "40001"}, true)
			if errors.Is(err, store.ErrUnknown) != unknown || !errors.Is(err, store.ErrConflict) {
				t.Errorf("%s, %s: %v", severity, local, err)
			}
		}
	}
	old := &pgconn.PgError{Severity: "ERROR", Code: "53100"} // of a server before 9.6
	if err := outcome(context.Background(), "commit", old, true); errors.Is(err, store.ErrUnknown) {
		t.Error(err)
	}
}
