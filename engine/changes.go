package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine/internal/history"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/wal"
)

// Position is a place in the changes of a database: the change that comes next. A consumer that
// stores it in one step with what it has made of the changes before has each change exactly once.
// The zero Position is that of the first commit. Its fields are
//
//	Version uint64 // of the commit of the next change
//	Index   int    // of the change in it; if the commit has no more, the next commit follows
//	History uint64 // of the change before, as found in another Position; 0 is not checked
//
// The history distinguishes two copies of a database that went on by themselves: a position of
// one copy is an error in the other ([GoneError]), unless it lies before the two parted.
type Position = history.Position

// ParsePosition is the inverse of Position.String.
func ParsePosition(text string) (Position, error) {
	p, err := history.ParsePosition(text)
	if err != nil {
		return p, invalid("%v", err)
	}
	return p, nil
}

// ChangeKind is what a change is.
type ChangeKind = history.Kind

// The kinds of changes. An item that expires makes no further change: ChangePutExpiring has the
// moment.
const (
	ChangePut         = history.Put         // the key has the value
	ChangePutExpiring = history.PutExpiring // the key has the value, up to Expiry
	ChangeDelete      = history.Delete      // the key has no value
	ChangeDeleteRange = history.DeleteRange // no key of its stripe in [Start, End) has one
)

// Change is one operation of a commit. Changes of one commit follow each other, range deletes
// first; applied in this order they make its result. In an iteration a change is valid in the loop
// body only; Clone keeps it. Its fields are
//
//	Version uint64     // of the commit, as Item.Version
//	Index   int        // of the change in the commit, from 0
//	Of      int        // changes in the commit, those that are not selected included
//	Last    bool       // no other change of the commit follows
//	Kind    ChangeKind
//	Key     Key        // but of a ChangeDeleteRange
//	Value   []byte     // of a put
//	Expiry  int64      // of a ChangePutExpiring, Unix milliseconds
//	Start   []byte     // of a ChangeDeleteRange, and End: bounds in ordered form
//	End     []byte     // (docs/format/keys.md); Covers says whether a key is in the range
//	Known   bool       // with ChangesOptions.Before: Before is right
//	Before  *Item      // the item of the key before the commit, nil if there was none
//
// Next is the position after it.
type Change = history.Change

// ConsumerInfo describes a consumer. Its fields are
//
//	Name     string
//	Position Position // the next change that it wants
//	Behind   uint64   // commits from there to the newest
type ConsumerInfo = history.ConsumerInfo

// ErrGone is matched by a *GoneError and a *PastError.
var ErrGone = history.ErrGone

// GoneError reports that changes from a position on are not available: they are not retained any
// more, or the position is one of another history. DB.SnapshotChanges begins again. Its fields are
//
//	Position Position
//	Oldest   uint64 // version of the oldest commit whose changes are retained
//	Newest   uint64 // version of the newest commit
//	Other    bool   // the position is one of another history of the database
type GoneError = history.GoneError

// ChangesOptions select changes. The zero value is all that are durable, now and in future.
type ChangesOptions struct {
	// Visible has commits as soon as readers see them. A power cut may take those at Process
	// back; then their position is that of another history. Of a read-only database it is
	// Options.Visible that counts.
	Visible bool
	// Stop ends the iteration with the commit that is the newest when it begins. Otherwise it
	// waits for the next, also that of another process: less than 100 ms, in a read-only database.
	Stop bool
	// Before has the item that each put or delete replaces, as SnapshotAt of the version before
	// reads it. It needs Options.RetainVersions: what is older than that has Change.Known false.
	// The range of a range delete is read with SnapshotAt.
	Before bool
	// PK selects a partition, SKPrefix sort keys in it that begin so.
	PK, SKPrefix []byte
	// PKPrefix selects the partitions that begin so. Range deletes are selected that may concern
	// what is selected.
	PKPrefix []byte
}

