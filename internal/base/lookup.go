package base

// Lookup is one key of a group that is looked up together, and what has been found out
// about it.
type Lookup struct {
	Key  []byte // ordered form
	Hash uint64 // Hash of Key
	// Index is the owner's number of the key. Nobody else looks at it.
	Index uint32
	// Done reports that the search is over: with a version of the key, which Kind, Seq,
	// Expiry and Value describe, if Found, else with nothing.
	Done, Found bool

	Kind   Kind
	Seq    SeqNum
	Expiry int64
	Value  []byte // immutable, stays valid as long as it is referenced
	// Cover is the newest range tombstone over the key that was met.
	Cover SeqNum
}

// Set ends the search with a version of the key.
func (l *Lookup) Set(e *Entry) {
	l.Kind, l.Seq, l.Expiry, l.Value = e.Kind, e.Seq, e.Expiry, e.Value
	l.Done, l.Found = true, true
}

// Live is Entry.Live for the version that was found; false if there is none.
func (l *Lookup) Live(nowMs int64) bool {
	return l.Found && (l.Kind == KindPut || (l.Kind == KindPutTTL && nowMs < l.Expiry))
}
