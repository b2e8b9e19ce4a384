// Package history is what a database keeps of its past: the retained log, which change streams
// read, the consumers that it waits for, and the time index.
//
// A History knows the log. All else that it asks of a database is in its Env.
//
// Locks: History.mu guards consumers and the time index. The mutexes of the log and of edits of the
// manifest are taken while it is held, never before it.
package history

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// Env is all that a history may touch of a database. It does not change after New. The functions
// are called concurrently.
type Env struct {
	FS     vfs.FS
	Dir    string
	DBID   [16]byte
	Log    *wal.Log
	Logger *slog.Logger

	// Leased is the lowest segment that processes which read the database need.
	Leased func() wal.SegmentNum
	// Visible is the visible seq.
	Visible func() base.SeqNum
	NowMs   func() int64
	// Store makes positions of consumers durable, by name; an empty one removes the consumer. It
	// is nil if the database is read-only.
	Store func(map[string]string) error
	// StoreFloor makes the oldest moment of the past durable, and Keep makes merges keep what is
	// read from there on. Requires: it is stored. The time is that of the moment.
	StoreFloor func(base.SeqNum) error
	Keep       func(from base.SeqNum, ms int64)
}

// Limits say what is retained. See engine.Options.
type Limits struct {
	Bytes int64 // most bytes of retained segments; 0: nothing is retained
	Age   time.Duration
	// Consumers is the age up to which log is retained for them; 0: any.
	Consumers time.Duration
	Wait      bool // writers wait for consumers at these limits; otherwise consumers are dropped
	// Since is the first seq whose history is known: that of the commit that was next when
	// retention began.
	Since base.SeqNum
	// Versions is how long versions are kept that are not the newest; 0: not at all. Floor is the
	// stored commit from which on they are, 0 if there is none yet.
	Versions time.Duration
	Floor    base.SeqNum
}

// History is the history of one open database. Its methods may be called concurrently.
type History struct {
	env    Env
	limits Limits

	mu        sync.Mutex
	consumers map[string]*consumer // guarded by mu
	times     times                // guarded by mu
	floor     base.SeqNum          // of what is read of the past; guarded by mu
	raised    int64                // when it was, in milliseconds; guarded by mu
	closed    bool                 // positions are stored no more; guarded by mu

	// share is what consumers hold of Limits.Bytes, or their age of Limits.Consumers, in
	// thousandths, if writers wait for them.
	share atomic.Int64
	stop  chan struct{}
	work  sync.WaitGroup
}

// tickEvery is how often the time index gets an entry and positions become durable.
const tickEvery = time.Second

// New returns the history of a database. Stored has the positions of the consumers. If the
// database is not read-only, the caller closes the history before the log.
func New(env Env, limits Limits, stored map[string]string) (*History, error) {
	h := &History{env: env, limits: limits, consumers: map[string]*consumer{},
		stop: make(chan struct{})}
	for name, text := range stored {
		p, err := ParsePosition(text)
		if err != nil {
			return nil, fmt.Errorf("consumer %q: %w", name, err)
		}
		h.consumers[name] = &consumer{stored: p, acked: p}
	}
	if !h.works() {
		return h, nil
	}
	if err := env.Log.Broken(); err != nil {
		env.Logger.Warn("retained log is damaged: changes before the damage are lost", "err", err)
	}
	if err := h.times.open(&h.env); err != nil {
		env.Logger.Warn("the time index begins again", "err", err)
	}
	if limits.Versions > 0 {
		if err := h.openFloor(); err != nil {
			return nil, errors.Join(err, h.times.close())
		}
	}
	if env.Store != nil {
		h.Trim()
		h.work.Go(h.tick)
	}
	return h, nil
}

// Log returns the log, or what there is to see of it in a database that is opened read-only.
func (h *History) Log() *wal.Log { return h.env.Log }

// works reports whether there is a time index.
func (h *History) works() bool { return h.On() || h.limits.Versions > 0 }

