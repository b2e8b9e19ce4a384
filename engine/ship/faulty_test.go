package ship_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/kstonedb/kstone/engine/ship"
)

var errServer = errors.New("503 slow down")

// faulty is a destination that fails, answers wrongly, delays, tears, forgets and duplicates.
type faulty struct {
	ship.Destination
	mu   sync.Mutex
	rnd  *rand.Rand // guarded by mu
	rate int        // guarded by mu: one call in so many is wrong; 0: none
	dead bool       // guarded by mu: no call arrives
	late []func()   // guarded by mu: puts that take effect later
	hits map[string]int
}

func newFaulty(d ship.Destination, seed uint64, rate int) *faulty {
	return &faulty{Destination: d, rnd: rand.New(rand.NewPCG(seed, 1)), rate: rate,
		hits: map[string]int{}}
}

// fault draws what is wrong with a call: a number below n, or -1.
func (f *faulty) fault(n int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return -1, errServer
	}
	for len(f.late) > 0 && f.rnd.IntN(3) == 0 {
		f.late[0]()
		f.late = f.late[1:]
	}
	if f.rate == 0 || f.rnd.IntN(f.rate) > 0 {
		return -1, nil
	}
	return f.rnd.IntN(n), nil
}

func (f *faulty) hit(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hits[what]++
}

// setDead has no call arrive, or lets calls arrive again.
func (f *faulty) setDead(dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = dead
}

// heal ends all faults. What is late arrives.
func (f *faulty) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.late {
		g()
	}
	f.late, f.rate, f.dead = nil, 0, false
}

func (f *faulty) Put(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	kind, err := f.fault(6)
	if err != nil {
		return err
	}
	put := func(size int64) error { return f.Destination.Put(ctx, name, content, size) }
	switch kind {
	case 0:
		f.hit("error before a put")
		return errServer
	case 1:
		f.hit("error after a put")
		_ = put(size)
		return errServer
	case 2:
		f.hit("torn put")
		if err := put(size / 2); err != nil {
			return err
		}
		return []error{nil, errServer}[size%2]
	case 3:
		f.hit("forgotten put")
		return nil
	case 4:
		f.hit("late put")
		b := make([]byte, size)
		if _, err := content.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		f.mu.Lock()
		f.late = append(f.late, func() {
			_ = f.Destination.Put(context.Background(), name, readerAt(b), size)
		})
		f.mu.Unlock()
		return errServer
	case 5:
		f.hit("put twice")
		if err := put(size); err != nil {
			return err
		}
	}
	return put(size)
}

type readerAt []byte

func (b readerAt) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *faulty) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	kind, err := f.fault(2)
	if err != nil {
		return nil, err
	}
	r, err := f.Destination.Get(ctx, name, off, n)
	switch {
	case err != nil || kind < 0:
		return r, err
	case kind == 0:
		f.hit("error of a get")
		return nil, errors.Join(errServer, r.Close())
	}
	f.hit("short get")
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(r, 50), r}, nil
}

func (f *faulty) List(ctx context.Context, prefix string) ([]ship.Info, error) {
	if kind, err := f.fault(1); err != nil || kind == 0 {
		return nil, errServer
	}
	return f.Destination.List(ctx, prefix)
}

func (f *faulty) Delete(ctx context.Context, name string) error {
	kind, err := f.fault(2)
	if err != nil || kind == 0 {
		return errServer
	}
	if err := f.Destination.Delete(ctx, name); err != nil || kind == 1 {
		return fmt.Errorf("%w: %w", errServer, err)
	}
	return nil
}

func (f *faulty) Head(ctx context.Context, name string) (ship.Info, error) {
	if kind, err := f.fault(1); err != nil || kind == 0 {
		return ship.Info{}, errServer
	}
	return f.Destination.Head(ctx, name)
}

// counting counts calls, and may be changed while it is used.
type counting struct {
	ship.Destination
	mu                sync.Mutex
	puts, gets, heads int
	putBytes          int64
	names             []string
	block             func(op, name string) error // or nil
}

func (c *counting) call(op, name string, size int64) error {
	c.mu.Lock()
	switch op {
	case "put":
		c.puts++
		c.putBytes += size
		c.names = append(c.names, name)
	case "get":
		c.gets++
	case "head":
		c.heads++
	}
	block := c.block
	c.mu.Unlock()
	if block != nil {
		return block(op, name)
	}
	return nil
}

func (c *counting) set(block func(op, name string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.block = block
}

func (c *counting) counts() (puts, gets int, putBytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.puts, c.gets, c.putBytes
}

func (c *counting) Put(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	if err := c.call("put", name, size); err != nil {
		return err
	}
	return c.Destination.Put(ctx, name, content, size)
}

func (c *counting) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := c.call("get", name, 0); err != nil {
		return nil, err
	}
	return c.Destination.Get(ctx, name, off, n)
}

func (c *counting) Head(ctx context.Context, name string) (ship.Info, error) {
	if err := c.call("head", name, 0); err != nil {
		return ship.Info{}, err
	}
	return c.Destination.Head(ctx, name)
}

func (c *counting) Delete(ctx context.Context, name string) error {
	if err := c.call("delete", name, 0); err != nil {
		return err
	}
	return c.Destination.Delete(ctx, name)
}
