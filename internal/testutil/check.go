package testutil

import "errors"

// failer is what a check needs of a test: testing.TB and *rapid.T have it.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// OK ends the test if err is not nil. Test packages call it ok.
func OK(t failer, err error) {
	if err != nil {
		t.Helper() // here only, since it costs more than most calls that a test makes
		t.Fatal(err)
	}
}

// WantIs ends the test unless err matches target.
func WantIs(t failer, err, target error) {
	if !errors.Is(err, target) {
		t.Helper()
		t.Fatalf("error is %v, want one that matches %q", err, target)
	}
}
