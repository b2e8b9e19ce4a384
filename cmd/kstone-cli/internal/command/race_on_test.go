//go:build race

package command_test

// underRace: the race detector makes programs slow to start and to run.
const underRace = true
