package engine

import (
	"runtime"
	"testing"
	"weak"
)

// A closed database is garbage although merges of it that failed were to be tried again in a
// minute.
func TestRetriesDoNotKeepAClosedDatabase(t *testing.T) {
	db := openToClose(t)
	for stripe := range uint8(4) {
		for range 12 { // up to the longest pause
			db.sched.retryLater(stripe, ErrDiskFull)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	gone := weak.Make(db)
	db = nil
	for range 20 { // what finalizers hold needs more than one cycle
		runtime.GC()
		if gone.Value() == nil {
			return
		}
	}
	t.Error("the database is still in memory")
}
