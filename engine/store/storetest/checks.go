package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kstonedb/kstone/engine/store"
)

// T is what the checks need of *testing.T.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Check is one promise of store.Store. Run wants an empty store.
type Check struct {
	Name string
	Run  func(T, store.Store)
}

// Checks returns what every implementation must pass. Their random numbers begin with seed.
func Checks(seed uint64) []Check {
	return append([]Check{
		{"Values", checkValues},
		{"MultiGet", checkMultiGet},
		{"Ranges", func(t T, s store.Store) { checkRanges(t, s, seed) }},
		{"BadRanges", checkBadRanges},
		{"Conditions", checkConditions},
		{"ConditionsAreAboutBefore", checkBefore},
		{"Versions", checkVersions},
		{"Expiry", checkExpiry},
		{"OneWinner", checkOneWinner},
		{"NoWriteSkew", checkNoWriteSkew},
		{"WholeCommits", checkWholeCommits},
		{"OneMoment", checkOneMoment},
		{"Snapshots", func(t T, s store.Store) { checkSnapshots(t, s, seed) }},
		{"Limits", checkLimits},
		{"Properties", checkProperties},
		{"Contexts", checkContexts},
	}, txChecks(seed)...)
}

var ctx = context.Background()

func key(pk, sk string) store.Key {
	k := store.Key{PK: []byte(pk)}
	if sk != "" {
		k.SK = []byte(sk)
	}
	return k
}

func ok(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

func wantIs(t T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want one that matches %q", err, target)
	}
}

// put commits one item.
func put(t T, s store.Writer, k store.Key, value string) {
	t.Helper()
	var w store.WriteSet
	w.Put(k, []byte(value))
	ok(t, s.Commit(ctx, &w))
}

// wantValue checks one key; absent stands for no item.
func wantValue(t T, r store.Reader, k store.Key, want string) {
	t.Helper()
	got, err := r.Get(ctx, []byte("prefix/"), k)
	if want == absent {
		wantIs(t, err, store.ErrNotFound)
		want = ""
	} else {
		ok(t, err)
	}
	if string(got) != "prefix/"+want {
		t.Fatalf("%s has %q after the prefix, want %q", k, got, want)
	}
}

const absent = "\x00absent"

func checkValues(t T, s store.Store) {
	a, b, bare := key("p", "a"), key("p", "b"), key("p", "")
	wantValue(t, s, a, absent)
	put(t, s, a, "1")
	put(t, s, bare, "")
	put(t, s, key("p\x00", "a"), "zero")
	wantValue(t, s, a, "1")
	wantValue(t, s, bare, "")
	wantValue(t, s, key("p\x00", "a"), "zero")
	if v, err := s.Get(ctx, nil, bare); v == nil || err != nil {
		t.Fatalf("an empty value is nil, %v", err)
	}
	var w store.WriteSet
	w.Put(a, []byte("2"))
	w.Put(b, []byte("3"))
	w.Delete(bare)
	w.Delete(key("p", "never"))
	ok(t, s.Commit(ctx, &w))
	wantValue(t, s, a, "2")
	wantValue(t, s, b, "3")
	wantValue(t, s, bare, absent)

	w.Reset() // of two writes of one key the later wins
	w.Put(a, []byte("4"))
	w.Delete(a)
	w.Delete(b)
	w.Put(b, []byte("5"))
	ok(t, s.Commit(ctx, &w))
	wantValue(t, s, a, absent)
	wantValue(t, s, b, "5")

	w.Reset()
	ok(t, s.Commit(ctx, &w)) // an empty set
	w.Put(store.Key{}, nil)
	if s.Commit(ctx, &w) == nil {
		t.Fatalf("an empty partition key was stored")
	}
	if _, err := s.Get(ctx, nil, store.Key{PK: []byte("p"), SK: []byte{}}); err == nil {
		t.Fatalf("an empty sort key was read")
	}
}

