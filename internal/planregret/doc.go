// Package planregret measures plans against those that hints force: a planner may estimate as it
// likes, what counts is how much more its plan reads than the best one. `make plan-regret` runs it
// in full.
package planregret
