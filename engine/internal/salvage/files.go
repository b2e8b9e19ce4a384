package salvage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/wal"
)

// salvageFile is an SST to read.
type salvageFile struct {
	name  string // in the directory; another than the file's own if files were exchanged
	id    sst.Identity
	known *base.FileMeta // by the manifest, nil if that does not know
}

// presentFile is an SST in the directory.
type presentFile struct {
	name string
	id   sst.Identity
	err  error // why the footer is unreadable; id then has what the name says
}

// survey finds out which database this is and which files belong to it.
func (r *Repair) survey() error {
	var err error
	if r.names, err = r.in.List(r.src); err != nil {
		return err
	}
	ssts, err := r.findFiles()
	if err != nil {
		return err
	}
	votes, err := r.votes(ssts)
	if err != nil {
		return err
	}
	most, tied := winner(votes)
	m, err := manifest.Salvage(r.in, r.src, most)
	if err != nil {
		return err
	}
	r.state, r.whole = m.State, m.Whole
	if r.state != nil {
		r.dbid = r.state.DBID
	} else {
		r.dbid = most
	}
	if r.dbid == [16]byte{} {
		return fmt.Errorf("%s: %w: no file in it is one of a database", r.src,
			manifest.ErrNotDatabase)
	}
	if tied && !r.whole {
		r.Doubt("there are %d files of each of several databases: those of %x are taken",
			votes[most], r.dbid)
	}
	for _, err := range m.Damage {
		r.lose(Loss{File: fileOf(err, r.src), Offset: offsetOf(err), What: "manifest", Stripe: -1,
			Err: err})
	}
	if r.state == nil {
		r.Doubt("there is no manifest: all SSTs found are taken; what merges had replaced cannot" +
			" be distinguished from what they made, so deleted items may be back")
		r.Doubt("properties, such as the schema of the command line, are lost with the manifest")
	}
	r.choose(ssts)
	return nil
}

// findFiles lists the SSTs with what their footers say.
func (r *Repair) findFiles() (all []presentFile, err error) {
	for _, name := range r.names {
		stripe, num, ok := base.ParseSSTName(name)
		if !ok {
			continue
		}
		f := presentFile{name: name}
		f.id, f.err = sst.ReadIdentity(r.in, filepath.Join(r.src, name))
		if f.err != nil && !errors.Is(f.err, corrupt.ErrCorrupt) && !vfs.Unreadable(f.err) {
			return nil, f.err
		}
		if f.err != nil {
			f.id = sst.Identity{Num: num, Stripe: stripe}
		}
		all = append(all, f)
	}
	return all, nil
}

// votes counts the files of each database that has some here.
func (r *Repair) votes(ssts []presentFile) (map[[16]byte]int, error) {
	count, err := wal.Databases(wal.Options{FS: r.in, Dir: r.src})
	if err != nil {
		return nil, err
	}
	for _, f := range ssts {
		if f.err == nil {
			count[f.id.DBID]++
		}
	}
	return count, nil
}

// winner returns the database of most files. If several have as many, tied, it is the lowest
// of them, so that the same files give the same result.
func winner(votes map[[16]byte]int) (id [16]byte, tied bool) {
	for candidate, n := range votes {
		switch most := votes[id]; {
		case n > most:
			id, tied = candidate, false
		case n == most && n > 0:
			tied = true
			if bytes.Compare(candidate[:], id[:]) < 0 {
				id = candidate
			}
		}
	}
	return id, tied
}