func checkMultiGet(t T, s store.Store) {
	for i := range 50 {
		put(t, s, key(fmt.Sprintf("p%d", i%7), fmt.Sprint(i)), fmt.Sprint("v", i))
	}
	var keys []store.Key
	var want []string
	for i := 98; i >= 0; i -= 3 {
		keys = append(keys, key(fmt.Sprintf("p%d", i%7), fmt.Sprint(i)))
		if i < 50 {
			want = append(want, fmt.Sprintf("%d=v%d", len(keys)-1, i))
		}
	}
	keys = append(keys, keys[len(keys)-1]) // once more
	want = append(want, fmt.Sprintf("%d=v2", len(keys)-1))
	var got []string
	ok(t, s.MultiGet(ctx, keys, func(i int, it store.Item) {
		if !bytes.Equal(it.Key.SK, keys[i].SK) || !bytes.Equal(it.Key.PK, keys[i].PK) {
			t.Errorf("item of key %d has key %s, want %s", i, it.Key, keys[i])
		}
		got = append(got, fmt.Sprintf("%d=%s", i, it.Value))
	}))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("found %v, want %v", got, want)
	}
	ok(t, s.MultiGet(ctx, nil, func(int, store.Item) { t.Errorf("found what nobody asked for") }))
	err := s.MultiGet(ctx, []store.Key{{}}, func(int, store.Item) {})
	if err == nil {
		t.Fatalf("an empty partition key was read")
	}
}

// failed checks that a commit has failed at an operation.
func failed(t T, err error, op int, k store.Key, exists bool) {
	t.Helper()
	wantIs(t, err, store.ErrConditionFailed)
	var ce *store.ConditionError
	if !errors.As(err, &ce) {
		t.Fatalf("the error is a %T", err)
	}
	if ce.Op != op || ce.Key.String() != k.String() || ce.Exists != exists {
		t.Fatalf("failed: operation %d, %s, exists %v; want %d, %s, %v", ce.Op, ce.Key, ce.Exists,
			op, k, exists)
	}
}

func checkConditions(t T, s store.Store) {
	there, missing := key("p", "there"), key("q", "missing")
	put(t, s, there, "v")
	cases := []struct {
		cond                     store.Condition
		holdsThere, holdsMissing bool
	}{
		{store.Absent(), false, true},
		{store.Present(), true, false},
		{store.ValueIs([]byte("v")), true, false},
		{store.ValueIs([]byte("w")), false, false},
		{store.ValueIs(nil), false, false},
	}
	n := 0
	for _, c := range cases {
		for _, target := range []store.Key{there, missing} {
			holds := c.holdsThere
			if target.String() == missing.String() {
				holds = c.holdsMissing
			}
			n++
			mark := key("mark", fmt.Sprint(n))
			var w store.WriteSet
			w.Put(mark, nil)
			w.Require(key("other", "x"), store.Absent())
			w.Require(target, c.cond)
			w.Put(key("mark2", fmt.Sprint(n)), nil)
			err := s.Commit(ctx, &w)
			if holds {
				ok(t, err)
				wantValue(t, s, mark, "")
				continue
			}
			failed(t, err, 2, target, target.String() == there.String())
			wantValue(t, s, mark, absent)
			wantValue(t, s, key("mark2", fmt.Sprint(n)), absent)
		}
	}
	checkSingleConditions(t, s)
}

// checkSingleConditions is about write sets of one operation.
func checkSingleConditions(t T, s store.Store) {
	k := key("single", "k")
	do := func(f func(w *store.WriteSet)) error {
		var w store.WriteSet
		f(&w)
		return s.Commit(ctx, &w)
	}
	failed(t, do(func(w *store.WriteSet) { w.PutIf(k, nil, store.Present()) }), 0, k, false)
	ok(t, do(func(w *store.WriteSet) { w.PutIf(k, []byte("1"), store.Absent()) }))
	failed(t, do(func(w *store.WriteSet) { w.PutIf(k, nil, store.Absent()) }), 0, k, true)
	ok(t, do(func(w *store.WriteSet) { w.PutIf(k, []byte("2"), store.ValueIs([]byte("1"))) }))
	failed(t, do(func(w *store.WriteSet) { w.DeleteIf(k, store.ValueIs([]byte("1"))) }), 0, k, true)
	wantValue(t, s, k, "2")
	ok(t, do(func(w *store.WriteSet) { w.Require(k, store.Present()) }))
	failed(t, do(func(w *store.WriteSet) { w.Require(k, store.Absent()) }), 0, k, true)
	ok(t, do(func(w *store.WriteSet) { w.DeleteIf(k, store.ValueIs([]byte("2"))) }))
	wantValue(t, s, k, absent)
	failed(t, do(func(w *store.WriteSet) { w.DeleteIf(k, store.Present()) }), 0, k, false)
}

