package wal_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

// runDamage runs the commands of a script that change files of a log that is not open, and
// show what Recover and Salvage find. Each begins with the files as the last save has left
// them, and may change several places at once: one per line of its input.
//
//	save
//	damage [from=N] [seq=N] [id=N]   the input has lines of the commands below
//	apply                               the same, and the files stay so
//	flips NUM [from=N] [seq=N]          changes each byte of a file alone; those that give the
//	                                    same are one line
//	cuts NUM                            cuts the file at each length
//	payload                             what OpReader says of each beginning of the input,
//	                                    which is hexadecimal, and of each changed byte
//
//	set NUM OFF HEX, zero NUM FROM TO, cut NUM N, remove NUM, copy NUM AS
//	move NUM FROM TO N, twin NUM FROM TO N      bytes of a file; twin leaves the first ones
//	heads NUM FROM TO N                 N copies of the head of a record
//	header NUM, record NUM OFF          make the checksum right
//	bad NUM FROM TO                     the device cannot read these bytes
func (s *script) runDamage(d *datadriven.TestData) (out string, known bool) {
	switch d.Cmd {
	case "save":
		s.saved = snapshot(s.t, s.mem, "db")
		return "ok\n", true
	case "damage", "apply":
		img := s.saved.clone()
		s.bad = badPart{}
		for line := range strings.Lines(d.Input) {
			s.change(img, strings.Fields(line))
		}
		if d.Cmd == "damage" {
			return s.verdict(img, d), true
		}
		s.mem = img.restore(s.t, s.o).FS.(*vfs.MemFS)
		return "ok\n", true
	case "flips":
		return s.eachChange(d, func(b []byte, i int) []byte {
			b[i] ^= 0x21
			return b
		}), true
	case "payload":
		return describePayload(s.t, d.Input), true
	case "cuts":
		return s.eachChange(d, func(b []byte, i int) []byte { return b[:i] }), true
	}
	return "", false
}

// badPart is a part of a file that cannot be read.
type badPart struct {
	file     string
	from, to int64
}

func (p badPart) hook(op vfstest.Op) error {
	if op.Kind == vfstest.OpReadAt && filepath.Base(op.Name) == p.file && op.Offset < p.to &&
		op.Offset+op.Len > p.from {
		return syscall.EIO
	}
	return nil
}

func (s *script) change(img image, f []string) {
	s.t.Helper()
	num := func(i int) int { return int(s.number(f[i])) }
	name := wal.SegmentNum(num(1)).FileName()
	b := img[name]
	switch f[0] {
	case "set":
		value, err := hex.DecodeString(f[3])
		ok(s.t, err)
		copy(b[num(2):], value)
	case "zero":
		clear(b[num(2):num(3)])
	case "cut":
		img[name] = b[:num(2)]
	case "remove":
		delete(img, name)
	case "copy":
		img[wal.SegmentNum(num(2)).FileName()] = slices.Clone(b)
	case "move":
		part := slices.Clone(b[num(2) : num(2)+num(4)])
		clear(b[num(2) : num(2)+num(4)])
		copy(b[num(3):], part)
	case "twin":
		copy(b[num(3):], b[num(2):num(2)+num(4)])
	case "heads":
		for i := range num(4) {
			copy(b[num(3)+24*i:], b[num(2):num(2)+24])
		}
	case "bad":
		s.bad = badPart{name, int64(num(2)), int64(num(3))}
	case "header":
		binary.LittleEndian.PutUint32(b[60:], castagnoli(b[:60]))
	case "record":
		resum(b, num(2))
	default:
		s.t.Fatalf("unknown change %q", f)
	}
}

