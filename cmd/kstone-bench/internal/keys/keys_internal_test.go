package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestCodecsTakeTurns(t *testing.T) {
	var turns []int
	op := func(i int) error {
		if len(turns) == 0 || turns[len(turns)-1] != i {
			turns = append(turns, i)
		}
		return nil
	}
	costs, err := compare(context.Background(), 3, 3, op)
	if err != nil {
		t.Fatal(err)
	}
	// The rounds are 0 1 2, 1 2 0 and 2 0 1; what follows counts allocations.
	want := []int{0, 1, 2, 1, 2, 0, 2, 0, 1}
	for i := range want {
		if turns[i] != want[i] {
			t.Fatalf("turns %v, want them to begin %v", turns, want)
		}
	}
	if costs[0].Ratio != 1 || costs[1].NS <= 0 {
		t.Errorf("costs %+v", costs)
	}
	failed := errors.New("failed")
	_, err = compare(context.Background(), 1, 1, func(int) error { return failed })
	if err != failed {
		t.Errorf("error %v, want that of the operation", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := compare(ctx, 1, 1, op); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after cancelling", err)
	}
}

func TestMedian(t *testing.T) {
	for _, values := range [][]float64{{5}, {9, 5, 1}, {5, 1}, {1, 1, 5, 7, 9}} {
		if m := median(values); m != 5 {
			t.Errorf("median %v of %v", m, values)
		}
	}
}

func TestAllocationsAreCounted(t *testing.T) {
	var keep []byte
	c, err := allocated(1000, func(int) error { keep = make([]byte, 64); return nil })
	if err != nil || c.Allocs < 1 || c.Allocs > 1.5 || c.Bytes < 64 || c.Bytes > 128 {
		t.Errorf("%+v, %v for an object of %d bytes", c, err, len(keep))
	}
}

// Figures are only taken of scans that return the right records.
func TestRun(t *testing.T) {
	r, err := Run(context.Background(), Settings{Rounds: 5, DatabaseRounds: 2, Records: 250})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Codecs) < 5 || r.Codecs[0].Encode.Ratio != 1 {
		t.Errorf("codecs %+v", r.Codecs)
	}
	for _, c := range r.Codecs[:2] {
		if c.Encode.Allocs >= 0.5 || c.Decode.Allocs >= 0.5 || c.KeyBytes != 35 {
			t.Errorf("%+v, want keys of 35 bytes and no allocation", c)
		}
	}
	for _, d := range r.Database {
		if d.Writes.PerSecond <= 0 || d.Lookups.PerSecond <= 0 || d.Scans.PerSecond <= 0 ||
			d.Scans.Bytes <= 0 {
			t.Errorf("%+v", d)
		}
	}
	var text, encoded bytes.Buffer
	if err := errors.Join(r.WriteText(&text), r.WriteJSON(&encoded)); err != nil {
		t.Fatal(err)
	}
	const left = "FoundationDB's tuple layer is left out"
	if has := !strings.Contains(text.String(), left); has != (len(r.Codecs) == 6) {
		t.Errorf("%d codecs, and the text says\n%s", len(r.Codecs), &text)
	}
	var again Result
	if err := json.Unmarshal(encoded.Bytes(), &again); err != nil || len(again.Database) != 2 {
		t.Errorf("the JSON reads back as %+v, %v", again, err)
	}
}

func TestCodecsThatLoseSomethingAreNotMeasured(t *testing.T) {
	failed := errors.New("failed")
	encode := func(dst []byte, _ *order) ([]byte, error) { return dst, nil }
	for _, c := range []codec{
		emptyCall,
		{append: func([]byte, *order) ([]byte, error) { return nil, failed }},
		{append: encode, decode: func([]byte, *order) error { return failed }},
	} {
		if key, err := roundTrip(c); err == nil {
			t.Errorf("%q passes with the key %x", c.name, key)
		}
	}
	all, err := codecs()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		key, err := roundTrip(c)
		if err != nil {
			t.Error(err)
		}
		if err := c.decode(append(key, 0), new(order)); err == nil {
			t.Errorf("%s takes a key with a byte more", c.name)
		}
	}
}
