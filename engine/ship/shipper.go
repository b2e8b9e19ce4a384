package ship

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/wal"
)

// Options configure a Shipper. Nil and zero values are the defaults.
type Options struct {
	// Interval is how often what is new is shipped, if anything is, so that a lost machine costs
	// the commits of this time. 0 means a second.
	Interval time.Duration
	// BaseEvery is the age of a base at which the next is made, if there are commits after it. 0
	// means 24 hours. A base is also made when the log since the last one is as long as the
	// database, and at least 64 MiB.
	BaseEvery time.Duration
	// Keep is how long a moment stays restorable. 0 means 7 days, a negative one for ever.
	Keep time.Duration
	// BeginAgain makes Start succeed with a new base where it would return ErrGap.
	BeginAgain bool
	// Timeout bounds one operation of the destination, and a put for each MiB, a content that is
	// read for each part of it, a list tenfold. 0 means 30 seconds.
	Timeout time.Duration
	// OnError, if not nil, is called without locks held with a *SilentError when the shipper has
	// had no success for two intervals, and with what ends it.
	OnError func(error)
	// Logger, if not nil, gets the same, and what is begun and removed.
	Logger *slog.Logger

	upkeepEvery time.Duration // how often merges and retention are looked at
	mergeAge    time.Duration // of objects that are merged
	mergeFan    int           // neighbours that are made one object
	tidyAge     time.Duration // of objects that nothing refers to and that are removed
	minBaseLog  int64         // the least log after which a base is made before its time
}

func init() {
	source.Hurry = func(options any, every time.Duration) {
		o := options.(*Options)
		o.upkeepEvery, o.mergeAge, o.tidyAge = every, time.Nanosecond, time.Nanosecond
		o.mergeFan = 3
	}
}

func (o *Options) withDefaults() (Options, error) {
	var p Options
	if o != nil {
		p = *o
	}
	p.Interval = cmp.Or(p.Interval, time.Second)
	p.BaseEvery = cmp.Or(p.BaseEvery, 24*time.Hour)
	p.Keep = cmp.Or(p.Keep, 7*24*time.Hour)
	p.Timeout = cmp.Or(p.Timeout, defaultTimeout)
	p.upkeepEvery = cmp.Or(p.upkeepEvery, 20*time.Second)
	p.mergeAge = cmp.Or(p.mergeAge, time.Minute)
	p.mergeFan = cmp.Or(p.mergeFan, 32)
	p.tidyAge = cmp.Or(p.tidyAge, time.Hour)
	p.minBaseLog = cmp.Or(p.minBaseLog, 64<<20)
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	if p.Interval < 0 || p.BaseEvery < 0 || p.Timeout < 0 {
		return p, invalid("Interval %v, BaseEvery %v, Timeout %v: none is negative", p.Interval,
			p.BaseEvery, p.Timeout)
	}
	return p, nil
}

// Shipper copies a database to a destination as long as it runs. Its methods may be called
// concurrently.
type Shipper struct {
	db       *engine.DB
	src      *source.Source
	dest     Destination
	o        Options
	epoch    uint64
	id       uint64           // of the destination
	consumer *engine.Consumer // nil: the database is opened read-only
	headers  headers          // of the upkeep goroutine

	end     end         // of the run goroutine, as those below
	r       *wal.Reader // of the records from next on; nil: to be made
	next    base.SeqNum
	pending *header // of the object that is to be put next, nil: to be made
	object  []byte
	packed  []byte        // a record on its way into object
	slot    atomic.Uint64 // of end

	kick   chan struct{}
	copies chan *pinned         // bases that the upkeep goroutine is to make
	rounds chan chan<- struct{} // asks for upkeep, for tests
	sums   map[string][32]byte  // of SSTs; of the upkeep goroutine
	placed map[[32]byte]uint64  // numbers of SST objects of this shipper, by hash; of the same
	puts   uint64               // the last such number
	lost   bool                 // the last base is damaged; of the upkeep goroutine
	tidied bool                 // what other shippers left was removed; of the upkeep goroutine
	stop   context.CancelCauseFunc
	ended  chan struct{}
	work   sync.WaitGroup
	begin  time.Time
	alarm  alarm

	mu      sync.Mutex
	m       Metrics       // guarded by mu
	lastErr error         // guarded by mu; of the last attempt
	fatal   error         // guarded by mu
	changed chan struct{} // guarded by mu: closed when m or fatal change
	based   *pinned       // guarded by mu: the base that m.Bases waits for
	stale   bool          // guarded by mu: the writing process has let based go
	chained base.SeqNum   // guarded by mu: all commits below are in objects; 0: none follows based

	failing     time.Time // guarded by mu: since when upkeep fails; zero: it does not
	upkeepCause error     // guarded by mu
}

// end is where the chain of log objects ends.
type end struct {
	slot       uint64 // of the next object
	prev       uint64
	seq        base.SeqNum
	history    uint64
	ms         int64
	properties uint32
	based      bool // there is a base before
	alone      bool // no object follows that yet
}

