package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
)

// What a writer of files refuses because no reader would accept it is an error of the flush
// or merge, and no failure for good.
func TestRefusedFilesAreNoFailureForGood(t *testing.T) {
	db := openToClose(t)
	err := db.abandon(fmt.Errorf("merge: %w", base.ErrLimit), nil)
	if !errors.Is(err, base.ErrLimit) || errors.Is(err, ErrReadOnly) {
		t.Errorf("error %v", err)
	}
	if err := db.Put(Key{PK: []byte("k")}, nil); err != nil {
		t.Errorf("put: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
