package vfs

import "fmt"

// FirstOf returns the first of the errors that is not nil, and says how many more there are.
// Why not all: a dying disk gives the same error for each of many files.
func FirstOf(errs []error) error {
	var first error
	more := 0
	for _, err := range errs {
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			more++
		}
	}
	if more == 0 {
		return first
	}
	return fmt.Errorf("%w (and %d more errors like this)", first, more)
}
