// Package salvage reads what is intact of a damaged database, block by block and log record
// by log record, and writes it as a new one. It also describes single files of a database.
//
// A repair is Survey, ReadLog and Write. It takes what it needs as values: directories,
// the settings to write with, and the state that the new database starts from. Nothing
// in the old database is changed.
package salvage

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
)

// Options say how the new database is written.
type Options struct {
	// State is that of the new database: its identity and settings. Write adds the rest.
	State      *manifest.State
	BlockBytes int
	FileBytes  int64
	FilterBits int
	Codec      sst.Codec
	NowMs      int64 // items that have expired by then are left out
	// Progress is called now and then with how many of the Bytes are done.
	Progress func(done int64)
}

// Repair is the state of one repair.
type Repair struct {
	Report Report // Items is the caller's to count

	in    vfs.FS
	src   string
	names []string // in src
	state *manifest.State
	whole bool // the manifest is intact
	dbid  [16]byte
	files []salvageFile // to be read
	newer []salvageFile // than an intact manifest; to be read if the log is not whole
	// The stripes that have lost something.
	poorer [base.NumStripes]bool
	// Operations of the log, by stripe: those that no file has, and those that files should
	// have, which help if files are damaged.
	log, flushed [base.NumStripes]logOps
	logWhole     bool
	lastSeq      base.SeqNum
	firstLogged  base.SeqNum // of the records in the log, or 0
	gap          base.SeqNum // the last commit that the log lacks, or 0
	superseded   int         // operations from before it that files replace
	lastFiled    base.SeqNum // the highest in the files

	// While it is written: the directory of the new database.
	to   vfs.FS
	dest string
	opts Options
	done int64 // of Bytes
}

// Survey finds out which database is in src, a directory of in, and which files belong to it.
// The error matches manifest.ErrNotDatabase if there is none. Requires: nothing writes to src
// until Write has returned.
func Survey(in vfs.FS, src string) (*Repair, error) {
	r := &Repair{in: in, src: src}
	return r, r.survey()
}

// Settings returns what the manifest stores of them; nil if it cannot be read.
func (r *Repair) Settings() []byte {
	if r.state == nil {
		return nil
	}
	return r.state.Settings
}

// Bytes returns the size of the files that Write reads.
func (r *Repair) Bytes() (sum int64) {
	for i := range r.files {
		sum += r.sizeOf(&r.files[i])
	}
	return sum
}

func (r *Repair) sizeOf(f *salvageFile) int64 {
	info, err := r.in.Stat(filepath.Join(r.src, f.name))
	if err != nil { // it will be reported when it is read
		return 0
	}
	return info.SizeBytes
}

// Write makes a database of what has been found in dest, an empty directory of to. After an
// error dest may hold a part of it, without a CURRENT.
func (r *Repair) Write(ctx context.Context, to vfs.FS, dest string, o Options) error {
	r.to, r.dest, r.opts = to, dest, o
	err := r.write(ctx)
	r.doubtBeginning()
	if r.superseded > 0 {
		r.Doubt("%d operations from before a gap of the log are left out: files hold newer ones of"+
			" their stripes", r.superseded)
	}
	if err != nil {
		return err
	}
	return manifest.WriteSnapshot(to, dest, o.State)
}

func (r *Repair) lose(l Loss) { r.Report.Lost = append(r.Report.Lost, l) }

// Doubt adds to the report what could not be decided.
func (r *Repair) Doubt(format string, args ...any) {
	r.Report.Doubts = append(r.Report.Doubts, fmt.Sprintf(format, args...))
}
