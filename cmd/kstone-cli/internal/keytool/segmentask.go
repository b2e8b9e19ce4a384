package keytool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/bulk"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// askCache is the memory for the filters and keys of blocks that an ask has read.
const askCache = 256 << 20

// segmentAsker asks some segments about the keys of a file.
type segmentAsker struct {
	bulk.Intake
	app    *cli.App
	input  keyInput
	known  bool // print the known keys instead of the new ones
	count  bool // print their number only
	approx bool
	stats  bool

	set   *keyset.Set
	cache *keyset.Cache
	open  []io.Closer
	out   *bufio.Writer
	keys  [][]byte
	found keyset.Bitmap
	line  []byte
	shown layout.Record
	sum   askSummary
}

// askSummary is what an ask has found. Read is the sum of New, Known, Expired and Rejected.
type askSummary struct {
	Read     int64   `json:"read"`
	New      int64   `json:"new"`
	Known    int64   `json:"known"`
	Expired  int64   `json:"expired"`
	Rejected int64   `json:"rejected"`
	Exact    bool    `json:"exact"`
	Seconds  float64 `json:"seconds"`
	// What the answers took: questions to filters, those that a filter let pass, those of
	// them that were looked up among the stored keys, and those found there; and the blocks
	// that were read from files.
	Probes    int64 `json:"probes"`
	Positives int64 `json:"positives"`
	Checked   int64 `json:"checked"`
	Confirmed int64 `json:"confirmed"`
	Blocks    int64 `json:"blocks_read"`
}

func segmentAskCommand(a *cli.App) *cobra.Command {
	s := &segmentAsker{app: a}
	cmd := &cobra.Command{
		Use:   "ask SEGMENT… FILE|- [--key FIELD,…] [--known]",
		Short: "Print the keys of a file that are in no segment",
		Long: `Print the records of a file whose keys are in none of the segments, or with
--known those whose keys are in one. Records are printed as JSON lines in the
form of export, plain lines as lines in the form of -i. A key that the file has
twice is asked twice.

If all segments were built with --exact, every answer is right. Otherwise, and
with --approximate, the filters alone answer: a key that is called new is new,
but about 1 new key in 256 is called known for every filter of 8 bits that is
asked, or 1 in 65,536 for one of 16 bits.

` + inputHelp + `

Ask with the --key that the segments were built with: keys of other types are other
keys. The file may be of any size. Filters of whole segments stay in memory, those
of blocks within 256 MiB.`,
		Example: `  kstone-cli segment ask seen.seg orders.jsonl --key user,at:time-ms > new.jsonl
  kstone-cli segment ask monday.seg tuesday.seg urls.txt --count`,
		Args: cli.Words(2, -1),
	}
	flags := cmd.Flags()
	s.input.register(a, cmd)
	flags.BoolVar(&s.known, "known", false, "print the known keys instead of the new ones")
	flags.BoolVar(&s.count, "count", false, "print their number instead of the keys")
	flags.BoolVar(&s.approx, "approximate", false, "ask the filters only, although keys are stored")
	flags.BoolVar(&s.stats, "stats", false, "print what the answers took")
	a.OutputFlag(cmd, "`FORMAT`: json prints the summary as JSON, and no keys", "json")
	cmd.RunE = s.run
	return cmd
}

