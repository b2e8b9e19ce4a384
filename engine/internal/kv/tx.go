package kv

import "time"

// TxOptions are how a transaction begins.
type TxOptions struct {
	ReadOnly bool // it cannot write (ErrReadOnly), and never conflicts
	// MaxAge is how long a transaction may take; 0 is no limit. Then it is rolled back, so that one
	// that is never ended does not keep old versions for ever. Its reads, writes and Commit then
	// fail with ErrTxAge. View and Update, which end by themselves, ignore it.
	MaxAge time.Duration
}

// Savepoint is a state of the writes of a transaction: a number of the store.
type Savepoint uint64
