// Package shiptest checks that a ship.Destination keeps the promises of the interface, and that
// what is shipped to it under faults is restored.
package shiptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine/ship"
)

var ctx = context.Background()

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantIs(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want one that matches %q", err, target)
	}
}

// Check is one promise of ship.Destination. Run wants an empty destination.
type Check struct {
	Name string
	Run  func(testing.TB, ship.Destination)
}

// Checks returns what every destination must pass.
func Checks() []Check {
	return []Check{
		{"Objects", checkObjects},
		{"Ranges", checkRanges},
		{"Lists", checkLists},
		{"Sizes", checkSizes},
		{"OneWinner", checkOneWinner},
		{"Contexts", checkContexts},
	}
}

func put(d ship.Destination, name string, content []byte) error {
	return d.Put(ctx, name, bytes.NewReader(content), int64(len(content)))
}

func get(d ship.Destination, name string, off, n int64) ([]byte, error) {
	r, err := d.Get(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

func wantObject(t testing.TB, d ship.Destination, name string, want []byte) {
	t.Helper()
	got, err := get(d, name, 0, -1)
	ok(t, err)
	if !bytes.Equal(got, want) {
		t.Fatalf("%s has %d bytes %.40q, want %d bytes %.40q", name, len(got), got, len(want), want)
	}
	info, err := d.Head(ctx, name)
	ok(t, err)
	if info.Name != name || info.SizeBytes != int64(len(want)) {
		t.Fatalf("head of %s is %+v, want %d bytes", name, info, len(want))
	}
}

// checkObjects wants objects to come, to stay as they are, and to go.
func checkObjects(t testing.TB, d ship.Destination) {
	const name = "log/0000000001"
	absent := func() {
		t.Helper()
		_, err := get(d, name, 0, -1)
		wantIs(t, err, fs.ErrNotExist)
		_, err = get(d, name, 0, 0)
		wantIs(t, err, fs.ErrNotExist)
		_, err = d.Head(ctx, name)
		wantIs(t, err, fs.ErrNotExist)
		ok(t, d.Delete(ctx, name))
	}
	absent()
	ok(t, put(d, name, []byte("one")))
	wantIs(t, put(d, name, []byte("two")), fs.ErrExist)
	wantIs(t, put(d, name, []byte("one")), fs.ErrExist) // another call, if the same content
	wantObject(t, d, name, []byte("one"))
	ok(t, d.Delete(ctx, name))
	absent()
	ok(t, put(d, name, []byte("three")))
	wantObject(t, d, name, []byte("three"))
}

// checkRanges wants the bytes that were asked for, as far as there are.
func checkRanges(t testing.TB, d ship.Destination) {
	const name, content = "sst/00", "0123456789"
	ok(t, put(d, name, []byte(content)))
	for off := range int64(len(content) + 2) {
		for n := int64(-1); n < 12; n++ {
			from, to := min(off, 10), int64(10)
			if n >= 0 {
				to = min(from+n, 10)
			}
			got, err := get(d, name, off, n)
			ok(t, err)
			if want := content[from:to]; string(got) != want {
				t.Fatalf("%d bytes from %d on are %q, want %q", n, off, got, want)
			}
		}
	}
}

// checkLists wants exactly what begins so, in order, however much there is.
func checkLists(t testing.TB, d ship.Destination) {
	const objects = 1050 // more than a page of an object store
	var all []string
	for i := range objects {
		all = append(all, fmt.Sprintf("log/%010d", i))
	}
	var wg sync.WaitGroup
	for part := range slices.Chunk(all, objects/8) {
		wg.Go(func() {
			for _, name := range part {
				if err := put(d, name, []byte(name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	ok(t, put(d, "logs", nil))
	ok(t, put(d, "destination", []byte("x")))
	for prefix, want := range map[string][]string{
		"log/":           all,
		"log/0000000":    all[:1000],
		"log/00000010":   all[1000:],
		"log/0000000007": {all[7]},
		"dest":           {"destination"},
		"sst/":           nil,
		"none/log/":      nil,
	} {
		infos, err := d.List(ctx, prefix)
		ok(t, err)
		var names []string
		for _, info := range infos {
			names = append(names, info.Name)
			if info.Name[:3] == "log" && info.SizeBytes != 14 {
				t.Fatalf("listed %+v", info)
			}
		}
		if !slices.Equal(names, want) {
			t.Fatalf("list of %q has %d names %.100q, want %d", prefix, len(names), names,
				len(want))
		}
	}
}

// checkSizes wants objects of any size whole.
func checkSizes(t testing.TB, d ship.Destination) {
	for _, size := range []int{0, 1, 1<<20 - 1, 20 << 20} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(i * i >> 7)
		}
		name := fmt.Sprintf("sst/%d", size)
		ok(t, put(d, name, content))
		wantObject(t, d, name, content)
	}
}

// checkOneWinner wants one of several puts of a name to succeed, and its content to stay.
func checkOneWinner(t testing.TB, d ship.Destination) {
	for round := range 20 {
		name := fmt.Sprintf("epoch/%d", round)
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = put(d, name, fmt.Append(nil, "content of ", i)) })
		}
		wg.Wait()
		won := slices.Index(errs, nil)
		for i, err := range errs {
			if i != won {
				wantIs(t, err, fs.ErrExist)
			}
		}
		wantObject(t, d, name, fmt.Append(nil, "content of ", won))
	}
}

// checkContexts wants calls to end with the cause of their context.
func checkContexts(t testing.TB, d ship.Destination) {
	ok(t, put(d, "log/1", []byte("x")))
	cause := errors.New("enough")
	ended, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	wantIs(t, d.Put(ended, "log/2", bytes.NewReader([]byte("x")), 1), cause)
	r, err := d.Get(ended, "log/1", 0, -1)
	if err == nil {
		_, err = io.ReadAll(r)
		ok(t, r.Close())
	}
	wantIs(t, err, cause)
	_, err = d.List(ended, "log/")
	wantIs(t, err, cause)
}
