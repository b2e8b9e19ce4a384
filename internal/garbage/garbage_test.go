package garbage

import (
	"math"
	"testing"
	"testing/synctest"
)

const mib = 1 << 20

func TestLimit(t *testing.T) {
	for name, c := range map[string]struct {
		heap heap
		want int64
	}{
		"an empty heap": {heap{percent: 100}, 4 * mib},
		"what lives":    {heap{live: 400 * mib, percent: 100}, 50 * mib},
		"many pointers": {heap{live: 80 * mib, scanned: 60 * mib, percent: 100}, 60 * mib},
		"a larger GOGC": {heap{live: 400 * mib, percent: 400}, 200 * mib},
		"switched off":  {heap{live: 400 * mib, percent: math.MaxUint64}, math.MaxInt64},
	} {
		if got := c.heap.limit(); got != c.want {
			t.Errorf("%s: limit is %d, want %d", name, got, c.want)
		}
	}
}

// TestCollectsAtTheLimit counts bytes: no collection begins before the limit or while one runs,
// and those from before a collection of the runtime's own do not count.
func TestCollectsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := heap{percent: 100}
		begun, end := 0, make(chan struct{})
		c := counter{read: func() heap { return h }, collect: func() { begun++; <-end }}
		step := func(n int64, want int) {
			t.Helper()
			c.add(n)
			synctest.Wait()
			if begun != want {
				t.Errorf("%d collections have begun, want %d", begun, want)
			}
		}
		step(3*mib, 0)
		h.cycles++ // the runtime collects by itself
		step(3*mib, 0)
		step(mib, 1)
		step(9*mib, 1) // one is running
		h.cycles++
		end <- struct{}{}
		synctest.Wait()
		step(3*mib, 1)
		step(mib, 2)
		end <- struct{}{}
	})
}

func TestRuntimeReportsItsHeap(t *testing.T) {
	if h := readHeap(); h.percent == 0 || h.scanned == 0 {
		t.Errorf("the runtime reports %+v", h)
	}
}
