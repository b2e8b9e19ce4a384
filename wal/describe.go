package wal

import (
	"bufio"
	"fmt"
	"io"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// shownValueBytes is how much of a value Describe prints.
const shownValueBytes = 32

// Describe prints a segment for people: its header, its records with their
// operations, and where and why the records end. It reads f alone, so it cannot tell
// a torn tail from damage. A bad header is returned as a *corrupt.Error; all zeros are
// the header of a segment that waits to be used.
func Describe(f vfs.File, w io.Writer) error {
	r, err := newReader(f, f.Name(), nil)
	if err != nil {
		return err
	}
	h, raw, err := r.header()
	if err != nil {
		if len(raw) == segmentHeader && *(*[segmentHeader]byte)(raw) == [segmentHeader]byte{} {
			_, err = fmt.Fprintf(w, "log segment, prepared and not used yet, %d bytes\n", r.size)
		}
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "log segment %d of database %x, format %d, %d bytes\n",
		h.num, h.dbid, formatVersion, r.size)
	fmt.Fprintf(out, "  use %016x, tag %08x, base sequence number %d\n", h.useID, h.tag(), h.base)
	if h.prev == 0 {
		fmt.Fprintln(out, "  first segment of the log")
	} else {
		fmt.Fprintf(out, "  continues segment %d, which ends at offset %d\n", h.prev, h.prevEnd)
	}
	if err := describeRecords(out, r, &h); err != nil {
		return err
	}
	return out.Flush()
}

func describeRecords(out io.Writer, r *segmentReader, h *header) error {
	off, last, tag := int64(segmentHeader), h.base-1, h.tag()
	for {
		rec, payload, ok, err := r.record(off, tag)
		if err != nil {
			return err
		}
		if !ok || rec.seq != last+1 && !rec.marker() {
			break
		}
		if rec.marker() {
			fmt.Fprintf(out, "%d: marker: synced up to %d\n", off, rec.synced())
		} else {
			fmt.Fprintf(out, "%d: commit %d, %d bytes, synced up to %d then\n",
				off, rec.seq, rec.length, rec.synced())
			describeOps(out, payload)
			last = rec.seq
		}
		off += recordBytes(rec.payloadBytes())
	}
	_, err := fmt.Fprintf(out, "%d: end of the records; last sequence number %d\n", off, last)
	return err
}

func describeOps(out io.Writer, payload []byte) {
	ops, op := NewOpReader(payload), Op{}
	for {
		ok, err := ops.Next(&op)
		if err != nil {
			fmt.Fprintf(out, "    not decodable: %v\n", err)
		}
		if !ok {
			return
		}
		fmt.Fprintf(out, "    %s", op.Kind)
		if op.Kind == base.KindDeleteRange {
			fmt.Fprintf(out, " [%q, %q)\n", op.Start, op.End)
			continue
		}
		fmt.Fprintf(out, " %q", op.PK)
		if op.SK != nil {
			fmt.Fprintf(out, " / %q", op.SK)
		}
		if op.Kind == base.KindPutTTL {
			fmt.Fprintf(out, " expires %d", op.Expiry)
		}
		if op.Value != nil {
			v, more := op.Value, ""
			if len(v) > shownValueBytes {
				v, more = v[:shownValueBytes], "..."
			}
			fmt.Fprintf(out, " = %q%s (%d bytes)", v, more, len(op.Value))
		}
		fmt.Fprintln(out)
	}
}