// choose decides which files are read. If the manifest is to be believed they are those
// that it names; otherwise every file of the database.
func (r *Repair) choose(ssts []presentFile) {
	here := map[base.FileNum]presentFile{}
	for _, f := range ssts {
		if f.err != nil || f.id.DBID == r.dbid {
			other, twice := here[f.id.Num]
			own := f.name == base.SSTName(f.id.Stripe, f.id.Num)
			if !twice || f.err == nil && (own || other.err != nil) {
				here[f.id.Num] = f
			}
			continue
		}
		r.Doubt("%s belongs to another database and is left out", f.name)
	}
	missing, newer := 0, 0
	if r.state != nil {
		for meta := range r.state.Files() {
			f, ok := here[meta.Num]
			if !ok {
				missing++
				r.loseFile(meta)
				continue
			}
			f.id = sst.Identity{DBID: r.dbid, Num: meta.Num, Stripe: meta.Stripe}
			r.files = append(r.files, salvageFile{f.name, f.id, meta})
			delete(here, meta.Num)
		}
		for num := range here {
			if num >= r.state.NextFile {
				newer++
			}
		}
		if r.whole && (missing == 0 || newer == 0) {
			r.keepNewer(here)
			return
		}
	}
	if r.state != nil && len(here) > 0 {
		r.Doubt("the manifest is damaged or an older one: the %d SSTs that it does not name are"+
			" taken, too; deleted items may be back", len(here))
	}
	for _, f := range here {
		f.id.DBID = r.dbid
		r.files = append(r.files, salvageFile{f.name, f.id, nil})
	}
}

// keepNewer notes the files that came after the manifest, for addNewer to decide.
func (r *Repair) keepNewer(here map[base.FileNum]presentFile) {
	for num, f := range here {
		if num >= r.state.NextFile {
			f.id.DBID = r.dbid
			r.newer = append(r.newer, salvageFile{f.name, f.id, nil})
		}
	}
}

// addNewer takes the SSTs that came after an intact manifest, unless the log holds what they
// hold. If it does they are what a crash has left of a flush or merge whose edit did not
// happen. Otherwise the manifest is an older one of the same database.
func (r *Repair) addNewer() error {
	for _, f := range r.newer {
		in, err := sst.Salvage(r.in, filepath.Join(r.src, f.name), f.id, nil)
		if vfs.Unreadable(err) {
			r.lose(Loss{File: f.name, Offset: -1, What: "file", Stripe: int(f.id.Stripe), Err: err})
			continue
		} else if err != nil {
			return err
		}
		newest, entries := in.MaxSeq, in.Entries+uint64(len(in.Ranges))
		if err := in.Close(); err != nil {
			return err
		}
		if entries == 0 || r.logWhole && newest <= r.lastSeq {
			continue
		}
		r.files = append(r.files, f)
		r.Doubt("%s is newer than the manifest, and the log does not hold all that it may hold:"+
			" it is taken, too; deleted items may be back", f.name)
	}
	return nil
}

// loseFile notes an SST that is not there.
func (r *Repair) loseFile(m *base.FileMeta) {
	l := Loss{
		File: m.Name(), Offset: -1, What: "file", Stripe: int(m.Stripe), Entries: m.Entries,
		First: orderedBound(m.Smallest), Last: orderedBound(m.Largest),
		Err: corrupt.New(m.Name(), -1, "database", "the file", "no such file"),
	}
	r.lose(l)
	r.poorer[m.Stripe] = true
	if m.RangeTombstones > 0 {
		r.lose(Loss{File: m.Name(), Offset: -1, What: "range deletes", Stripe: int(m.Stripe),
			Entries: m.RangeTombstones, Err: l.Err})
	}
}

// lostBlocks notes the parts of an SST that could not be read.
func (r *Repair) lostBlocks(f *salvageFile, lost []sst.LostBlock) {
	for _, b := range lost {
		l := Loss{
			File: f.name, Offset: b.Offset, What: "data block", Stripe: int(f.id.Stripe),
			First: orderedBound(b.First), Last: orderedBound(b.Last), Entries: b.Entries,
			Err: b.Err,
		}
		if b.Ranges {
			l.What = "range deletes"
		}
		r.lose(l)
		r.poorer[f.id.Stripe] = true
	}
}

// fileOf returns the file that an error of damage names.
func fileOf(err error, otherwise string) string {
	var c *corrupt.Error
	if errors.As(err, &c) && c.File != "" {
		return filepath.Base(c.File)
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return filepath.Base(p.Path)
	}
	return filepath.Base(otherwise)
}

func offsetOf(err error) int64 {
	var c *corrupt.Error
	if errors.As(err, &c) {
		return c.Offset
	}
	return -1
}
