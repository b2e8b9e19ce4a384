package engine

// What the tests of package engine_test call on file systems of their own.
var (
	OpenFS   = openOn
	RepairFS = repairOn
)
