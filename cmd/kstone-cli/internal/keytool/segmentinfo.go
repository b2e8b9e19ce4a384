package keytool

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// segmentFigures is what info says about a segment.
type segmentFigures struct {
	File        string          `json:"file"`
	Keys        uint64          `json:"keys"`
	First       json.RawMessage `json:"first,omitempty"` // a string, or {"$b64":…}
	Last        json.RawMessage `json:"last,omitempty"`
	Exact       bool            `json:"exact"` // the keys are stored
	Bits        int             `json:"bits"`
	Blocks      int             `json:"blocks"` // 0 if the segment is not cut into blocks
	Shards      int             `json:"shards"`
	FilterBytes uint64          `json:"filter_bytes"`
	Bytes       uint64          `json:"bytes"`
	Seed        uint64          `json:"seed"`
	Verified    bool            `json:"verified"`
}

func segmentInfoCommand(a *cli.App) *cobra.Command {
	verify := false
	cmd := &cobra.Command{
		Use:   "info SEGMENT… [--verify]",
		Short: "Show what segment files hold",
		Long: `Show how many keys a segment holds, its smallest and its largest key, its
filters and its size. Header and zone maps are checked; --verify reads the
filters and the stored keys, too, and checks them. Damage is reported with file
and offset, and exit code 5.

Keys are shown in the form of -i; without it bytes that are not text are escapes.`,
		Example: `  kstone-cli segment info *.seg
  kstone-cli segment info seen.seg --verify -o json`,
		Args: cli.Words(1, -1),
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "check every byte")
	a.InputFlag(cmd, "`FORM` of the keys that are shown: text (default), escaped, hex or base64")
	a.OutputFlag(cmd, "`FORMAT`: json prints one object for each segment", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var errs []error
		for _, name := range args {
			if err := segmentInfo(a, name, verify); err != nil {
				errs = append(errs, segmentError(err))
			}
		}
		return errors.Join(errs...)
	}
	return cmd
}

// segmentInfo prints what one file holds.
func segmentInfo(a *cli.App, name string, verify bool) error {
	seg, f, err := openSegment(name, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	if verify {
		if err := seg.Verify(); err != nil {
			return err
		}
	}
	if a.Format == "json" {
		return a.PrintJSON(figuresOf(name, seg, verify))
	}
	return printSegment(a, name, seg, verify)
}

func figuresOf(name string, seg *keyset.Segment, verified bool) segmentFigures {
	f := segmentFigures{File: name, Keys: seg.Len(), Exact: seg.StoresKeys(), Bits: seg.Bits(),
		Blocks: seg.Blocks(), Shards: seg.Shards(), FilterBytes: seg.FilterBytes(),
		Bytes: seg.SizeBytes(), Seed: seg.Seed(), Verified: verified}
	if seg.Len() > 0 {
		first, last := seg.Zone()
		f.First, f.Last = record.AppendBytes(nil, first), record.AppendBytes(nil, last)
	}
	return f
}

func printSegment(a *cli.App, name string, seg *keyset.Segment, verified bool) error {
	kind := "approximate"
	if seg.StoresKeys() {
		kind = "exact"
	}
	fmt.Fprintf(a.Out, "%s: %s, %s, %s\n", name, figure.Plural(int64(seg.Len()), "key"), kind,
		figure.Bytes(int64(seg.SizeBytes())))
	if seg.Len() > 0 {
		first, last := seg.Zone()
		fmt.Fprintf(a.Out, "  first   %s\n  last    %s\n", shownKey(a, first), shownKey(a, last))
	}
	cut := "one part"
	switch {
	case seg.Blocks() > 0:
		cut = figure.Plural(int64(seg.Blocks()), "block")
	case seg.Shards() > 1:
		cut = figure.Plural(int64(seg.Shards()), "shard")
	}
	perKey := 0.0
	if seg.Len() > 0 {
		perKey = 8 * float64(seg.FilterBytes()) / float64(seg.Len())
	}
	fmt.Fprintf(a.Out, "  filter  fingerprints of %d bits, %s, %s: %.2f bits a key\n", seg.Bits(),
		cut, figure.Bytes(int64(seg.FilterBytes())), perKey)
	if verified {
		fmt.Fprintln(a.Out, "  ok      every byte is as it was written")
	}
	return nil
}

// shownKey returns a key in the form of --input, on one line.
func shownKey(a *cli.App, key []byte) string {
	if a.Input == "" || a.Input == "text" {
		return layout.Show(key)
	}
	return string(a.AppendForm(nil, key))
}
