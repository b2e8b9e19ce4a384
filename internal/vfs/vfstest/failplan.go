package vfstest

import "sync/atomic"

// FailPlan fails the At-th operation on a file system; NewFault takes its Hook. A test runs its
// program with At = 1, 2, ... until Failed reports that there is no such operation.
//
// Why a single failure as well as a lasting one: if everything after the first failure fails,
// an error that is swallowed goes unnoticed, because a later operation reports another one.
type FailPlan struct {
	At      int64         // counted from 1; 0 fails nothing
	Err     error         // of the operation that fails
	Lasting bool          // every later operation fails, too
	Short   bool          // half of a write that fails is made
	Match   func(Op) bool // which operations count; nil means all

	count  atomic.Int64
	failed atomic.Pointer[Op]
}

// Hook counts an operation and returns the error if it is to fail.
func (p *FailPlan) Hook(op Op) error {
	if p.Match != nil && !p.Match(op) {
		return nil
	}
	n := p.count.Add(1)
	if p.At == 0 || n < p.At || n > p.At && !p.Lasting {
		return nil
	}
	if n == p.At {
		p.failed.Store(&op)
	}
	if p.Short && (op.Kind == OpWrite || op.Kind == OpWriteAt) {
		return &ShortWriteError{N: int(op.Len / 2), Err: p.Err}
	}
	return p.Err
}

// Count returns how many operations there have been.
func (p *FailPlan) Count() int64 { return p.count.Load() }

// Failed returns the At-th operation; ok is false if there have been fewer.
func (p *FailPlan) Failed() (op Op, ok bool) {
	if first := p.failed.Load(); first != nil {
		return *first, true
	}
	return Op{}, false
}