func (o *ChangesOptions) stream() (s history.StreamOptions, err error) {
	if o == nil {
		return s, nil
	}
	if o.PK != nil && o.PKPrefix != nil || o.PK == nil && o.SKPrefix != nil {
		return s, invalid("changes: PK, with or without SKPrefix, or PKPrefix")
	}
	return history.StreamOptions{
		Visible: o.Visible, Stop: o.Stop, PK: o.PK, SK: o.SKPrefix, Prefix: o.PKPrefix,
	}, nil
}

// Changes yields what commits have changed, from a position on, whole commits in the order of
// their versions, and waits for further ones. Nil options mean the defaults. It needs
// Options.RetainBytes. It never delays writers.
//
// At most one error is yielded, and last: the cause of ctx, ErrClosed, or one that matches
// ErrGone. Close of the database waits for the loop body, which must not call it.
func (db *DB) Changes(ctx context.Context, from Position, o *ChangesOptions,
) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		s, err := o.stream()
		if err == nil {
			err = db.changes(ctx, from, s, o, func(c *Change) bool { return yield(*c, nil) })
		}
		if err != nil {
			yield(Change{}, err)
		}
	}
}

func (db *DB) changes(ctx context.Context, from Position, s history.StreamOptions,
	o *ChangesOptions, yield func(*Change) bool) error {
	if err := cmp.Or(usable(ctx), db.retaining()); err != nil {
		return err
	}
	ctx, end, err := db.calls.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if o != nil && o.Before {
		b := before{db: db}
		defer b.close()
		next := yield
		yield = func(c *Change) bool {
			if b.err = b.read(c); b.err != nil {
				return false
			}
			return next(c)
		}
		err = cmp.Or(db.history.Stream(ctx, from, s, yield), b.err)
	} else {
		err = db.history.Stream(ctx, from, s, yield)
	}
	if db.follow != nil && err != nil {
		err = db.follow.Explain(err)
	}
	return err
}

// retaining returns why the database has no changes to show.
func (db *DB) retaining() error {
	switch {
	case db.reads.Closed():
		return ErrClosed
	case !db.history.On():
		return invalid("changes: the log is not retained: choose Options.RetainBytes, or the " +
			"setting retain-bytes")
	}
	return nil
}

// Position returns the position after everything in the snapshot. It has no history, and is not
// checked, if the log is not retained.
func (s *Snapshot) Position() Position { return s.db.history.At(s.moment.Seq()) }

// Consumer is a named reader of changes, for which they are retained until it has acknowledged
// them. Its position is part of the database, but not of a Checkpoint. It is not closed. Its
// methods may be called concurrently.
type Consumer struct {
	db   *DB
	name string
}

// Consumer returns the named consumer. If there is none it is made, durably, at a position.
func (db *DB) Consumer(name string, from Position) (*Consumer, error) {
	if err := db.consumable(name); err != nil {
		return nil, err
	}
	if _, err := db.history.Join(name, from); err != nil {
		return nil, during("consumer", err)
	}
	return &Consumer{db, name}, nil
}

// consumable checks a call that changes consumers.
func (db *DB) consumable(name string) error {
	if err := cmp.Or(db.writable(), db.retaining()); err != nil {
		return err
	}
	if name == "" || len(name) > history.MaxConsumerName || strings.ToValidUTF8(name, "") != name {
		return invalid("consumer %q: want a name of at most %d bytes of UTF-8", name,
			history.MaxConsumerName)
	}
	return nil
}

// SnapshotChanges is the beginning of a copy that is kept up to date: it returns a snapshot, to
// be copied and closed, and the consumer of all changes after it, which is made or moved there.
// Everything in the snapshot is durable.
func (db *DB) SnapshotChanges(ctx context.Context, name string) (*Snapshot, *Consumer, error) {
	if err := cmp.Or(usable(ctx), db.consumable(name)); err != nil {
		return nil, nil, err
	}
	s, err := db.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	c := &Consumer{db, name}
	if err = db.Sync(ctx); err == nil {
		if err = db.history.Move(name, s.Position()); err == nil {
			return s, c, nil
		}
		err = during("consumer", err)
	}
	return nil, nil, errors.Join(err, s.Close())
}

