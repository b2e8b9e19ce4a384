package manifest

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// DescribeCurrent writes what a CURRENT file says to w, for people.
func DescribeCurrent(w io.Writer, content []byte) error {
	id, err := decodeCurrent(content)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "format %d, database %x, manifest %s\n",
		formatVersion, id.dbid, Name(id.num))
	return err
}

// Describe writes the records of a manifest file with the given name and content
// to w, one or more lines each with the record's offset; settings returns what to say of
// State.Settings, and may be nil. It stops with a *corrupt.Error at the first record that it
// cannot decode; where that is the last one it may be the trace of a crash.
func Describe(
	w io.Writer, name string, content []byte, settings func([]byte) string,
) error {
	id, err := decodeHeader(name, magicManifest, content)
	if err != nil {
		return err
	}
	out := &printer{w: w, settings: settings}
	out.printf("%8d  format %d, database %x, manifest %d\n", 0, formatVersion, id.dbid, id.num)
	off, num := int64(headerBytes), uint64(0)
	for off < int64(len(content)) && out.err == nil {
		r, err := decodeRecord(name, content, id, off, num)
		if err != nil {
			return errors.Join(out.err, err)
		}
		if err := out.record(name, id, r); err != nil {
			return errors.Join(out.err, err)
		}
		off, num = r.end(), num+1
	}
	return out.err
}

// printer keeps the first error of w.
type printer struct {
	w        io.Writer
	settings func([]byte) string
	err      error
}

func (p *printer) describeSettings(blob []byte) string {
	text := fmt.Sprintf(", settings of %d bytes", len(blob))
	if p.settings != nil {
		if more := p.settings(blob); more != "" {
			text += " (" + more + ")"
		}
	}
	return text
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) record(name string, id identity, r record) error {
	p.printf("%8d  record %d: ", r.off, r.num)
	switch r.typ {
	case typeSnapshot:
		s, err := decodeState(name, id, r)
		if err != nil {
			return err
		}
		p.state(s)
	case typeEdit:
		e, err := decodeEdit(name, id, r)
		if err != nil {
			return err
		}
		p.edit(e)
	case typeSeal:
		p.printf("seal\n")
	default:
		return corrupt.New(name, r.off, "manifest record", "type 1 to 3", r.typ)
	}
	return nil
}

func (p *printer) state(s *State) {
	p.printf("snapshot%s%s\n", p.describeSettings(s.Settings),
		counters(s.NextFile, s.NextRun, s.LogStart, s.LogSeq, s.LastSeq))
	for i := range s.Stripes {
		st := &s.Stripes[i]
		if st.empty() {
			continue
		}
		p.printf("          stripe %03d: flushed %d\n", i, st.FlushedSeq)
		p.runs("", st.Runs)
	}
}

func (p *printer) edit(e *Edit) {
	settings := ""
	if e.Settings != nil {
		settings = p.describeSettings(e.Settings)
	}
	p.printf("edit%s%s\n", settings,
		counters(e.NextFile, e.NextRun, e.LogStart, e.LogSeq, e.LastSeq))
	for i := range e.Stripes {
		se := &e.Stripes[i]
		p.printf("          stripe %03d:", se.Stripe)
		if se.FlushedSeq != 0 {
			p.printf(" flushed %d", se.FlushedSeq)
		}
		for _, id := range se.Remove {
			p.printf(" -run %d", id)
		}
		p.printf("\n")
		p.runs("+", se.Add)
	}
}

func (p *printer) runs(sign string, runs []*Run) {
	for _, r := range runs {
		p.printf("            %srun %d\n", sign, r.ID)
		for _, f := range r.Files {
			p.printf("              %s\n", describeFile(f))
		}
	}
}

// counters prints the numbers that are set.
func counters(f base.FileNum, run, log uint64, logSeq, seq base.SeqNum) string {
	var b strings.Builder
	for _, c := range []struct {
		name string
		v    uint64
	}{{"next file", uint64(f)}, {"next run", run}, {"log start", log}, {"log seq", uint64(logSeq)},
		{"last seq", uint64(seq)}} {
		if c.v != 0 {
			fmt.Fprintf(&b, ", %s %d", c.name, c.v)
		}
	}
	return b.String()
}

func describeFile(f *base.FileMeta) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d bytes [%q, %q] seq %d..%d entries %d", f.Name(), f.SizeBytes,
		f.Smallest, f.Largest, f.MinSeq, f.MaxSeq, f.Entries)
	if f.Tombstones > 0 {
		fmt.Fprintf(&b, " tombstones %d", f.Tombstones)
	}
	if f.RangeTombstones > 0 {
		fmt.Fprintf(&b, " range tombstones %d", f.RangeTombstones)
	}
	if f.TTLEntries > 0 {
		fmt.Fprintf(&b, " expiring %d (%d..%d ms)", f.TTLEntries, f.MinExpiry, f.MaxExpiry)
	}
	for _, v := range f.Values {
		fmt.Fprintf(&b, " values %d of %d bytes in %s", v.Bytes, v.FileBytes,
			base.ValueName(f.Stripe, v.Num))
	}
	return b.String()
}