// Start ships a database to a destination until Close: a base first, and every commit from then
// on. Nil options mean the defaults. The log must be retained: see engine.Options.RetainBytes. The
// shipper is one of the consumers of the database; where it ended is known to the destination, and
// the next Start goes on there. To ship no more, drop the consumer, which Metrics names.
//
// A database that is opened read-only is shipped beside the process that writes it. Then there is
// no consumer: from one shipper to the next, log stays as long as engine.Options.RetainAge says.
//
// Start returns when the destination is this shipper's: others that ship to it end with ErrFenced.
func Start(db *engine.DB, d Destination, o *Options) (*Shipper, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Shipper{db: db, src: source.Of(db), dest: &timed{d, opts.Timeout}, o: opts,
		headers: headers{},
		kick:    make(chan struct{}, 1), ended: make(chan struct{}), begin: now(),
		alarm:   alarm{"shipping", opts.Logger, opts.OnError},
		changed: make(chan struct{}), sums: map[string][32]byte{}, placed: map[[32]byte]uint64{},
		copies: make(chan *pinned, 1), rounds: make(chan chan<- struct{})}
	if s.src.Beside && s.src.Visible {
		return nil, invalid("the database is opened with Visible: what a power cut may take back " +
			"is not shipped")
	}
	if !s.src.History.On() {
		return nil, invalid("the log is not retained: choose engine.Options.RetainBytes, or the " +
			"setting retain-bytes")
	}
	// Why for as long as it runs: the log is not closed while a reader is open.
	ctx, stop := context.WithCancelCause(context.Background())
	s.stop = stop
	ctx, done, err := db.Background(ctx)
	if err == nil {
		if err = s.claim(ctx); err != nil {
			done()
		}
	}
	if err != nil {
		stop(err)
		return nil, err
	}
	s.o.Logger.Info("shipping begins", "epoch", s.epoch, "version", s.end.seq,
		"consumer", s.m.Consumer)
	s.work.Go(func() { s.run(ctx, done) })
	return s, nil
}

// claim takes the destination over for this shipper, and finds where to continue.
func (s *Shipper) claim(ctx context.Context) error {
	if err := s.identify(ctx); err != nil {
		return err
	}
	for {
		epochs, err := s.dest.List(ctx, epochPrefix) // first: what a later one does is not missed
		if err != nil {
			return err
		}
		s.epoch = 1
		for _, e := range epochs {
			if n, ok := parseEpochName(e.Name); ok {
				s.epoch = max(s.epoch, n+1)
			}
		}
		found, err := s.look(ctx)
		if err != nil {
			return err
		}
		// Before the epoch is taken: the shipper of this history goes on if another one is refused.
		if err := s.goOn(found); err != nil {
			return err
		}
		h := header{kind: kindEpoch, dbid: s.src.DBID, epoch: s.epoch, ms: s.src.NowMs()}
		err = s.putOnce(ctx, epochName(s.epoch), h.encode(nil))
		if errors.Is(err, errExist) {
			continue
		} else if err != nil {
			return err
		}
		// Again, since the shipper before went on: it removes nothing from here on. What it still
		// puts is found by its slot (see meet), but not what it has merged before.
		if found, err = s.look(ctx); err == nil {
			err = s.goOn(found)
		}
		if err != nil {
			return err
		}
		return s.join()
	}
}

// identify checks that the destination belongs to this database, and claims a new one.
func (s *Shipper) identify(ctx context.Context) error {
	for torn := 0; ; torn++ {
		h, _, err := get(ctx, s.dest, destinationName, kindDestination)
		if err == nil {
			if h.dbid != s.src.DBID {
				return fmt.Errorf("%w: it has database %x, this is %x: name an empty destination",
					ErrOther, h.dbid, s.src.DBID)
			}
			s.id = h.epoch
			s.m.Consumer = fmt.Sprintf("ship %016x", s.id)
			return nil
		}
		if isDamage(err) { // of the first Start, torn
			if torn >= attempts {
				return err
			}
			if err := s.removeTorn(ctx, err); err != nil {
				return err
			}
		} else if !errors.Is(err, errNotExist) {
			return err
		}
		var id [8]byte
		_, _ = rand.Read(id[:]) // never fails
		h = header{kind: kindDestination, dbid: s.src.DBID,
			epoch: binary.LittleEndian.Uint64(id[:]), ms: s.src.NowMs()}
		err = s.putOnce(ctx, destinationName, h.encode(nil))
		if err != nil && !errors.Is(err, errExist) {
			return err
		}
	}
}

// removeTorn removes the object with the identity of the destination, unless there are others.
func (s *Shipper) removeTorn(ctx context.Context, err error) error {
	for _, prefix := range []string{epochPrefix, basePrefix, logPrefix, sstPrefix} {
		if infos, lerr := s.dest.List(ctx, prefix); lerr != nil || len(infos) > 0 {
			return cmp.Or(lerr, err)
		}
	}
	return s.dest.Delete(ctx, destinationName)
}

