package schema

// The limits, for tests of both sides of them.
const (
	MaxColumns   = maxColumns
	MaxIndexes   = maxIndexes
	MaxNameBytes = maxNameBytes
)