// checkBefore: conditions do not see the writes of their own set, and the first that fails
// is reported.
func checkBefore(t T, s store.Store) {
	a, b := key("p", "a"), key("q", "b")
	put(t, s, a, "1")
	var w store.WriteSet
	w.Delete(a)
	w.PutIf(a, []byte("2"), store.ValueIs([]byte("1")))
	w.Put(b, []byte("new"))
	w.Require(b, store.Absent())
	ok(t, s.Commit(ctx, &w))
	wantValue(t, s, a, "2")
	wantValue(t, s, b, "new")

	w.Reset()
	w.Put(b, []byte("x"))
	for i := range 10 {
		w.PutIf(key("many", fmt.Sprint(i)), nil, store.Absent())
	}
	w.PutIf(a, nil, store.Absent()) // operation 11
	w.PutIf(b, nil, store.ValueIs([]byte("x")))
	failed(t, s.Commit(ctx, &w), 11, a, true)
	wantValue(t, s, b, "new")
	wantValue(t, s, key("many", "0"), absent)
}

func checkVersions(t T, s store.Store) {
	k := key("p", "k")
	put(t, s, k, "1")
	var w store.WriteSet
	w.PutIf(k, []byte("2"), store.VersionIs(1<<40))
	if s.Limits().NoVersions {
		wantIs(t, s.Commit(ctx, &w), store.ErrInvalid)
		return
	}
	failed(t, s.Commit(ctx, &w), 0, k, true)
	for i := range 5 {
		it, err := store.GetItem(ctx, s, k)
		ok(t, err)
		put(t, s, key("p", "other"), "")
		w.Reset()
		w.PutIf(k, fmt.Appendf(nil, "%d", i), store.VersionIs(it.Version))
		ok(t, s.Commit(ctx, &w))
		failed(t, s.Commit(ctx, &w), 0, k, true) // it is another version now
		wantValue(t, s, k, fmt.Sprint(i))
	}
	if _, err := store.GetItem(ctx, s, key("p", "none")); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("item of no key: %v", err)
	}
}

func checkExpiry(t T, s store.Store) {
	past, future := int64(1), int64(1)<<45 // in 1970 and in the 32nd century
	var w store.WriteSet
	w.Ops = append(w.Ops,
		store.Op{Key: key("p", "past"), Value: []byte("1"), Expiry: past},
		store.Op{Key: key("p", "future"), Value: []byte("2"), Expiry: future})
	put(t, s, key("p", "past"), "0")
	ok(t, s.Commit(ctx, &w))
	wantValue(t, s, key("p", "past"), absent)
	wantValue(t, s, key("p", "future"), "2")
	n := 0
	for it, err := range s.Scan(ctx, store.Partition([]byte("p"))) {
		ok(t, err)
		if n++; it.Expiry != future {
			t.Fatalf("%s expires at %d, want %d", it.Key, it.Expiry, future)
		}
	}
	if n != 1 {
		t.Fatalf("the scan has %d items, want 1", n)
	}
	w.Reset()
	w.PutIf(key("p", "past"), []byte("3"), store.Absent())
	ok(t, s.Commit(ctx, &w))
	wantValue(t, s, key("p", "past"), "3")
	w.Reset()
	w.Ops = append(w.Ops, store.Op{Kind: store.OpDelete, Key: key("p", "x"), Expiry: future})
	wantIs(t, s.Commit(ctx, &w), store.ErrInvalid)
}

