package testutil

import (
	"errors"
	"testing"
)

// OK ends the test if err is not nil. Test packages call it ok.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper() // here only, since it costs more than most calls that a test makes
		t.Fatal(err)
	}
}

// WantIs ends the test unless err matches target.
func WantIs(t testing.TB, err, target error) {
	if !errors.Is(err, target) {
		t.Helper()
		t.Fatalf("error is %v, want one that matches %q", err, target)
	}
}