// eachChange shows the verdicts of all changes at one place of a file.
func (s *script) eachChange(d *datadriven.TestData, change func(b []byte, i int) []byte) string {
	name := wal.SegmentNum(s.number(s.arg(d, 0))).FileName()
	var b strings.Builder
	from, last := 0, ""
	line := func(to int) {
		if to > from {
			fmt.Fprintf(&b, "bytes %d to %d:\n%s", from, to-1, last)
		}
		from = to
	}
	for i := range s.saved[name] {
		img := maps.Clone(s.saved)
		img[name] = change(slices.Clone(img[name]), i)
		if v := varying.ReplaceAllString(s.verdict(img, d), ".."); v != last {
			line(i)
			last = v
		}
	}
	line(len(s.saved[name]))
	return b.String()
}

// describePayload shows the operations of a payload and of changes of it.
func describePayload(t *testing.T, text string) string {
	t.Helper()
	whole, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	ok(t, err)
	say := func(b []byte) string {
		ops, err := readOps(b)
		out := ""
		for _, op := range ops {
			out += fmt.Sprintf("  %v %q %q %q %d %q %q\n", op.Kind, op.PK, op.SK, op.Value,
				op.Expiry, op.Start, op.End)
		}
		if err != nil {
			out += fmt.Sprintf("  %v\n", err)
		}
		return out
	}
	var b strings.Builder
	b.WriteString(say(whole))
	last := ""
	for n := range whole {
		if text := say(whole[:n]); text != last {
			fmt.Fprintf(&b, "from %d bytes on:\n%s", n, text)
			last = text
		}
	}
	for i := range whole {
		c := bytes.Clone(whole)
		c[i] ^= 0xff
		if _, err := readOps(c); err != nil {
			fmt.Fprintf(&b, "byte %d: %v\n", i, err)
		}
	}
	return b.String()
}

// varying is what differs from byte to byte in the errors about headers.
var varying = regexp.MustCompile(`(?m)(checksum [0-9a-f]{8}|got ("[^"]*"|[0-9a-f]{8}|\d+)$)`)

// verdict returns what Recover and Salvage say.
func (s *script) verdict(img image, d *datadriven.TestData) string {
	o := img.restore(s.t, s.o)
	mem := o.FS.(*vfs.MemFS)
	o.FS = vfstest.NewFault(mem, s.bad.hook)
	from, seq := wal.SegmentNum(0), base.SeqNum(1)
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "from":
			from = wal.SegmentNum(s.number(a.Vals[0]))
		case "seq":
			seq = base.SeqNum(s.number(a.Vals[0]))
		case "id":
			o.DBID = [16]byte{byte(s.number(a.Vals[0]))}
		}
	}
	var b strings.Builder
	var seqs []base.SeqNum
	tail, err := wal.Recover(o, from, seq, func(_ wal.SegmentNum, n base.SeqNum, p []byte) error {
		seqs = append(seqs, n)
		return checkFiller(p)
	})
	if err != nil {
		fmt.Fprintf(&b, "  recover: %v\n", err)
	} else {
		fmt.Fprintf(&b, "  recover: %v, to segment %d at %d, last %d, %d torn\n", seqs,
			tail.Segment, tail.Offset, tail.LastSeq, tail.TornBytes)
	}
	seqs = nil
	rep, err := wal.Salvage(o, 0, func(n base.SeqNum, p []byte) error {
		seqs = append(seqs, n)
		return checkFiller(p)
	})
	fmt.Fprintf(&b, "  salvage: %v, synced %d, last %d of %d, %d apart", seqs, rep.Synced,
		rep.LastSeq, rep.Records, rep.Apart)
	if err != nil {
		fmt.Fprintf(&b, ": %v", err)
	}
	b.WriteByte('\n')
	for _, err := range rep.Damage {
		fmt.Fprintf(&b, "    %v\n", err)
	}
	if n := mem.OpenFiles(); n != 0 {
		s.t.Errorf("%d files are open", n)
	}
	return b.String()
}

// filler is what the payloads of a script consist of.
const filler = 'x'

func checkFiller(p []byte) error {
	if len(bytes.Trim(p, string(filler))) > 0 {
		return errors.New("a record has another payload")
	}
	return nil
}
