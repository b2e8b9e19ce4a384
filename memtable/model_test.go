package memtable_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/memtable"
	"pgregory.net/rapid"
)

// program interprets bytes as calls: the property test and the fuzz target share it.
// Reads past the end give zeros.
type program struct {
	b []byte
	w *world
}

func (p *program) byte() byte {
	if len(p.b) == 0 {
		return 0
	}
	c := p.b[0]
	p.b = p.b[1:]
	return c
}

// key returns one of a few thousand keys: with and without a shared prefix, below and
// above it, prefixes of each other, long ones, with zero bytes.
func (p *program) key() []byte {
	shape, n := p.byte(), p.byte()
	stem := [...]string{
		"", "tenant01/", "tenant01/order-000", "tenant", "a", "z", "\xff\xff", "\x00",
	}
	key := []byte(stem[shape&7])
	switch shape >> 3 & 3 {
	case 0:
		key = append(key, n)
	case 1:
		key = append(key, bytes.Repeat([]byte{n & 1}, int(n>>1)%16)...)
	case 2:
		key = append(append(key, "0123456789abcdef"[:n&15]...), n>>4)
	case 3:
		key = append(bytes.Repeat([]byte{'k'}, int(n)*97), key...)
	}
	if len(key) == 0 {
		return []byte("only")
	}
	return key
}

func (p *program) value() []byte {
	n := int(p.byte())
	if n >= 250 {
		n *= 90 // past what fits into a shared chunk
	}
	return bytes.Repeat([]byte{byte(p.w.seq)}, n)
}

func (p *program) snap() base.SeqNum {
	w := p.w
	if n := len(w.snaps); n > 0 {
		if i := int(p.byte()) % (n + 1); i < n {
			return w.snaps[i]
		}
	}
	return w.seq
}

// step runs one call.
func (p *program) step() error {
	w := p.w
	switch op := p.byte(); op % 16 {
	default:
		w.commit()
		w.put(p.key(), base.KindPut, 0, p.value())
	case 5: // a batch that writes the same keys more than once
		w.commit()
		a, b := p.key(), p.key()
		w.put(a, base.KindPut, 0, p.value())
		w.put(b, base.KindPutTTL, int64(p.byte()), p.value())
		w.put(a, base.KindDelete, 0, nil)
		w.put(a, base.KindPut, 0, p.value())
	case 6:
		w.commit()
		w.put(p.key(), base.KindDelete, 0, []byte("ignored"))
	case 7:
		w.commit()
		w.put(p.key(), base.KindPutTTL, -1-int64(p.byte()), p.value())
	case 8:
		if err := w.bounds(p.key()); err != nil {
			return err
		}
		return w.get(p.key(), p.snap())
	case 9:
		w.snapshot()
		w.cursors = append(w.cursors, w.openCursor(w.seq))
	case 10:
		if n := len(w.snaps); n > 0 {
			w.forget(int(p.byte()) % n)
		}
	case 11, 12, 13, 14:
		if n := len(w.cursors); n > 0 {
			c := w.cursors[int(p.byte())%n]
			for range 1 + p.byte()%8 {
				if err := w.move(c, int(p.byte())%numMoves, string(p.key())); err != nil {
					return err
				}
			}
		}
	case 15: // many puts of two shapes, so that batches, chunks and the tree grow
		w.commit()
		stem := p.key()
		for i := range 2 * int(p.byte()) {
			w.put(append(bytes.Clone(stem), byte(i*61), byte(i>>3)), base.KindPut, 0, p.value())
		}
	}
	return nil
}

// run runs the whole program, freezes the table, and reads everything again.
func (p *program) run() error {
	w := p.w
	for len(p.b) > 0 {
		if err := p.step(); err != nil {
			return err
		}
	}
	if err := w.scan(w.seq); err != nil {
		return err
	}
	if err := w.freeze(); err != nil {
		return err
	}
	for _, key := range []string{"", "tenant01/", "tenant01/order-0005", "zz"} {
		if err := w.bounds([]byte(key)); err != nil {
			return err
		}
	}
	for _, c := range w.cursors { // cursors that were on their way go on without the lock
		for i := range 6 {
			if err := w.move(c, []int{moveNext, movePrev, moveSeekGE, moveNext, moveSeekLT,
				movePrev}[i], "tenant01/"); err != nil {
				return err
			}
		}
	}
	for _, snap := range append(w.snaps, w.seq) {
		if err := w.scan(snap); err != nil {
			return err
		}
		for key := range w.model {
			if err := w.get([]byte(key), snap); err != nil {
				return err
			}
		}
	}
	return nil
}

// options returns a table's options by number: no prefix, the right one, wrong ones;
// and the hash to use, in the worst case one that is the same for all keys.
func (p *program) options(n byte) {
	prefix := [...]string{"", "tenant01/", "tenant01/order-000", "m", "\xff\xff\xff", "\x00"}
	o := memtable.Options{Prefix: []byte(prefix[int(n)%len(prefix)])}
	p.w = newWorld(o)
	if n >= 128 {
		p.w.hash = func(key []byte) uint64 { return uint64(n&1) << 40 }
	}
}

func TestAgainstModel(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	testutil.Check(t, func(t *rapid.T) {
		p := &program{b: rapid.SliceOfN(rapid.Byte(), 150, 3000).Draw(t, "program")}
		p.options(rapid.Byte().Draw(t, "options"))
		ok(t, p.run())
	})
}

// TestLongPrograms runs programs long enough for batches of every size, chunk
// changes and rebuilds of the tree.
func TestLongPrograms(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	seed := testutil.Seed(t)
	for s := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, s))
		p := &program{b: make([]byte, 1200)}
		for i := range p.b {
			p.b[i] = byte(rnd.Uint32())
		}
		p.options(byte(s) * 43)
		if err := p.run(); err != nil {
			t.Fatalf("program %d: %v", s, err)
		}
	}
}

func FuzzTable(f *testing.F) {
	f.Add(byte(0), []byte{})
	f.Add(byte(1), []byte{0, 1, 2, 3, 9, 5, 1, 2, 1, 2, 9, 9, 9, 11, 0, 7, 4, 5, 8, 1, 2})
	f.Add(byte(130), []byte{15, 1, 9, 200, 9, 15, 2, 9, 100, 11, 0, 7, 0, 4, 4, 4, 4, 5, 5})
	f.Add(byte(2), []byte{0, 24, 255, 255, 6, 24, 255, 9, 7, 24, 255, 3, 10, 0, 0, 24, 255, 251})
	f.Fuzz(func(t *testing.T, options byte, b []byte) {
		defer testutil.Watch(options, b)()
		if len(b) > 4096 {
			return
		}
		p := &program{b: b}
		p.options(options)
		ok(t, p.run())
	})
}
