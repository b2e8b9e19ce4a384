package keys

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
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
	if costs[0].ratio != 1 || costs[1].nanos <= 0 {
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

func TestAllocationsAreCounted(t *testing.T) {
	var keep []byte
	c, err := allocated(1000, func(int) error { keep = make([]byte, 64); return nil })
	if err != nil || c.allocs < 1 || c.allocs > 1.5 || c.bytes < 64 || c.bytes > 128 {
		t.Errorf("%+v, %v for an object of %d bytes", c, err, len(keep))
	}
}

// Figures are only taken of scans that return the right records.
func TestRun(t *testing.T) {
	s := Settings{CodecRounds: 5, Repeat: 2, Records: 250}
	run := result.Run{Meta: s.Meta()}
	err := s.Run(t.Context(), func(r result.Record) error {
		run.Records = append(run.Records, r)
		f := r.Figures
		switch {
		case strings.HasPrefix(r.Engine, "kstone"):
			if f["encode_allocs"] >= 0.5 || f["decode_allocs"] >= 0.5 || f[keyBytes] != 35 {
				t.Errorf("%+v, want keys of 35 bytes and no allocation", r)
			}
		case r.Table == tableDatabase:
			if f["writes_per_second"] <= 0 || f["lookups_per_second"] <= 0 ||
				f["scans_per_second"] <= 0 || f["scans_bytes"] <= 0 {
				t.Errorf("%+v", r)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(run.Records) - 7; n < 5 || run.Records[0].Figures["encode_ratio"] != 1 {
		t.Errorf("%d codecs: %+v", n, run.Records)
	}
	var text strings.Builder
	if err := report.Write(&text, &Kind, []result.Run{run}, "", ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| kstone, struct | 35 |", "| google/orderedcode | 36 |",
		"| TiKV/TiDB codec |", "| specification | 202714 | 1988 |",
		"| composite keys |", "| table |", "| table, an index |", "FoundationDB"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, &text)
		}
	}
	const left = "FoundationDB's tuple layer is left out"
	if has := !strings.Contains(text.String(), left); has != (len(others) == 3) {
		t.Errorf("%d codecs of others, and the page says\n%s", len(others), &text)
	}
	for _, bad := range []Settings{{0, 1, 100}, {1, 0, 100}, {1, 1, 99}} {
		if bad.Check() == nil {
			t.Errorf("%+v passes", bad)
		}
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
