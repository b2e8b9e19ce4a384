package engine

import "testing"

// TestShareFiles: a quarter of the files, at least 32, are left to the program.
func TestShareFiles(t *testing.T) {
	for limit, want := range map[int][2]int{
		20: {1, 4}, 34: {1, 4}, 36: {2, 4}, 40: {4, 4}, 42: {5, 5}, 128: {48, 48}, 160: {60, 60},
		172: {64, 65}, 256: {64, 128}, 1024: {64, 704}, 4096: {64, 3008},
	} {
		if flush, readers := shareFiles(limit); [2]int{flush, readers} != want {
			t.Errorf("of %d files %d and %d, want %d", limit, flush, readers, want)
		}
	}
}
