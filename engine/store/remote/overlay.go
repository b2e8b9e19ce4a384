package remote

import (
	"bytes"
	"slices"
	"sort"
)

// overlay is what a transaction has written, newest state first of all reads.
type overlay struct {
	entries map[string]*ownEntry
	keys    []string // of entries, in order if they are sorted
	sorted  bool
	live    int // entries that are there,
	bytes   int // and their bytes
	undo    []undone
}

// ownEntry is a write. After a rollback to a savepoint it may be there no more.
type ownEntry struct {
	there bool
	value []byte // encoded; nil removes the key
}

// undone is what an entry was before a write.
type undone struct {
	key    string
	before ownEntry
}

// find returns the value that the transaction has written, nil if it has removed the key.
func (o *overlay) find(key []byte) (value []byte, ok bool) {
	e := o.entries[string(key)]
	if e == nil || !e.there {
		return nil, false
	}
	return e.value, true
}

// write adds a write.
func (o *overlay) write(w Write) {
	key := string(w.Key)
	e := o.entries[key]
	if e == nil {
		if o.entries == nil {
			o.entries = map[string]*ownEntry{}
		}
		e = &ownEntry{}
		o.entries[key] = e
		o.keys, o.sorted = append(o.keys, key), false
	}
	o.undo = append(o.undo, undone{key, *e})
	o.set(key, e, ownEntry{true, w.Value})
}

func (o *overlay) set(key string, e *ownEntry, to ownEntry) {
	if e.there {
		o.live--
		o.bytes -= len(key) + len(e.value)
	}
	if to.there {
		o.live++
		o.bytes += len(key) + len(to.value)
	}
	*e = to
}

// rollback takes back all writes but the first n.
func (o *overlay) rollback(n int) {
	for i := len(o.undo) - 1; i >= n; i-- {
		u := &o.undo[i]
		o.set(u.key, o.entries[u.key], u.before)
	}
	clear(o.undo[n:])
	o.undo = o.undo[:n]
}

// between returns the keys of entries from start on and before end, in order. Some of them may not
// be there.
func (o *overlay) between(start, end []byte) []string {
	if !o.sorted {
		slices.Sort(o.keys)
		o.sorted = true
	}
	from := sort.SearchStrings(o.keys, string(start))
	return o.keys[from : from+sort.SearchStrings(o.keys[from:], string(end))]
}

// over returns the pairs that a span has, all of which are given, with the writes on top.
func (o *overlay) over(pairs []Pair, span *Span) []Pair {
	keys := o.between(span.Start, span.End)
	if len(keys) == 0 {
		return pairs
	}
	if span.Reverse {
		keys = slices.Clone(keys)
		slices.Reverse(keys)
	}
	out := make([]Pair, 0, len(pairs)+len(keys))
	for _, k := range keys {
		e := o.entries[k]
		if !e.there {
			continue
		}
		key := []byte(k)
		for len(pairs) > 0 {
			c := bytes.Compare(pairs[0].Key, key)
			if span.Reverse {
				c = -c
			}
			if c > 0 {
				break
			}
			if c < 0 {
				out = append(out, pairs[0])
			}
			pairs = pairs[1:]
		}
		if e.value != nil {
			out = append(out, Pair{Key: key, Value: e.value})
		}
	}
	return append(out, pairs...)
}

// writes returns all writes, in the order of their keys.
func (o *overlay) writes() []Write {
	if !o.sorted {
		slices.Sort(o.keys)
		o.sorted = true
	}
	out := make([]Write, 0, o.live)
	for _, k := range o.keys {
		if e := o.entries[k]; e.there {
			out = append(out, Write{Key: []byte(k), Value: e.value})
		}
	}
	return out
}
