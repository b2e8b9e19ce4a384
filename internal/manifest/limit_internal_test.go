package manifest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

var ok, wantIs = testutil.OK, testutil.WantIs

// A manifest is never longer than its readers accept. The commit that would make it so is
// refused, changes nothing and is no failure: later ones that fit are done, and one that
// makes the state small again is, too.
func TestManifestKeepsToItsLimit(t *testing.T) {
	defer func(n int64) { maxManifestBytes = n }(maxManifestBytes)
	maxManifestBytes = 64 << 10
	fsys := vfs.NewMem()
	ok(t, fsys.MkdirAll("db"))
	l, err := Create(fsys, "db", seedState())
	ok(t, err)
	id := uint64(100)
	add := func(keyBytes int) error {
		id++
		key := bytes.Repeat([]byte("k"), keyBytes)
		run := &Run{ID: id, Files: []*base.FileMeta{{
			Num: base.FileNum(id), Stripe: 7, Entries: 1, Smallest: key, Largest: key, MaxSeq: 1,
		}}}
		_, err := l.Commit(&Edit{
			NextFile: base.FileNum(id + 1), NextRun: id + 1,
			Stripes: []StripeEdit{{Stripe: 7, Add: []*Run{run}}},
		})
		return err
	}
	check := func(what string) {
		t.Helper()
		_, in, err := Open(fsys, "db")
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		want, got := len(l.State().Stripes[7].Runs), len(in.Stripes[7].Runs)
		if got != want {
			t.Fatalf("%s: %d runs are read, want %d", what, got, want)
		}
	}
	refused := 0
	for _, n := range []int{15000, 10000, 1000, 100, 10, 1} {
		for range 100 {
			if err = add(n); err != nil {
				break
			}
			check("after an edit")
		}
		if !errors.Is(err, base.ErrLimit) || errors.Is(err, ErrUncertain) || l.Err() != nil {
			t.Fatalf("keys of %d bytes: %v, later %v", n, err, l.Err())
		}
		refused++
		check("after a refusal")
	}
	var remove []uint64
	for _, r := range l.State().Stripes[7].Runs {
		remove = append(remove, r.ID)
	}
	if _, err := l.Commit(&Edit{Stripes: []StripeEdit{{Stripe: 7, Remove: remove}}}); err != nil {
		t.Fatalf("after %d refusals a state that fits is refused: %v", refused, err)
	}
	check("after everything was removed")
	ok(t, add(1000))
	check("at the end")
}

// A manifest may be exactly as long as its readers accept, by its snapshot or by an edit, and
// not one byte longer.
func TestManifestOfExactlyTheLimit(t *testing.T) {
	defer func(n int64) { maxManifestBytes = n }(maxManifestBytes)
	key := bytes.Repeat([]byte("k"), 10_000) // more than the snapshot: no rewrite comes first
	edit := &Edit{NextFile: 101, NextRun: 101, Stripes: []StripeEdit{{Stripe: 7, Add: []*Run{{
		ID: 100, Files: []*base.FileMeta{{
			Num: 100, Stripe: 7, Entries: 1, Smallest: key, Largest: key, MaxSeq: 1,
		}},
	}}}}}
	// write makes a database with a number of edits and returns the length of its manifest.
	write := func(edits int) (int64, vfs.FS, error) {
		fsys := vfs.NewMem()
		ok(t, fsys.MkdirAll("db"))
		l, err := Create(fsys, "db", seedState())
		for range edits {
			if err == nil {
				_, err = l.Commit(edit)
			}
		}
		if l == nil {
			return 0, fsys, err
		}
		info, serr := fsys.Stat("db/" + Name(firstManifest))
		return info.SizeBytes, fsys, errors.Join(err, serr, l.Close())
	}
	for edits := range 2 {
		maxManifestBytes = 1 << 20
		size, _, err := write(edits)
		ok(t, err)
		maxManifestBytes = size
		_, fsys, err := write(edits)
		if err != nil {
			t.Errorf("%d edits, %d bytes: %v", edits, size, err)
		}
		if _, _, err := Load(fsys, "db"); err != nil {
			t.Errorf("%d edits are not read: %v", edits, err)
		}
		maxManifestBytes--
		if _, _, err := Load(fsys, "db"); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%d edits, one byte above the limit, are read: %v", edits, err)
		}
		if _, _, err := write(edits); !errors.Is(err, base.ErrLimit) {
			t.Errorf("%d edits, one byte above the limit: %v", edits, err)
		}
	}
}

// A manifest with a large snapshot is rewritten when it is longer than half of what is read, so
// that edits have the other half.
func TestRewriteAtHalfOfTheLimit(t *testing.T) {
	defer func(n int64) { maxManifestBytes = n }(maxManifestBytes)
	maxManifestBytes = 64 << 10
	for over := range int64(2) {
		fsys := vfs.NewMem()
		ok(t, fsys.MkdirAll("db"))
		s := seedState()
		s.Settings = make([]byte, 10_000)
		l, err := Create(fsys, "db", s)
		ok(t, err)
		first := make([]byte, 1000)
		_, err = l.Commit(&Edit{Settings: first})
		rest := maxManifestBytes/2 + over - l.end
		if err == nil { // an edit of settings has 27 bytes beside them
			_, err = l.Commit(&Edit{Settings: make([]byte, rest-27)})
		}
		if err != nil || l.end != maxManifestBytes/2+over {
			t.Fatalf("%d bytes: %v", l.end, err)
		}
		if _, err := l.Commit(&Edit{}); err != nil || int64(l.Manifest()) != 1+over {
			t.Errorf("%d bytes above the half: manifest %d, %v", over, l.Manifest(), err)
		}
		ok(t, l.Close())
	}
}
