package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/engine/internal/history"
	"github.com/kstonedb/kstone/engine/internal/upkeep"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
)

// VerifyProgress reports how far Verify has come.
type VerifyProgress struct {
	Files, FilesTotal int
	Bytes, BytesTotal int64
}

// VerifyReport is what Verify has found.
type VerifyReport struct {
	Files   int    // SSTs read in full
	Bytes   int64  // of them
	Entries uint64 // entries in them
	// Unfiltered counts the SSTs that were written without filters, see NoFilter.
	Unfiltered int
	// LogRecords is the number of log records that Open has read and checked.
	LogRecords int64
	// RetainedRecords is the number of records in retained log, which changes are read from.
	RetainedRecords int64
	// Errors holds the damage, one error a file; it is also what Verify returns,
	// joined.
	Errors []error
}

// Verify reads every SST, and the large values that it refers to, and checks all checksums, the
// order of keys, zone maps against content, that filters contain every key, counts, and the
// manifest against the files; every key must belong to its file's stripe. Of retained log it
// checks that it is whole, and all checksums, and of the time index. It goes on after damage and
// reports all of it; the error matches ErrCorrupt then. Progress, if not nil, is called now and
// then. Reads and writes go on meanwhile.
func (db *DB) Verify(ctx context.Context, progress func(VerifyProgress)) (VerifyReport, error) {
	var rep VerifyReport
	if db.reads.Closed() {
		return rep, ErrClosed
	}
	if err := usable(ctx); err != nil {
		return rep, err
	}
	ctx, end, err := db.calls.begin(ctx)
	if err != nil {
		return rep, err
	}
	defer end()
	pin, release, err := db.pin()
	if err != nil {
		return rep, db.reads.Error(err)
	}
	defer release()
	rep.LogRecords = db.logRecords
	var p VerifyProgress
	for f := range pin.State.Files() {
		p.FilesTotal++
		p.BytesTotal += diskBytes(f)
	}
	retained, segments := db.history.Held()
	p.FilesTotal += segments
	p.BytesTotal += retained
	if progress == nil {
		progress = func(VerifyProgress) {}
	}
	for i, v := range pin.Views {
		for _, f := range files(v) {
			var l sst.Layout
			err := verifyFile(ctx, f, uint8(i))
			if err == nil {
				l, err = f.Reader.Layout()
			}
			switch {
			case ctx.Err() != nil:
				return rep, context.Cause(ctx)
			case err != nil:
				rep.Errors = append(rep.Errors, db.reads.Error(err))
			case l.FilterBits == 0:
				rep.Unfiltered++
			}
			rep.Files++
			rep.Bytes += diskBytes(f.Meta)
			rep.Entries += f.Meta.Entries
			p.Files, p.Bytes = rep.Files, rep.Bytes
			progress(p)
		}
	}
	found, err := db.history.Verify(ctx, func(found history.Verified) {
		p.Files, p.Bytes = p.Files+1, rep.Bytes+found.Bytes
		progress(p)
	})
	if err != nil {
		return rep, err
	}
	rep.RetainedRecords = found.Records
	if db.follow == nil || !db.follow.Moved() { // else retained log may have been let go since
		rep.Errors = append(rep.Errors, found.Errors...)
	}
	return rep, errors.Join(rep.Errors...)
}

// pin returns the present state, with what keeps its files until release.
func (db *DB) pin() (p *upkeep.Pinned, release func(), err error) {
	if db.follow != nil {
		return db.follow.Pin()
	}
	if p, err = db.upkeep.Pin(); err != nil {
		return nil, nil, err
	}
	return p, p.Release, nil
}

// diskBytes returns the size of an SST, with what it needs of value files.
func diskBytes(m *base.FileMeta) int64 {
	n := m.SizeBytes
	for _, v := range m.Values {
		n += int64(v.Bytes)
	}
	return n
}

func files(v *stripe.View) (all []*stripe.File) {
	for _, r := range v.Runs {
		all = append(all, r.Files...)
	}
	return all
}

// checkEvery is how many entries pass between two looks at the context.
const checkEvery = 256

// verifyFile checks one SST by itself and its place in the database.
func verifyFile(ctx context.Context, f *stripe.File, id uint8) error {
	if err := f.Reader.Verify(ctx); err != nil {
		return err
	}
	src := f.Reader.NewSource()
	var scratch []byte
	n := 0
	for e := range cursor.All(src) {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n++
		k, buf, err := keycodec.DecodeOrdered(e.Key, scratch[:0])
		scratch = buf
		if err == nil && keycodec.Stripe(k.PK) == id {
			continue
		}
		return &CorruptionError{
			File: f.Meta.Name(), Offset: -1, What: "key",
			Want: fmt.Sprintf("a key of stripe %d", id), Got: fmt.Sprintf("%x", e.Key),
		}
	}
	return src.Err()
}
