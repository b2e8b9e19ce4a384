package testutil

import (
	"errors"
	"testing"
)

// OK ends the test if err is not nil. Test packages call it ok.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantIs ends the test unless err matches target.
func WantIs(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want one that matches %q", err, target)
	}
}
