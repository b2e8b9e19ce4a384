package base

import "errors"

// ErrLimit is matched by the error of a writer that refuses what no reader of the file would
// accept. Nothing has been committed then, and what was there before is as it was.
var ErrLimit = errors.New("beyond the limit of the format")