// Consumers describes the consumers, by name.
func (db *DB) Consumers() []ConsumerInfo { return db.history.Consumers() }

// DropConsumer removes a consumer: nothing is retained for it any more. The error matches
// ErrNotFound if there is no consumer of that name.
func (db *DB) DropConsumer(name string) error {
	if err := db.writable(); err != nil {
		return err
	}
	err := db.history.Drop(name)
	if errors.Is(err, history.ErrUnknownConsumer) {
		return ErrNotFound
	}
	return during("consumer", err)
}

// Name returns the name of the consumer.
func (c *Consumer) Name() string { return c.name }

// Position returns the next change that the consumer wants: after the last that it has
// acknowledged, and what was not selected after that. The error is ErrNotFound if the consumer
// was dropped.
func (c *Consumer) Position() (Position, error) {
	for _, info := range c.db.Consumers() {
		if info.Name == c.name {
			return info.Position, nil
		}
	}
	return Position{}, ErrNotFound
}

// Ack acknowledges all changes before the position, which is Change.Next of the last one. It is
// durable after about a second, and with Close: after a crash some changes come again. A
// consumer may go back, as far as changes are retained.
func (c *Consumer) Ack(p Position) error {
	err := c.db.history.Ack(c.name, p)
	if errors.Is(err, history.ErrUnknownConsumer) {
		return ErrNotFound
	}
	return err
}

// Changes is DB.Changes from the position of the consumer on. What is not selected is
// acknowledged with the selected change before it.
func (c *Consumer) Changes(ctx context.Context, o *ChangesOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		s, err := o.stream()
		var from Position
		if err == nil {
			from, err = c.Position()
		}
		if err == nil {
			last := from
			s.Passed = func(p Position) {
				if at, err := c.Position(); err == nil && at == last {
					last = p
					_ = c.Ack(p)
				}
			}
			err = c.db.changes(ctx, from, s, o, func(ch *Change) bool {
				last = ch.Next()
				return yield(*ch, nil)
			})
		}
		if err != nil {
			yield(Change{}, err)
		}
	}
}

// openHistory makes the history of a log that takes commits.
func (db *DB) openHistory(log *wal.Log, dbid [16]byte) error {
	notes, err := db.historyNotes()
	if err == nil && db.opts.RetainBytes > 0 && notes[historySince] == "" {
		since := strconv.FormatUint(uint64(db.lastSeq)+1, 10)
		notes[historySince] = since
		err = db.noteHistory(map[string]string{historySince: since})
	}
	if err != nil {
		return err
	}
	return db.makeHistory(log, dbid, notes, db.storeConsumers)
}

// viewLog makes the history of a database that is opened read-only.
func (db *DB) viewLog(state *manifest.State, tail wal.Tail) error {
	notes, err := db.historyNotes()
	if err != nil {
		return err
	}
	view, err := wal.View(db.walOptions(state), tail)
	if err != nil {
		return err
	}
	if err := db.makeHistory(view, state.DBID, notes, nil); err != nil {
		return err
	}
	db.follow.Start(view)
	return nil
}

func (db *DB) makeHistory(log *wal.Log, dbid [16]byte, notes map[string]string,
	store func(map[string]string) error) (err error) {
	consumers := map[string]string{}
	for name, text := range notes {
		if name, is := strings.CutPrefix(name, historyConsumer); is {
			consumers[name] = text
		}
	}
	since, _ := strconv.ParseUint(notes[historySince], 10, 64)
	db.history, err = history.New(history.Env{
		FS: db.fs, Dir: db.dir, DBID: dbid, Log: log, Logger: db.opts.Logger,
		Leased:  db.upkeep.LeasedFrom,
		Visible: db.reads.Visible, NowMs: db.nowMs, Store: store,
		StoreFloor: db.storeFloor, Keep: db.reads.Keep,
	}, history.Limits{
		Bytes: db.opts.RetainBytes, Age: db.opts.RetainAge,
		Consumers: db.opts.ConsumerAge,
		Wait:      db.opts.RetainLimit == WaitForConsumers, Since: base.SeqNum(since),
		Versions: db.opts.RetainVersions, Floor: floorOf(notes),
	}, consumers)
	return err
}

