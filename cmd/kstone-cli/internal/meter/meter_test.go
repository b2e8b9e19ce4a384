package meter_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
)

// A meter that is not shown writes nothing but notes.
func TestHidden(t *testing.T) {
	var out bytes.Buffer
	m := meter.New(&out, false, 100, "working")
	got, err := io.ReadAll(m.Reader(strings.NewReader("content")))
	if err != nil || string(got) != "content" {
		t.Fatalf("%q, %v", got, err)
	}
	m.Rows(7)
	m.Set(50)
	m.Note("a note")
	m.Spin(nil, false)()
	m.Done()
	if out.String() != "a note\n" {
		t.Errorf("wrote %q", out.String())
	}
}

// A bar shows rows and rate, makes room for notes, and is gone at the end.
func TestShown(t *testing.T) {
	for _, total := range []int64{7, -1} {
		var out bytes.Buffer
		m := meter.New(&out, true, total, "importing")
		if _, err := io.ReadAll(m.Reader(strings.NewReader("content"))); err != nil {
			t.Fatal(err)
		}
		m.Rows(1234)
		m.Note("a note")
		m.Done()
		text := out.String()
		if !strings.Contains(text, "importing 1,234 rows") || !strings.Contains(text, "a note\n") {
			t.Errorf("total %d: %q", total, text)
		}
		last := text[strings.LastIndexAny(text, "\r\n")+1:]
		if strings.Contains(last, "rows") {
			t.Errorf("total %d: %q is left", total, last)
		}
	}
}

// The rate and the time left are those since the work has begun, and a bar stays when more is done
// than was expected.
func TestEstimated(t *testing.T) {
	var out bytes.Buffer
	m := meter.New(&out, true, 1000, "reading")
	m.Since(time.Now().Add(-time.Hour))
	m.Set(500)
	if text := out.String(); !strings.Contains(text, "reading 500 (0/s), 1h0m0s left") ||
		!strings.Contains(text, "50%") {
		t.Errorf("%q", text)
	}
	out.Reset()
	beyond := meter.New(&out, true, 1000, "reading")
	beyond.Set(5000)
	if text := out.String(); !strings.Contains(text, "reading 5,000") ||
		!strings.Contains(text, "0s left") || !strings.HasSuffix(text, "\x1b[0K") {
		t.Errorf("%q", text)
	}
	m.Done()
	beyond.Done()
}
