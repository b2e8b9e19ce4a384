package history

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
)

// Position is a place in a change stream: the change that comes next. The zero Position is that
// of the first commit.
type Position struct {
	Version uint64 // of the commit of the next change
	Index   int    // of the change in it; if it has no more, the next is the first of the next
	// History identifies the history of the database up to the change before. 0 is not checked.
	History uint64
}

// String returns the position as ParsePosition takes it: VERSION, VERSION.INDEX or
// VERSION.INDEX@HISTORY.
func (p Position) String() string {
	switch {
	case p.History != 0:
		return fmt.Sprintf("%d.%d@%016x", p.Version, p.Index, p.History)
	case p.Index != 0:
		return fmt.Sprintf("%d.%d", p.Version, p.Index)
	}
	return strconv.FormatUint(p.Version, 10)
}

// ParsePosition is the inverse of Position.String.
func ParsePosition(text string) (p Position, err error) {
	place, history, checked := strings.Cut(text, "@")
	version, index, indexed := strings.Cut(place, ".")
	var errs [3]error
	p.Version, errs[0] = strconv.ParseUint(version, 10, 64)
	if indexed {
		p.Index, errs[1] = strconv.Atoi(index)
	}
	if checked {
		p.History, errs[2] = strconv.ParseUint(history, 16, 64)
	}
	if err = errors.Join(errs[:]...); err != nil || p.check() != nil {
		return Position{}, fmt.Errorf("position %q: want VERSION, VERSION.INDEX or "+
			"VERSION.INDEX@HISTORY, as in 4711.0@1f2e3d4c5b6a7988", text)
	}
	return p, nil
}

// check returns why no place is there or ever will be, and nothing may be stored that says so.
func (p Position) check() error {
	if p.Index < 0 || p.Version > uint64(base.MaxSeqNum) {
		return fmt.Errorf("%w: position %d.%d", kv.ErrInvalid, p.Version, p.Index)
	}
	return nil
}

// proof returns the commit that the history of the position is about: the one of the change
// before.
func (p Position) proof() base.SeqNum {
	if p.Index > 0 {
		return base.SeqNum(p.Version)
	}
	return base.SeqNum(max(p.Version, 1) - 1)
}

// before reports whether p is an earlier place than q.
func (p Position) before(q Position) bool {
	return p.Version < q.Version || p.Version == q.Version && p.Index < q.Index
}

// ErrGone is matched by a *GoneError.
var ErrGone = errors.New("engine: these changes are not retained")

// GoneError reports that changes from a position on are not available: they are not retained any
// more, or belong to another history of the database, which went on from an older copy. It matches
// ErrGone. What helps is a copy of the present, and the changes from there on.
type GoneError struct {
	Position Position
	Oldest   uint64 // version of the oldest commit whose changes are retained
	Newest   uint64 // version of the newest commit
	Other    bool   // the position is one of another history
}

// Error implements error.
func (e *GoneError) Error() string {
	why := "is not retained any more"
	if e.Other {
		why = "is one of another history of the database"
	}
	return fmt.Sprintf("engine: position %s %s: changes are retained from version %d to %d; "+
		"begin again with DB.SnapshotChanges", e.Position, why, e.Oldest, e.Newest)
}

// Is makes errors.Is(err, ErrGone) true.
func (e *GoneError) Is(target error) bool { return target == ErrGone }
