package small

import "testing"

// TestComplete: an item that is missing fails a case.
func TestComplete(t *testing.T) {
	for _, e := range engines {
		dir := t.TempDir()
		keys, values := items(0, 3)
		if _, err := use(e.name, dir, keys, values); err != nil {
			t.Fatal(err)
		}
		if err := complete(e.name, dir, 3); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
		if complete(e.name, dir, 4) == nil {
			t.Errorf("%s: 3 items pass for 4", e.name)
		}
	}
}
