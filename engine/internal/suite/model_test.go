package suite_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// item is what an item should be. Its version is known once it has been seen; an item is never
// changed otherwise, and common to all states that have it.
type item struct {
	key     engine.Key
	value   []byte
	expiry  int64
	version uint64
}

// items is the model of a database: items by ordered key, also expired ones.
type items map[string]*item

func id(k engine.Key) string { return string(keycodec.AppendOrdered(nil, k)) }

// at returns the item of a key, or nil if there is none at that time.
func (m items) at(k engine.Key, now int64) *item {
	if it := m[id(k)]; it.live(now) {
		return it
	}
	return nil
}

func (it *item) live(now int64) bool { return it != nil && (it.expiry == 0 || now < it.expiry) }

// sorted returns the live items that a predicate accepts, nil accepting all, in key order.
func (m items) sorted(now int64, match func(engine.Key) bool) (out []*item) {
	for _, it := range m {
		if it.live(now) && (match == nil || match(it.key)) {
			out = append(out, it)
		}
	}
	slices.SortFunc(out, func(a, b *item) int { return compareKeys(a.key, b.key) })
	return out
}

// equal reports whether two states look the same at that time.
func (m items) equal(other items, now int64) bool { return m.difference(other, now, 1) == "" }

// difference describes up to most differences of what should be there and what is.
func (m items) difference(found items, now int64, most int) string {
	var words []string
	for k, it := range m {
		switch at := found[k]; {
		case !it.live(now) || len(words) == most:
		case !at.live(now):
			words = append(words, fmt.Sprintf("%v is missing", shown(it.key)))
		case !bytes.Equal(at.value, it.value) || at.expiry != it.expiry:
			words = append(words, fmt.Sprintf("%v is %.12q until %d, not %.12q until %d",
				shown(it.key), at.value, at.expiry, it.value, it.expiry))
		}
	}
	for k, it := range found {
		if it.live(now) && !m[k].live(now) && len(words) < most {
			words = append(words, fmt.Sprintf("%v is too many", shown(it.key)))
		}
	}
	return strings.Join(words, "; ")
}

// state is the states of a database after every number of commits, from none on. The states up to
// some number are shared between all holders.
type states []items

// find returns the highest number of commits of [lo, hi] whose state looks like the one found.
func (s states) find(found items, now int64, lo, hi int) (m int, ok bool) {
	for m = hi; m >= lo; m-- {
		if s[m].equal(found, now) {
			return m, true
		}
	}
	return 0, false
}

// explain reports the number of commits that comes closest to what was found.
func (s states) explain(found items, now int64, lo, hi int) string {
	if m, ok := s.find(found, now, 0, len(s)-1); ok {
		return fmt.Sprintf("found the first %d commits, want %d to %d", m, lo, hi)
	}
	closest, words := 0, ""
	for m := range s {
		diff := s[m].difference(found, now, 100)
		if n := strings.Count(diff, ";"); m == 0 || n <= closest {
			closest, words = n, fmt.Sprintf("first %d commits but %s", m, diff)
		}
	}
	return fmt.Sprintf("no prefix of %d to %d commits; closest: %.500s", lo, hi, words)
}

// write is a write with what its arguments stand for when it is done.
type write struct {
	*op
	key    engine.Key
	value  []byte
	expiry int64
	option engine.ItemOption
	match  func(engine.Key) bool
	cond   condition
}

// condition is what a write requires of an item.
type condition struct {
	there, equal bool
	value        []byte
	version      uint64
	unconditional,
	never bool
}

// conditions are the words of op.If. Fits stands for one that holds.
var conditions = []string{
	"fits", "fits", "fits", "absent", "present", "same", "version", "other", "never",
}

