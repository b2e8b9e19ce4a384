package testutil

import (
	"fmt"
	"time"
)

// maxInputTime is how long a fuzz target may take for one input. What is fuzzed takes less
// than a thousandth of it.
const maxInputTime = 5 * time.Second

// Watch ends the process with a panic that shows the input of a fuzz target unless the function
// it returns is called in time: `defer testutil.Watch(input)()` is the first statement of a
// target.
//
// Why: to the fuzzing engine an input that takes for ever is one that is not finished when its
// time is over, which is no failure.
func Watch(input ...any) (stop func()) {
	t := time.AfterFunc(maxInputTime, func() { panic(tooLong(input)) })
	return func() { t.Stop() }
}

func tooLong(input []any) string {
	return fmt.Sprintf("the input takes more than %v: %#v", maxInputTime, input)
}
