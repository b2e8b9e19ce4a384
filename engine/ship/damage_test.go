package ship_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/ship/shiptest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// flipped is a destination with one byte of an object changed, or without the object.
type flipped struct {
	ship.Destination
	name string
	off  int64 // -1: the object is missing
}

func (f *flipped) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	r, err := f.Destination.Get(ctx, name, off, n)
	if err != nil || name != f.name {
		return r, err
	}
	b, err := io.ReadAll(r)
	if i := f.off - off; i >= 0 && i < int64(len(b)) {
		b[i] ^= 0x10
	}
	return io.NopCloser(bytes.NewReader(b)), errors.Join(err, r.Close())
}

func (f *flipped) List(ctx context.Context, prefix string) ([]ship.Info, error) {
	infos, err := f.Destination.List(ctx, prefix)
	return slices.DeleteFunc(infos, func(i ship.Info) bool {
		return f.off < 0 && i.Name == f.name
	}), err
}

func (f *flipped) Head(ctx context.Context, name string) (ship.Info, error) {
	if f.off < 0 && name == f.name {
		return ship.Info{}, fmt.Errorf("head %s: %w", name, io.ErrUnexpectedEOF)
	}
	return f.Destination.Head(ctx, name)
}

// A byte of an object is changed, anywhere, or the object is lost. Then restore returns an error,
// or what it restores is what the commit made: the last, unless its own object is damaged. List
// says what is wrong if less is restorable.
//
// Promise (shipping): Changed bytes and lost objects of a destination make errors, or are said by
// List, and never another state than one of the database, nor an earlier one in place of the last.
func TestDamagedObjects(t *testing.T) {
	h := newHarbor(t)
	for i := range 40 {
		h.last++
		ok(t, h.db.Put(engine.Key{PK: fmt.Append(nil, i)}, bytes.Repeat([]byte("v"), 500)))
	}
	s := h.start(ship.Options{BaseEvery: time.Millisecond})
	h.shipped(s)
	states := map[uint64]map[string]string{h.last: shiptest.Items(t, h.db)}
	for i := range 6 {
		h.put()
		h.shipped(s)
		states[h.last] = shiptest.Items(t, h.db)
		if i == 3 {
			h.now.Add(10)
			ok(t, s.Round(ctx)) // another base
		}
	}
	ok(t, s.Close(ctx))
	whole := h.contents()
	var all []ship.Info
	newest := "" // log object
	for _, prefix := range []string{"base/", "sst/", "log/"} {
		infos, err := h.dest.List(ctx, prefix)
		ok(t, err)
		all = append(all, infos...)
		newest = infos[len(infos)-1].Name
	}
	noticed, harmless := 0, 0
	for i, info := range all {
		step := max(1, info.SizeBytes/7)
		if i%10 > 0 && info.Name[:3] == "sst" { // all are alike
			step = info.SizeBytes
		}
		for off := int64(-1); off < info.SizeBytes; off += step {
			d := &flipped{h.dest, info.Name, off}
			c, err := ship.List(ctx, d)
			if err == nil && len(c.Damage) == 0 && c.Objects < whole.Objects &&
				(off >= 0 || info.Name != newest) {
				t.Errorf("byte %d of %s is changed, less is restorable, and List is content", off,
					info.Name)
			}
			fsys := vfs.NewMem()
			at, err := ship.RestoreOn(ctx, d, fsys, "db", nil)
			if err != nil {
				noticed++
				if _, serr := fsys.Stat("db"); serr == nil {
					t.Errorf("%s, byte %d: a database is there after %v", info.Name, off, err)
				}
				continue
			}
			harmless++
			if at.Version < h.last && info.Name != newest {
				t.Errorf("%s, byte %d: the last is version %d", info.Name, off, at.Version)
			}
			db := openOn(t, fsys, engine.Options{MustExist: true})
			if got := shiptest.Items(t, db); !maps.Equal(got, states[at.Version]) {
				t.Errorf("%s, byte %d: version %d is restored with %d items", info.Name, off,
					at.Version, len(got))
			}
			ok(t, db.Close())
		}
	}
	t.Logf("%d changes noticed, %d harmless", noticed, harmless)
	if noticed < len(all)/2 || harmless == 0 {
		t.Errorf("%d changes noticed, %d harmless", noticed, harmless)
	}
}

// Promise (shipping): A destination with objects of a later version is refused, and nothing there
// is removed or taken for damage.
func TestLaterVersion(t *testing.T) {
	for _, prefix := range []string{"destination", "base/", "log/"} {
		h := newHarbor(t)
		s := h.start(ship.Options{})
		h.ships(s, 2)
		ok(t, s.Close(ctx))
		infos, err := h.dest.List(ctx, prefix)
		ok(t, err)
		name := infos[len(infos)-1].Name
		r, err := h.dest.Get(ctx, name, 0, -1)
		ok(t, err)
		b, err := io.ReadAll(r)
		ok(t, errors.Join(err, r.Close()))
		b[8]++
		sum := crc32.Checksum(b[:124], crc32.MakeTable(crc32.Castagnoli))
		binary.LittleEndian.PutUint32(b[124:], sum)
		ok(t, h.dest.Delete(ctx, name))
		ok(t, h.dest.Put(ctx, name, readerAt(b), int64(len(b))))
		before := h.names()
		_, err = h.tryStart(ship.Options{})
		wantIs(t, err, engine.ErrVersion)
		_, err = ship.RestoreOn(ctx, h.dest, vfs.NewMem(), "db", nil)
		wantIs(t, err, engine.ErrVersion)
		if after := h.names(); !slices.Equal(after, before) {
			t.Errorf("%s: there is %q, was %q", prefix, after, before)
		}
	}
}

// names returns the names of all objects.
func (h *harbor) names() (all []string) {
	h.t.Helper()
	for _, prefix := range []string{"destination", "epoch/", "base/", "log/", "sst/"} {
		infos, err := h.dest.List(ctx, prefix)
		ok(h.t, err)
		for _, info := range infos {
			all = append(all, info.Name)
		}
	}
	return all
}

// tearing is a destination that keeps a byte less of some objects than is put.
type tearing struct {
	ship.Destination
	what string // how their names begin
	puts atomic.Int64
}

func (d *tearing) Put(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	if strings.HasPrefix(name, d.what) {
		if d.puts.Add(1) > 100 {
			return errors.New("too many")
		}
		size--
	}
	return d.Destination.Put(ctx, name, content, size)
}

// A destination that tears every object gets a few of them at a time, not one after the other.
func TestEverythingIsTorn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarbor(t)
		h.put()
		_, err := ship.Start(h.db, &tearing{Destination: h.dest, what: "destination"}, nil)
		wantIs(t, err, engine.ErrCorrupt)
		d := &tearing{Destination: h.dest, what: "base/"}
		s, err := ship.Start(h.db, d, &ship.Options{Interval: time.Hour})
		ok(t, err)
		synctest.Wait()
		if n := d.puts.Load(); n > 10 || s.Metrics().Failures == 0 {
			t.Errorf("%d bases were put: %+v", n, s.Metrics())
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		wantIs(t, s.Close(ended), context.Canceled)
		ok(t, h.db.Close())
	})
}
