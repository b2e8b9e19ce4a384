package store

import "github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"

// The harness is not a database: every call returns at once. What it "achieves" is the
// price of making keys and values, of the loop and of the clock, which is part of the
// processor time of every engine; reports show it beside them.
func init() {
	register(9, Engine{
		Name:     result.Harness,
		Version:  func() string { return "keeps nothing" },
		Unsynced: "nothing: it measures the cost of measuring",
		Void:     true,
		Open:     func(Config) (Store, error) { return harness{}, nil },
	})
}

type harness struct{ Store } // nobody reads

func (harness) Put(Key, []byte) error                 { return nil }
func (harness) PutBatch([]Key, [][]byte) error        { return nil }
func (harness) PutIfAbsent(Key, []byte) (bool, error) { return false, nil }
func (harness) Delete(Key) error                      { return nil }
func (harness) Flush() error                          { return nil }
func (harness) Close() error                          { return nil }
