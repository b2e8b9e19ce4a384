package rowio

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// Sink takes the rows of a query, one after the other, in a form of its own, and reports
// whether more are wanted. What it is given is valid during the call.
type Sink interface {
	// Stored takes a row as it is stored by a definition of its table.
	Stored(def *schema.Table, key store.Key, value []byte) (more bool, err error)
	// Values takes the columns of the result.
	Values(row []expr.Value) (more bool, err error)
}

// Request is one execution of a prepared query.
type Request struct {
	Params []expr.Value
	Most   int64 // rows that are wanted of the query; 0: all
	Cut    bool  // that of plan.Physical.Key
	Sink   Sink
}

// Watcher takes note of the writes of rows, by the length-prefixed form of their keys.
type Watcher struct {
	Begin func(row string) // before a commit that writes the row
	End   func(row string) // when it has ended, one way or the other
}