// race runs f in n goroutines and waits for them.
func race(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// commit commits w, again and again while there are conflicts.
func commit(s store.Store, w *store.WriteSet) error {
	for {
		if err := s.Commit(ctx, w); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// checkOneWinner: of many callers that insert the same row with its index entry one succeeds, and
// entry and row are the winner's.
func checkOneWinner(t T, s store.Store) {
	for round := range 10 {
		row, errs := key("rows", fmt.Sprint(round)), make([]error, 16)
		race(16, func(i int) {
			var w store.WriteSet
			w.PutIf(row, fmt.Appendf(nil, "%d", i), store.Absent())
			w.Put(key(fmt.Sprintf("index/%d", round), fmt.Sprint(i)), nil)
			errs[i] = commit(s, &w)
		})
		winner := -1
		for i, err := range errs {
			if err == nil && winner >= 0 {
				t.Fatalf("both %d and %d have won", winner, i)
			}
			if err == nil {
				winner = i
				continue
			}
			failed(t, err, 0, row, true)
		}
		wantValue(t, s, row, fmt.Sprint(winner))
		for it, err := range s.Scan(ctx, store.Partition(fmt.Appendf(nil, "index/%d", round))) {
			ok(t, err)
			if string(it.Key.SK) != fmt.Sprint(winner) {
				t.Fatalf("there is an entry of %s, the winner is %d", it.Key.SK, winner)
			}
		}
	}
}

// checkNoWriteSkew: one of two commits succeeds if each requires that the key of the
// other is absent.
func checkNoWriteSkew(t T, s store.Store) {
	for round := range 50 {
		keys := [2]store.Key{key(fmt.Sprint("a", round), "x"), key(fmt.Sprint("b", round), "x")}
		var errs [2]error
		race(2, func(i int) {
			var w store.WriteSet
			w.Put(keys[i], nil)
			w.Require(keys[1-i], store.Absent())
			errs[i] = commit(s, &w)
		})
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: %v and %v, want one success", round, errs[0], errs[1])
		}
	}
}

// checkWholeCommits: readers see all of a commit or nothing.
func checkWholeCommits(t T, s store.Store) {
	const n = 8
	pks := make([][]byte, n)
	for i := range pks {
		pks[i] = fmt.Appendf(nil, "bucket/%d", i)
	}
	write := func(value int) error {
		var w store.WriteSet
		for i := range pks {
			w.Put(store.Key{PK: pks[i], SK: []byte("k")}, fmt.Appendf(nil, "%d", value))
		}
		return commit(s, &w)
	}
	ok(t, write(0))
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for v := 1; ; v++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := write(v); err != nil {
				t.Errorf("write %d: %v", v, err)
				return
			}
		}
	})
	defer writer.Wait()
	defer close(stop)
	for range 200 {
		var values []string
		for it, err := range s.Scan(ctx, store.Partitions(pks)) {
			ok(t, err)
			values = append(values, string(it.Value))
		}
		if len(values) != n {
			t.Fatalf("%d of %d items", len(values), n)
		}
		for _, v := range values {
			if v != values[0] {
				t.Fatalf("parts of several commits: %v", values)
			}
		}
	}
}

// checkOneMoment: a scan that takes long does not see what is committed meanwhile.
func checkOneMoment(t T, s store.Store) {
	const n, inCommit = 1000, 100
	for _, pk := range []string{"forward", "reverse"} {
		at := func(i int) store.Key { return key(pk, fmt.Sprintf("%04d", i)) }
		for i := 0; i < n; i += inCommit {
			var w store.WriteSet
			for j := range inCommit {
				w.Put(at(i+j), []byte("old"))
			}
			ok(t, s.Commit(ctx, &w))
		}
		r := store.Partition([]byte(pk))
		r.Reverse = pk == "reverse"
		seen := 0
		for it, err := range s.Scan(ctx, r) {
			ok(t, err)
			if string(it.Value) != "old" {
				t.Fatalf("%s was written after the scan had begun", it.Key)
			}
			if seen++; seen == 1 {
				var w store.WriteSet
				w.Put(at(0), []byte("new"))
				w.Delete(at(n / 2))
				w.Put(at(n-1), []byte("new"))
				ok(t, commit(s, &w))
			}
		}
		if seen != n {
			t.Fatalf("%d items, want %d", seen, n)
		}
	}
}

