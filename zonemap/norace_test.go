//go:build !race

package zonemap_test

const raceEnabled = false