// keepPast makes a replay keep what is read of the past.
func (db *DB) keepPast() error {
	if db.opts.RetainVersions == 0 {
		return nil
	}
	notes, err := db.historyNotes()
	if floor := floorOf(notes); floor > 0 {
		db.reads.Keep(floor, 0)
	}
	return err
}

// switched takes over a state of the process that writes the database.
func (db *DB) switched(state *manifest.State) {
	before := db.upkeep.State().Settings
	db.upkeep.SetState(state)
	if db.opts.RetainVersions > 0 && !bytes.Equal(before, state.Settings) {
		if notes, err := db.historyNotes(); err == nil {
			db.history.Follow(floorOf(notes))
		}
	}
}

// floorOf returns the noted oldest version that can be read at, 0 if there is none.
func floorOf(notes map[string]string) base.SeqNum {
	floor, _ := strconv.ParseUint(notes[historyFloor], 10, 64)
	return base.SeqNum(floor)
}

func (db *DB) storeFloor(seq base.SeqNum) error {
	if f := db.failure.Load(); f != nil {
		return f
	}
	return db.noteHistory(map[string]string{historyFloor: strconv.FormatUint(uint64(seq), 10)})
}

// historyNotes returns what the manifest says about the history.
func (db *DB) historyNotes() (map[string]string, error) {
	s, err := decodeSettings(db.upkeep.State().Settings)
	if err != nil {
		return nil, err
	}
	notes, err := s.chosen()
	maps.DeleteFunc(notes, func(name, _ string) bool {
		return !strings.HasPrefix(name, historyMark)
	})
	return notes, err
}

// storeConsumers makes positions of consumers durable; an empty one removes the consumer.
func (db *DB) storeConsumers(positions map[string]string) error {
	if f := db.failure.Load(); f != nil {
		return f
	}
	notes := make(map[string]string, len(positions))
	for name, text := range positions {
		notes[historyConsumer+name] = text
	}
	return db.upkeep.Fail(db.noteHistory(notes))
}

// noteHistory changes what the manifest says about the history; an empty text deletes a note.
func (db *DB) noteHistory(notes map[string]string) error {
	var refused error
	err := db.upkeep.Edit(func(state *manifest.State) *manifest.Edit {
		blob, err := withNotes(state.Settings, func(all map[string]string) {
			for name, text := range notes {
				all[name] = text
				if text == "" {
					delete(all, name)
				}
			}
		})
		if refused = err; err != nil {
			return nil
		}
		return &manifest.Edit{Settings: blob}
	})
	return cmp.Or(refused, err)
}

// withNotes returns stored settings with other notes.
func withNotes(stored []byte, change func(map[string]string)) ([]byte, error) {
	s, err := decodeSettings(stored)
	if err != nil {
		return nil, err
	}
	notes, err := s.chosen()
	if err != nil {
		return nil, err
	}
	change(notes)
	return s.withChosen(notes)
}

// withoutConsumers returns stored settings for a copy of the database, for which no consumer comes.
func withoutConsumers(stored []byte) ([]byte, error) { return without(stored, historyConsumer) }

// withoutHistory returns stored settings for a copy of the present alone.
func withoutHistory(stored []byte) ([]byte, error) { return without(stored, historyMark) }

// without returns stored settings without the notes whose names begin with a prefix.
func without(stored []byte, prefix string) ([]byte, error) {
	gone := 0
	blob, err := withNotes(stored, func(notes map[string]string) {
		maps.DeleteFunc(notes, func(name, _ string) bool {
			is := strings.HasPrefix(name, prefix)
			if is {
				gone++
			}
			return is
		})
	})
	if err == nil && gone == 0 {
		blob = stored
	}
	return blob, err
}
