package kv

import "time"

// TxOptions are how a transaction begins.
type TxOptions struct {
	ReadOnly bool // it cannot write (ErrReadOnly), and never conflicts
	// MaxAge is how long a transaction may take; 0 is no limit. Then it is rolled back, whoever has
	// forgotten it: what it sees need not be kept any more. Its reads and writes and Commit fail
	// with ErrTxAge. Of View and Update, which end by themselves, it is ignored.
	MaxAge time.Duration
}

// Savepoint is a state of the writes of a transaction: a number of the store.
type Savepoint uint64
