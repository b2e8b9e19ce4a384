package large

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// stale is a database that keeps the first values only.
type stale struct{ store.Store }

func (s stale) Put(k store.Key, value []byte) error {
	_, err := s.PutIfAbsent(k, value)
	return err
}

// TestOldValuesAreNoticed where they have been overwritten.
func TestOldValuesAreNoticed(t *testing.T) {
	e, err := store.Find("goleveldb")
	if err != nil {
		t.Fatal(err)
	}
	db, err := e.Open(store.Config{Dir: t.TempDir(), WriteBufferBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b := bench{db: stale{db}, values: dataset.NewValues(100), n: 10, versions: make([]uint32, 10)}
	at := func(i uint64) uint64 { return i }
	for version, want := range []string{"", "is in version 0, want 1"} {
		err := b.write(t.Context(), result.Figures{}, "w", "r", 10, uint32(version), at)
		if err == nil {
			err = b.get(t.Context(), 10, 1)
		}
		if want == "" && err != nil || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("version %d: error %v", version, err)
		}
	}
}