// condition returns what op.If means for what is known of an item, nil for nothing there.
func (o *op) condition(it *item) condition {
	switch {
	case o.If == "":
		return condition{unconditional: true}
	case o.If == "absent", o.If == "fits" && it == nil:
		return condition{}
	case o.If == "never":
		return condition{there: true, version: 1 << 50, never: true}
	case o.If == "other":
		return condition{there: true, equal: true, value: []byte("something else")}
	case o.If == "present", it == nil:
		return condition{there: true}
	case it.version > 0 && (o.If == "version" || o.If == "fits" && o.Bytes%2 == 0):
		return condition{there: true, equal: true, value: it.value, version: it.version}
	}
	return condition{there: true, equal: true, value: it.value}
}

// holds reports whether it does for an item, nil for nothing there.
func (c condition) holds(it *item) bool {
	switch {
	case c.unconditional:
		return true
	case it == nil || !c.there:
		return c.there == (it != nil)
	}
	return !c.never && (!c.equal || bytes.Equal(it.value, c.value))
}

func (c condition) of() engine.Condition {
	switch {
	case !c.there:
		return engine.IfAbsent()
	case c.version > 0:
		return engine.IfVersion(c.version)
	case c.equal:
		return engine.IfValue(c.value)
	}
	return engine.IfPresent()
}

// writeOf resolves an operation; name makes its value like no other.
func writeOf(o *op, name string, now int64, seen func(engine.Key) *item) write {
	w := write{op: o, match: o.selects()}
	if o.Kind == "delete-range" || o.Kind == "delete-scan" {
		w.cond.unconditional = true
		return w
	}
	w.key = keyOf(o.Key)
	w.option, w.expiry = o.ttl(now)
	w.cond = o.condition(seen(w.key))
	if !o.Empty {
		fill := "abcdefghijklmnopqrstuvwxyz"[len(name)%26:][:1]
		w.value = []byte(name + " " + strings.Repeat(fill, o.Bytes))
	}
	return w
}

// apply does a write, whose condition holds.
func (m items) apply(w *write) {
	switch w.Kind {
	case "put":
		m[id(w.key)] = &item{key: w.key, value: w.value, expiry: w.expiry}
	case "delete", "delete-range", "delete-scan":
		maps.DeleteFunc(m, func(_ string, it *item) bool { return w.match(it.key) })
	}
}

// applyBatch does writes whose conditions are about the state before all of them. It returns the
// number of the first that does not hold, or -1; then nothing is done.
func (m items) applyBatch(ws []write, now int64) int {
	for i := range ws {
		if !ws[i].cond.holds(m.at(ws[i].key, now)) {
			return i
		}
	}
	for i := range ws {
		m.apply(&ws[i])
	}
	return -1
}

// want returns the items that a sequence should return.
func (o *op) want(m items, now int64) []*item {
	out := m.sorted(now, o.selects())
	out = slices.DeleteFunc(out, func(it *item) bool {
		return o.filters() && !keeps(it.value) || o.base != nil && o.base.items[id(it.key)] == it
	})
	slices.SortFunc(out, func(a, b *item) int { return o.compareItems(a.key, b.key) })
	if o.limits() && !o.paged() {
		out = out[:min(o.Limit, len(out))]
	}
	return out
}

// filters and limits report whether an operation has a filter and a limit.
func (o *op) filters() bool {
	return o.Filter && (o.Kind == "query" || o.Kind == "scan" || o.Kind == "gather")
}

func (o *op) limits() bool {
	return o.Limit > 0 && (o.Kind == "query" || o.Kind == "scan" || o.Kind == "gather")
}

// paged reports whether a sequence is read in pages.
func (o *op) paged() bool { return o.Pages && o.limits() }

// keeps is the filter of all sequences.
func keeps(value []byte) bool { return len(value)%2 == 0 }

// shown returns what a failure shows of an argument: of a long key its ends.
func shown(k engine.Key) string {
	ends := func(b []byte) string {
		if len(b) <= 40 {
			return fmt.Sprintf("%q", b)
		}
		return fmt.Sprintf("%q..%q (%d bytes)", b[:8], b[len(b)-4:], len(b))
	}
	if k.SK == nil {
		return ends(k.PK)
	}
	return ends(k.PK) + "/" + ends(k.SK)
}