// On reports whether anything is retained.
func (h *History) On() bool { return h.limits.Bytes > 0 }

func (h *History) tick() {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-t.C:
		}
		h.mu.Lock()
		h.noteLocked()
		err := h.storeLocked()
		h.mu.Unlock()
		if err != nil {
			h.env.Logger.Warn("positions of consumers are not stored", "err", err)
		}
		if h.limits.Versions > 0 {
			h.raiseFloor()
		}
		h.Trim()
	}
}

// noteLocked enters the newest commit of the present into the time index.
func (h *History) noteLocked() {
	age := max(leastLag, h.limits.Versions, h.limits.Age, h.limits.Consumers)
	h.times.note(h.env.Log.LastSeq(), h.env.NowMs(), age)
}

// Close makes the positions of consumers durable and ends the history.
func (h *History) Close() error {
	close(h.stop)
	h.work.Wait()
	h.mu.Lock() // readers of the past may ask for the times of commits
	defer h.mu.Unlock()
	h.closed = true
	if !h.works() || h.env.Store == nil {
		return h.times.close()
	}
	h.noteLocked()
	return errors.Join(h.storeLocked(), h.times.close())
}

// Trim forgets what no reader needs, and what exceeds the limits, oldest first. Log that is only
// kept for processes that read the database is not its.
func (h *History) Trim() {
	if !h.On() {
		return
	}
	if err := h.env.Log.Forget(h.keepFrom(0)); err != nil {
		h.env.Logger.Warn("remove retained log", "err", err)
	}
}

// GiveUp forgets half of what may be forgotten: the disk is full.
func (h *History) GiveUp() {
	if !h.On() {
		return
	}
	var held int64
	for _, s := range h.env.Log.Retained() {
		held += s.SizeBytes
	}
	if err := h.env.Log.Forget(h.keepFrom(held/2 + 1)); err != nil {
		h.env.Logger.Warn("remove retained log", "err", err)
	}
}

// keepFrom returns the first segment that is to be kept, and notes how much consumers hold. It
// frees at least so many bytes, unless writers wait for the consumers that need them.
func (h *History) keepFrom(free int64) wal.SegmentNum {
	segments := h.env.Log.Retained()
	leased := h.env.Leased()
	h.mu.Lock()
	defer h.mu.Unlock()
	slowest, any := h.slowestLocked()
	now := h.env.NowMs()
	young, most := now-h.limits.Age.Milliseconds(), h.limits.Consumers.Milliseconds()
	var held, share int64
	for _, s := range segments {
		held += s.SizeBytes
	}
	from := wal.SegmentNum(0)
	for _, s := range segments {
		consumer := any && s.LastSeq+1 >= slowest
		at := h.times.of(s.LastSeq, now)
		age := h.limits.Age > 0 && at > young
		if most > 0 && !h.limits.Wait && at <= now-most {
			consumer = false
		}
		over := held > h.limits.Bytes || free > 0
		lease := s.Num >= leased
		if (consumer && h.limits.Wait) || ((consumer || age || lease) && !over) {
			if consumer && h.limits.Bytes > 0 {
				share = held * 1000 / h.limits.Bytes
			}
			if consumer && most > 0 {
				share = max(share, (now-at)*1000/most)
			}
			break
		}
		held -= s.SizeBytes
		free -= s.SizeBytes
		from = s.Num + 1
	}
	if h.limits.Wait {
		h.share.Store(share)
	}
	if from > 0 {
		h.forgetTimesLocked()
	}
	return from
}

// Share returns how much of the limits consumers hold for which writers wait, and the name of the
// slowest of them.
func (h *History) Share() (share float64, name string) {
	n := h.share.Load()
	if n == 0 {
		return 0, ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return float64(n) / 1000, h.slowestNameLocked()
}

// Held returns the bytes and the number of the retained segments.
func (h *History) Held() (bytes int64, segments int) {
	for _, s := range h.env.Log.Retained() {
		bytes += s.SizeBytes
		segments++
	}
	return bytes, segments
}
