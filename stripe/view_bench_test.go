package stripe_test

import (
	"testing"

	"github.com/kstonedb/kstone/internal/vfs"
)

// BenchmarkView compares the two ways to the current view: without a reference, as Get
// does it, and with one, as cursors do.
func BenchmarkView(b *testing.B) {
	s := newWorld(b, vfs.NewMem()).s
	load := func() bool { return s.View() != nil }
	acquire := func() bool {
		v := s.Acquire()
		v.Release()
		return v != nil
	}
	for _, way := range []struct {
		name string
		get  func() bool
	}{{"load", load}, {"acquire", acquire}} {
		b.Run(way.name+"/alone", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !way.get() {
					b.Fatal("no view")
				}
			}
		})
		b.Run(way.name+"/contended", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if !way.get() {
						b.Error("no view")
					}
				}
			})
		})
	}
}