// goOn finds the end of what was shipped, and checks that this database has it and all after it.
func (s *Shipper) goOn(found *survey) error {
	e := end{slot: found.slot}
	if n := len(found.bases); n > 0 {
		b := &found.bases[n-1]
		e.seq, e.history, e.ms, e.properties = b.seq, b.history, b.ms, b.properties
	}
	if n := len(found.chain); n > 0 {
		o := &found.chain[n-1]
		e.prev, s.chained = o.lastSlot, o.seq+1
		if o.seq >= e.seq {
			e.seq, e.history, e.ms, e.properties = o.seq, o.history, o.ms, o.properties
		}
		e.based = len(found.bases) > 0 && found.last(&found.bases[len(found.bases)-1]).Version ==
			uint64(o.seq)
	} else if len(found.bases) > 0 {
		e.based, s.chained = true, e.seq+1 // the log went, since the base has it
	}
	s.end = e
	s.slot.Store(e.slot)
	if len(found.bases) == 0 && len(found.chain) == 0 {
		return nil
	}
	err := s.check(e.seq, e.history)
	var gone *engine.GoneError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &gone):
		return err
	case gone.Other:
		return fmt.Errorf("%w: its last commit is %s, this database ends with %d: name an empty "+
			"destination", ErrOther, e.position(), gone.Newest)
	}
	// What this database remembers to have shipped is of its history: no copy has consumers, and
	// none goes on in the same segment.
	for _, c := range s.db.Consumers() {
		if c.Name == s.m.Consumer && c.Position.History == e.history && e.history != 0 {
			s.end.based = false
			return nil
		}
	}
	if !s.o.BeginAgain {
		return fmt.Errorf("%w: version %d was shipped, %d is the oldest that is retained: ship "+
			"with BeginAgain for a new base", ErrGap, e.seq, gone.Oldest)
	}
	s.end.based = false
	return nil
}

// position is the next change.
func (e *end) position() engine.Position {
	return engine.Position{Version: uint64(e.seq) + 1, History: e.history}
}

// join makes the shipper a consumer.
func (s *Shipper) join() (err error) {
	at := s.end.position()
	if !s.end.based {
		last := s.src.Log.LastSeq()
		// Why: a position after commits that the power takes back would let go of log before it.
		if err := s.src.Log.Sync(last); err != nil {
			return err
		}
		at = s.src.History.At(last)
	}
	s.m.Bases, s.m.Restorable = s.end.based, uint64(s.end.seq)
	if s.src.Beside {
		s.m.Consumer = ""
		return nil
	}
	if !s.db.Follows() { // what was a follower's is written now: nothing moves its mark any more
		err = s.db.DropConsumer(markName)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return err
		}
	}
	if s.consumer, err = s.db.Consumer(s.m.Consumer, at); err != nil {
		return err
	}
	if !s.end.based {
		return nil // see rebase
	}
	return s.ack(at)
}

// ack lets the log go that is shipped.
func (s *Shipper) ack(at engine.Position) error {
	if s.consumer == nil {
		return nil
	}
	return s.consumer.Ack(at)
}

// Close ships what is not shipped yet, unless ctx ends, and ends the shipper. The error says what
// was not shipped.
func (s *Shipper) Close(ctx context.Context) error {
	began := now()
	err := s.wait(ctx, func() bool { return s.m.LastSuccess.After(began) && s.m.Bases })
	s.stop(errClosed)
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && !errors.Is(s.fatal, errClosed) {
		err = s.fatal
	}
	return err
}

var errClosed = errors.New("ship: the shipper is closed")

// WaitFor returns when the state after a commit is restorable from the destination. The error is
// the cause of ctx, or what has ended the shipper.
func (s *Shipper) WaitFor(ctx context.Context, version uint64) error {
	return s.wait(ctx, func() bool { return s.m.Restorable >= version && s.m.Bases })
}

// wait returns when done, called with mu held, returns true.
func (s *Shipper) wait(ctx context.Context, done func() bool) error {
	select {
	case s.kick <- struct{}{}:
	default:
	}
	return waitUntil(ctx, nil, s.Err, func() (bool, <-chan struct{}, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return done(), s.changed, s.fatal
	})
}

// Ended is closed when the shipper has ended, by Close, that of the database, or an error that
// is final, such as ErrFenced. Err returns it.
func (s *Shipper) Ended() <-chan struct{} { return s.ended }

// Err returns what has ended the shipper, unless that is Close, or a *SilentError if it has had no
// success for two intervals.
func (s *Shipper) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.fatal, errClosed) {
		return nil
	} else if s.fatal != nil {
		return s.fatal
	}
	if err := overdue(s.begin, s.m.LastSuccess, s.o.Interval, s.lastErr); err != nil {
		return err
	}
	if since := s.failing; !since.IsZero() && now().Sub(since) > 2*s.o.Interval {
		return &SilentError{Since: since, Cause: s.upkeepCause}
	}
	return nil
}

// now is the wall clock: silence and age are not measured by that of the database, which tests
// turn.
func now() time.Time { return time.Now() }

// state returns Err, and whether that has ended the shipper.
func (s *Shipper) state() (err error, ended bool) {
	err = s.Err()
	s.mu.Lock()
	defer s.mu.Unlock()
	return err, s.fatal != nil
}
