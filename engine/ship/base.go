package ship

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/engine/internal/upkeep"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// # Bases
//
// A base is a Checkpoint whose SSTs are objects: what it has in common with the base before is
// there once, and is not put again. Its log objects are those from a slot on.
//
// The SSTs are put first, then looked for, and the base last: what is listed as a base is whole.
//
// The naive way: an SST object is named by its content, and is shared if it is there. Why it fails:
// a shipper that removes it, since no base has it, may fall asleep, or its request may be on the
// way, until a new base shares it. The way taken: a base shares only what the last base has, which
// nobody removes, and puts everything else under names that were never there before.
//
// A base has no slot, so nothing keeps two shippers from making bases of two histories. The naive
// way: a base is put when its SSTs are there. Why it fails: another copy of the database may have
// taken over meanwhile. The base has commits that are in no object, and counts as more than what
// that copy has shipped. And a follower finds a base where its next commit should be. The way
// taken: a base waits until an object of the log, which has a slot, has its last commit, or begins
// with it if there was none before. So it has nothing that the chain does not have.

// pinned is a state of the database that becomes a base.
type pinned struct {
	copy       *source.Copy
	slot       uint64
	seq        base.SeqNum
	history    uint64
	ms         int64
	properties uint32
	files      []file // manifest and log
}

// pin takes the present state for a base. Objects from a slot on, or later ones, have the commits
// after it. Shipped is the last commit that was, if that is one of this database for certain: its
// history is known also if the log of this database has forgotten it.
func (s *Shipper) pin(ctx context.Context, slot uint64, shipped *header) (*pinned, error) {
	if !s.src.Beside {
		if err := s.db.Flush(ctx); err != nil { // little log is to be copied
			return nil, err
		}
	}
	c, err := s.src.Pin()
	if err != nil {
		return nil, err
	}
	p := &pinned{copy: c, slot: slot, seq: c.Log.LastSeq(), ms: s.src.NowMs(),
		properties: crc32.Checksum(encodeProperties(c.Properties), castagnoli)}
	p.history = s.src.Log.History(p.seq)
	if p.seq == shipped.seq {
		p.history = shipped.history
	}
	if p.files, err = smallFiles(c); err == nil {
		err = s.src.Log.Sync(p.seq) // a base has what is durable
	}
	if last := s.src.Log.LastSeq(); err == nil && p.seq > last {
		err = fmt.Errorf("commits %d to %d cannot be made durable", last+1, p.seq)
	}
	if err = errors.Join(err, c.Log.Unpin()); err != nil {
		c.Release()
		return nil, err
	}
	return p, nil
}

// smallFiles returns log and manifest of a copy. CURRENT is the last.
func smallFiles(c *source.Copy) (files []file, err error) {
	const dir = "copy"
	mem := vfs.NewMem()
	if err = mem.MkdirAll(dir); err != nil {
		return nil, err
	}
	if err = c.Log.CopyTo(mem, dir, nil); err != nil {
		return nil, err
	}
	if err = manifest.WriteSnapshot(mem, dir, c.State); err != nil {
		return nil, err
	}
	names, err := mem.List(dir)
	if err != nil {
		return nil, err
	}
	var last file
	for _, name := range names {
		b, err := readFile(mem, filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		f := file{name: name, size: int64(len(b)), sum: sha256.Sum256(b), content: b}
		if name == manifest.CurrentName {
			last = f
			continue
		}
		files = append(files, f)
	}
	return append(files, last), nil
}

// rebase begins again with a base, which the upkeep goroutine makes: there is none, or commits
// since the last one are lost to the shipper.
//
// Why the consumer stays where it is until something of it is at the destination: if the process
// ends before, the next one proves by the log from there on what was shipped.
func (s *Shipper) rebase(ctx context.Context) error {
	p, err := s.pin(ctx, s.end.slot, &header{})
	if err != nil {
		return err
	}
	s.end.seq, s.end.history, s.end.ms, s.end.properties = p.seq, p.history, p.ms, p.properties
	s.end.based, s.end.alone, s.pending = true, true, nil
	s.mu.Lock()
	s.m.Bases, s.based, s.stale, s.chained = false, p, false, 0
	s.m.Restorable = uint64(p.seq)
	s.mu.Unlock()
	s.dropCopy()
	s.copies <- p
	return nil
}

// dropCopy lets go of the copy that waits to be made a base, if there is one.
func (s *Shipper) dropCopy() {
	select {
	case p := <-s.copies:
		p.copy.Release()
	default:
	}
}

// putBase makes a base. The caller releases the copy.
func (s *Shipper) putBase(ctx context.Context, p *pinned) error {
	infos, err := s.dest.List(ctx, sstPrefix)
	if err != nil {
		return err
	}
	there := sizes(infos)
	shared, err := s.filesOfLast(ctx)
	if err != nil {
		return err
	}
	var files []file
	r := &pacedFile{ctx: ctx, duty: upkeep.BeginDuty()}
	for name, size := range p.copy.State.AllFiles() {
		if s.superseded(p) {
			return errSuperseded
		}
		f := file{name: name, size: size}
		if err := s.putSST(ctx, r, &f, shared, there); err != nil {
			return err
		}
		files = append(files, f)
	}
	clear(s.sums)
	for i := range files {
		s.sums[files[i].name] = files[i].sum
	}
	if infos, err = s.dest.List(ctx, sstPrefix); err == nil {
		err = checkWhole(files, sizes(infos))
	}
	if err != nil {
		return err
	}
	if err := s.follows(ctx, p); err != nil {
		return err
	}
	h := header{kind: kindBase, dbid: s.src.DBID, epoch: s.epoch, slot: p.slot, lastSlot: p.slot,
		from: p.seq, seq: p.seq, history: p.history, ms: p.ms, properties: p.properties}
	object := h.encode(appendFiles(nil, append(files, p.files...)))
	for n, torn := uint64(0), 0; ; n++ {
		name := baseName(p.seq, s.epoch, n)
		err := s.put(ctx, name, object)
		if errors.Is(err, errTorn) {
			torn++
		}
		if errors.Is(err, errTorn) && torn < attempts ||
			errors.Is(err, errExist) && !s.same(ctx, name, object) {
			continue // damaged: the next has another name
		}
		if err != nil && !errors.Is(err, errExist) {
			return err
		}
		break
	}
	s.lost = false // this one is the last
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.BasesMade++
	s.m.BaseBytes += int64(len(object))
	if s.based == p {
		s.m.Bases, s.based = true, nil
	}
	s.changedLocked()
	return nil
}

var errSuperseded = errors.New("ship: another base is made in its place")

// letGo has another base made in place of one whose files are gone.
func (s *Shipper) letGo(p *pinned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = s.stale || s.based == p
}

func (s *Shipper) isStale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stale
}

// superseded reports whether another copy waits to be made a base.
func (s *Shipper) superseded(p *pinned) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.based != nil && s.based != p
}

// follows returns when an object of the log has the last commit of a base, or begins with it.
func (s *Shipper) follows(ctx context.Context, p *pinned) error {
	err := s.wait(ctx, func() bool { return s.chained > p.seq || s.based != nil && s.based != p })
	if err == nil && s.superseded(p) {
		return errSuperseded
	}
	return err
}

// same reports whether an object has a content.
func (s *Shipper) same(ctx context.Context, name string, content []byte) bool {
	b, err := read(ctx, s.dest, name, 0, -1)
	return err == nil && string(b) == string(content)
}