func (s *segmentAsker) run(cmd *cobra.Command, args []string) (err error) {
	name := args[len(args)-1]
	f, err := s.input.of(s.app, cmd, name)
	if err != nil {
		return err
	}
	in, size, err := bulk.OpenInput(s.app, name)
	if err != nil {
		return err
	}
	defer in.Close()
	defer func() {
		for _, c := range s.open {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := s.openSegments(args[:len(args)-1]); err != nil {
		return err
	}
	prints := !s.count && s.app.Format == "" && s.app.OutTTY // the meter would be in the way
	s.Intake = bulk.Intake{DB: f.database(), Flags: &f.ImportFlags, Name: name, Start: time.Now(),
		Meter: meter.New(s.app.Err, s.app.ErrTTY && !prints, size, "asking")}
	s.out = bufio.NewWriterSize(s.app.Out, 64<<10)
	err = s.Intake.Run(cmd.Context(), in, s.ask)
	err = errors.Join(err, s.out.Flush())
	r := s.End(s.app)
	if printErr := s.print(r); err == nil {
		err = printErr
	}
	return r.Verdict(err, "all others were asked; correct these lines and ask again",
		"what was printed is right, the rest of the file was not asked")
}

// openSegments opens the segments and makes a set of them.
func (s *segmentAsker) openSegments(names []string) error {
	s.cache = keyset.NewCache(askCache)
	s.sum.Exact = !s.approx
	var segments []*keyset.Segment
	for _, name := range names {
		seg, c, err := openSegment(name, s.cache)
		if err != nil {
			return segmentError(err)
		}
		s.open = append(s.open, c)
		segments = append(segments, seg)
		s.sum.Exact = s.sum.Exact && (seg.StoresKeys() || seg.Len() == 0)
	}
	s.set = keyset.NewSet(&keyset.SetOptions{Exact: s.sum.Exact})
	s.found = keyset.NewBitmap(bulk.IntakeItems)
	return segmentError(s.set.Append(segments...))
}

// openSegment opens a segment file: one of blocks so that the blocks are read on demand, any
// other as a mapping. The closer belongs to the caller, and outlives the segment.
func openSegment(name string, cache *keyset.Cache) (*keyset.Segment, io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = cli.Usage("%s is a directory, not a segment", name).WithHint("name files")
	}
	var seg *keyset.Segment
	if err == nil {
		seg, err = keyset.OpenSegmentAt(f, info.Size(), cache)
	}
	if err == nil && seg.Blocks() == 0 {
		seg, err = keyset.OpenSegment(name)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return seg, f, nil
}

// ask answers for a group of keys.
func (s *segmentAsker) ask(_ context.Context, items []engine.Item) error {
	if err := singleKey(s.Name, items); err != nil {
		return err
	}
	s.keys = s.keys[:0]
	for i := range items {
		s.keys = append(s.keys, items[i].Key.PK)
	}
	if err := s.set.ContainsBytesBatch(s.keys, s.found); err != nil {
		return segmentError(err)
	}
	for i := range items {
		known := s.found.Get(i)
		if known {
			s.sum.Known++
		} else {
			s.sum.New++
		}
		if known != s.known || s.count || s.app.Format != "" {
			continue
		}
		if err := s.write(&items[i]); err != nil {
			return err
		}
	}
	return nil
}

// write prints the record of a key.
func (s *segmentAsker) write(item *engine.Item) error {
	s.line = s.line[:0]
	switch {
	case s.Flags.Lines == nil:
		s.line = s.DB.Schema.AppendJSON(s.line, item, &s.shown)
	case s.DB.Schema.PlainPK():
		s.line = s.app.AppendForm(s.line, item.Key.PK)
	default:
		s.line = append(s.line, s.DB.Schema.FormatPK(item.Key.PK)...)
	}
	_, err := s.out.Write(append(s.line, '\n'))
	return err
}

// print writes the counts: to standard output if they were asked for, else beside the keys.
func (s *segmentAsker) print(r bulk.Reading) error {
	sum, st := &s.sum, s.set.Stats()
	sum.Read, sum.Rejected, sum.Expired, sum.Seconds = r.Read, r.Rejected, r.Expired,
		r.Took.Seconds()
	sum.Probes, sum.Positives, sum.Checked, sum.Confirmed = st.Probes, st.Positives, st.Checked,
		st.Confirmed
	sum.Blocks, _ = s.cache.Loads()
	if s.app.Format == "json" {
		return s.app.PrintJSON(sum)
	}
	if s.stats {
		fmt.Fprintf(s.app.Err, "probes %s, positives %s, checked %s, confirmed %s, blocks read"+
			" %s\n", figure.Count(sum.Probes), figure.Count(sum.Positives),
			figure.Count(sum.Checked), figure.Count(sum.Confirmed), figure.Count(sum.Blocks))
	}
	if s.count {
		n := sum.New
		if s.known {
			n = sum.Known
		}
		_, err := fmt.Fprintln(s.app.Out, n)
		return err
	}
	known := "known"
	if !sum.Exact {
		known = "probably known"
	}
	_, err := fmt.Fprintln(s.app.Err, r.Text(fmt.Sprintf(": %s new, %s %s",
		figure.Count(sum.New), figure.Count(sum.Known), known), ""))
	return err
}