func checkLimits(t T, s store.Store) {
	l := s.Limits()
	var w store.WriteSet
	if l.KeyBytes > 0 {
		w.Put(store.Key{PK: []byte("p"), SK: bytes.Repeat([]byte("x"), l.KeyBytes+1)}, nil)
		wantIs(t, s.Commit(ctx, &w), store.ErrTooLarge)
		w.Reset()
		largest := store.Key{PK: []byte("p"), SK: bytes.Repeat([]byte("x"), l.KeyBytes)}
		w.Put(largest, []byte("1"))
		ok(t, s.Commit(ctx, &w))
		wantValue(t, s, largest, "1")
	}
	const testable = 100 << 20
	if l.ValueBytes > 0 && l.ValueBytes < testable {
		w.Reset()
		w.Put(key("p", "v"), make([]byte, l.ValueBytes+1))
		wantIs(t, s.Commit(ctx, &w), store.ErrTooLarge)
		wantValue(t, s, key("p", "v"), absent)
	}
	if l.CommitOps > 0 && l.CommitOps < 1<<20 {
		w.Reset()
		for i := range l.CommitOps {
			w.Put(key("ops", fmt.Sprint(i)), nil)
		}
		ok(t, s.Commit(ctx, &w))
		w.Put(key("ops", "more"), nil)
		wantIs(t, s.Commit(ctx, &w), store.ErrTooLarge)
	}
	if n := l.ValueBytes; n > 0 && l.CommitBytes > n && l.CommitBytes < testable {
		w.Reset()
		for i := 0; i <= l.CommitBytes; i += n {
			w.Put(key("bytes", fmt.Sprint(i)), make([]byte, n))
		}
		wantIs(t, s.Commit(ctx, &w), store.ErrTooLarge)
		wantValue(t, s, key("bytes", "0"), absent)
	}
}

func checkProperties(t T, s store.Store) {
	read := func(name string) string {
		v, there, err := s.Property(ctx, name)
		ok(t, err)
		return fmt.Sprintf("%s %v", v, there)
	}
	steps := []struct {
		value []byte
		want  string
	}{
		{[]byte("one"), "one true"}, {[]byte{}, " true"}, {[]byte("two"), "two true"},
		{nil, " false"},
	}
	if got := read("schema"); got != " false" {
		t.Fatalf("property is %q", got)
	}
	for _, step := range steps {
		ok(t, s.SetProperty(ctx, "schema", step.value))
		if got := read("schema"); got != step.want {
			t.Fatalf("property is %q, want %q", got, step.want)
		}
		if got := read("other"); got != " false" {
			t.Fatalf("the other property is %q", got)
		}
	}
	if n := s.Limits().PropertyBytes; n > 0 {
		wantIs(t, s.SetProperty(ctx, "large", make([]byte, n+1)), store.ErrTooLarge)
	}
	if s.SetProperty(ctx, "", nil) == nil {
		t.Fatalf("a property without name was stored")
	}
}

func checkContexts(t T, s store.Store) {
	put(t, s, key("p", "k"), "1")
	over, cancel := context.WithCancel(ctx)
	cancel()
	var w store.WriteSet
	w.Put(key("p", "k"), []byte("2"))
	wantIs(t, s.Commit(over, &w), context.Canceled)
	wantValue(t, s, key("p", "k"), "1")
	for _, r := range []store.Range{store.Interval(nil, nil), store.Partition([]byte("p"))} {
		n := 0
		for _, err := range s.Scan(over, r) {
			n++
			wantIs(t, err, context.Canceled)
		}
		if n != 1 {
			t.Fatalf("a scan that is canceled yields %d times, want one error", n)
		}
	}
}
