package keytool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/bulk"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// segmentBuilder makes a segment file of the keys of some files.
type segmentBuilder struct {
	app       *cli.App
	input     keyInput
	options   keyset.SegmentOptions
	force     bool
	memoryMiB int64

	builder *keyset.SegmentBuilder
	held    int64 // estimated bytes of memory
	long    bool  // some key does not have eight bytes
	keyLen  int64 // sum of the lengths of keys
	sum     segmentSummary
}

// segmentSummary is what a build has done. Read is the sum of Keys, Repeated, Expired and
// Rejected.
type segmentSummary struct {
	Read     int64   `json:"read"`
	Keys     int64   `json:"keys"`
	Repeated int64   `json:"repeated"`
	Expired  int64   `json:"expired"`
	Rejected int64   `json:"rejected"`
	Bytes    uint64  `json:"bytes"`
	Seconds  float64 `json:"seconds"`
}

func segmentBuildCommand(a *cli.App) *cobra.Command {
	b := &segmentBuilder{app: a}
	cmd := &cobra.Command{
		Use:   "build SEGMENT FILE…|- [--key FIELD,…] [--exact]",
		Short: "Make a segment file of keys",
		Long: `Make a segment file of the keys in some files. Keys come in any order, and those
that repeat count once. The file gets its name when it is complete: a build that
fails or is interrupted leaves no file, and with --force the old one.

` + inputHelp + `

All keys are held in memory while the segment is built: about 50 bytes each if
all have eight bytes, else about 110 bytes and twice the key. A build that would
take more than --memory ends with an error; several segments can be asked
together.`,
		Example: `  kstone-cli segment build seen.seg orders.jsonl.gz --key user,at:time-ms --exact
  sort -u urls.txt | kstone-cli segment build urls.seg - --bits 16
  kstone-cli segment build ids.seg ids.csv --key id:uint --block-keys 100000`,
		Args: cli.Words(2, -1),
	}
	flags := cmd.Flags()
	b.input.register(a, cmd)
	flags.BoolVar(&b.options.StoreKeys, "exact", false,
		"store the keys, too, so that ask answers exactly")
	flags.IntVar(&b.options.Bits, "bits", 8,
		"`BITS` of a fingerprint: 8 calls 1 in 256 absent keys known, 16 one\nin 65,536 at twice"+
			" the size")
	flags.IntVar(&b.options.BlockKeys, "block-keys", 0,
		"make a filter for every `N` keys, and ask reads those it needs;\n"+
			"0: one filter, which is held in memory")
	flags.BoolVar(&b.force, "force", false, "replace the segment if it exists")
	flags.Int64Var(&b.memoryMiB, "memory", 4096, "take at most about `MIB` of memory for the keys")
	a.SummaryFlag(cmd)
	cmd.RunE = b.run
	return cmd
}

// prepare checks everything that can be checked before the first key is read.
func (b *segmentBuilder) prepare(cmd *cobra.Command, args []string) (files []*keyInput, err error) {
	switch {
	case b.options.Bits != 8 && b.options.Bits != 16:
		return nil, cli.Usage("--bits is 8 or 16, not %d", b.options.Bits)
	case b.options.BlockKeys < 0:
		return nil, cli.Usage("--block-keys %d is negative", b.options.BlockKeys)
	case b.memoryMiB < 1:
		return nil, cli.Usage("--memory is at least 1 MiB, not %d", b.memoryMiB)
	}
	b.options.Workers = runtime.GOMAXPROCS(0)
	if b.builder, err = keyset.NewSegmentBuilder(&b.options); err != nil {
		return nil, cli.Usage("%s", cli.PlainText(err))
	}
	for _, name := range args[1:] {
		f, err := b.input.of(b.app, cmd, name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, b.checkTarget(args[0])
}

// checkTarget refuses a name that a segment cannot have.
func (b *segmentBuilder) checkTarget(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return cli.Usage("%s is a directory, not a segment", name).WithHint("name a file")
	case err == nil && !info.Mode().IsRegular():
		return cli.Usage("%s is not a regular file", name).WithHint("name another file")
	case err == nil && !b.force:
		return cli.Usage("%s exists", name).
			WithHint("name another file, or replace it with --force")
	case err == nil:
		return nil
	}
	if dir, err := os.Stat(filepath.Dir(name)); err != nil || !dir.IsDir() {
		return cli.Usage("there is no directory %s for the segment", filepath.Dir(name)).
			WithHint("make it first")
	}
	return nil
}

func (b *segmentBuilder) run(cmd *cobra.Command, args []string) error {
	files, err := b.prepare(cmd, args)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilStopped(cmd.Context())
	defer stop()
	start := time.Now()
	for i, name := range args[1:] {
		if err := b.read(ctx, files[i], name); err != nil {
			return b.end(err)
		}
	}
	if err := b.save(ctx, args[0]); err != nil {
		return b.end(err)
	}
	b.sum.Seconds = time.Since(start).Seconds()
	if err := b.print(args[0], time.Since(start)); err != nil {
		return err
	}
	return b.end(nil)
}

// end returns the error of the command.
func (b *segmentBuilder) end(err error) error {
	return bulk.Reading{Rejected: b.sum.Rejected}.Verdict(err,
		"all others are in the segment; correct these lines and build it again",
		"no segment was written")
}

// read adds the keys of one file.
func (b *segmentBuilder) read(ctx context.Context, f *keyInput, name string) error {
	in, size, err := bulk.OpenInput(b.app, name)
	if err != nil {
		return err
	}
	defer in.Close()
	keys := bulk.NewIntake(b.app, f.database(), &f.ImportFlags, name, size, "reading")
	err = keys.Run(ctx, in, func(_ context.Context, items []engine.Item) error {
		return b.add(name, items)
	})
	r := keys.End(b.app)
	b.sum.Read += r.Read
	b.sum.Rejected += r.Rejected
	b.sum.Expired += r.Expired
	return err
}

// Memory of a build, measured: what the builder holds and what building takes, for each
// key. The figures are stated in the help and in docs/cli.md.
const (
	bytesPerInt = 50
	bytesPerKey = 110 // and twice its length
)

// add adds keys, and fails when they take too much memory.
func (b *segmentBuilder) add(name string, items []engine.Item) error {
	if err := singleKey(name, items); err != nil {
		return err
	}
	for i := range items {
		key := items[i].Key.PK
		b.builder.AddBytes(key)
		b.long = b.long || len(key) != 8
		b.keyLen += int64(len(key))
	}
	n := int64(b.builder.Len())
	b.held = bytesPerInt * n
	if b.long {
		b.held = bytesPerKey*n + 2*b.keyLen
	}
	if (b.held-1)>>20 >= b.memoryMiB {
		return cli.Advise(fmt.Errorf("%s: %s take more than the %d MiB of --memory", name,
			figure.Plural(n, "key"), b.memoryMiB),
			"no segment was written; make several segments of fewer keys, or raise --memory")
	}
	return nil
}

// save builds the segment and gives it its name.
func (b *segmentBuilder) save(ctx context.Context, name string) error {
	added := int64(b.builder.Len())
	if added == 0 && b.sum.Rejected > 0 {
		return cli.Advise(errors.New("no record has a key"),
			"no segment was written; check --key, --format and -i")
	}
	var seg *keyset.Segment
	err := b.app.Busy(cli.Work{Doing: "building"}, func() (err error) {
		seg, err = b.builder.Build()
		return err
	})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = b.checkTarget(name)
	}
	if err != nil {
		return err
	}
	b.sum.Keys, b.sum.Repeated = int64(seg.Len()), added-int64(seg.Len())
	b.sum.Bytes = seg.SizeBytes()
	return seg.Save(name)
}

func (b *segmentBuilder) print(name string, took time.Duration) error {
	s := &b.sum
	if b.app.Format == "json" {
		return b.app.PrintJSON(s)
	}
	r := bulk.Reading{Read: s.Read, Rejected: s.Rejected, Expired: s.Expired, Took: took}
	_, err := fmt.Fprintf(b.app.Out, "%s; %s has %s\n", r.Text(fmt.Sprintf(": %s, %s repeated",
		figure.Plural(s.Keys, "key"), figure.Count(s.Repeated)), ""), name,
		figure.Bytes(int64(s.Bytes)))
	return err
}
