package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

// Durability names what an acknowledged write survives.
type Durability uint8

const (
	// DefaultDurability stands for the database's level, or, in Options, for Sync.
	DefaultDurability Durability = iota
	// Sync: acknowledged after fdatasync. Survives power cuts. Concurrent writers
	// share one sync. A write at Sync makes everything acknowledged before it durable as
	// well, also when it changes nothing: an empty batch or range, a transaction without
	// writes, a condition that fails.
	Sync
	// Process: acknowledged once the operating system has the bytes. Survives a
	// kill of the process; a power cut may lose the last moments (never the middle).
	Process
)

// String returns the level's name.
func (d Durability) String() string {
	switch d {
	case Sync:
		return "sync"
	case Process:
		return "process"
	}
	return "default"
}

// Compression chooses the codec of data blocks.
type Compression uint8

const (
	// DefaultCompression is Snappy.
	DefaultCompression Compression = iota
	// NoCompression stores blocks as they are.
	NoCompression
	// LZ4 decodes up to twice as fast as Snappy and takes two to four times as long to encode.
	LZ4
	// Zstd is smaller and slower.
	Zstd
	// Snappy is the fastest to encode. Whatever the codec, blocks that do not shrink
	// are stored as they are.
	Snappy
)

// NoLargeValue as Options.LargeValue keeps all values with their keys.
const NoLargeValue = -1

// NoFilter as Options.FilterBits makes files without filters.
const NoFilter = -1

// NoRetention as Options.RetainBytes ends the retention of log, as RetainAge that of log which no
// consumer needs, as RetainVersions that of versions.
const NoRetention = -1

// RetainLimit says what gives way when consumers need more log than Options.RetainBytes, or older
// log than Options.ConsumerAge.
type RetainLimit uint8

const (
	// DropConsumers: the oldest log goes. A consumer that needs it gets ErrGone. The default.
	DropConsumers RetainLimit = iota + 1
	// WaitForConsumers: writers wait, as for LogBytes, until the slowest consumer has gone on or
	// is dropped. On a full disk what consumers need stays, too, and deletes may find no room.
	WaitForConsumers
)

// Options configure Open. The zero value of every field is its default, or what the
// database stores of it. Open works on a copy.
type Options struct {
	// ReadOnly opens an existing database for reading, whether or not another process writes it, or
	// begins to. Any number of processes may. What they see are whole commits up to a moment less
	// than 100 ms ago, and durable ones: see DB.Refresh. They write nothing but leases, for which
	// the writing process keeps files (ReaderBytes), and never delay it. The file system must be a
	// local one.
	ReadOnly bool
	// Visible shows commits of another process with ReadOnly as soon as its own readers see them. A
	// power cut may take those at Process back.
	Visible bool
	// InMemory keeps everything in memory, in a file system of the database's own:
	// the same engine, gone with Close. The directory name is only a label.
	InMemory bool
	// MustExist refuses to create a database (ErrNotExist).
	MustExist bool

	// Durability is the level of writes that do not name one. Default Sync.
	Durability Durability

	// Memory is how much memory the database may make the process take, with the garbage that Go's
	// collector leaves at GOGC=100, and without files in the cache of the system: at least 64 MiB.
	// It sets MemtableBytes, CacheBytes, FileBytes, MaxOpenFiles, CompactionWorkers, and what a
	// query of tables may keep, if they are 0. Several queries at a time take more, and above 256
	// MiB ordered scans of many runs. 0 means the defaults of these, about 1.2 GiB in all.
	Memory int64
	// MemtableBytes is the memory budget of all write buffers together, 64 MiB by
	// default, at least 1 MiB. Writers are slowed when flushes are late; memory
	// stays below twice the budget plus the largest commit.
	MemtableBytes int64
	// FlushRecords makes a stripe flush when its buffer holds that many records.
	// 0 means no such limit.
	FlushRecords int
	// LogBytes is the budget of the log on disk. Default 3 × MemtableBytes, at
	// least 8 MiB. It bounds the time to reopen after a crash. Files of the log that are
	// over and cannot be removed do not count: writers do not wait for them.
	LogBytes int64
	// CacheBytes is the budget for decoded blocks, indexes and filters. Default 256 MiB. What
	// files take beside them, about 800 bytes each, counts up to three quarters of it.
	CacheBytes int64
	// MaxOpenFiles bounds the file handles held for SSTs. Default 4096. It is lowered to what
	// the process may have open, less some for the program and for other files.
	MaxOpenFiles int

	// RetainBytes retains log that is not needed for recovery any more, for change streams: see
	// DB.Changes: what a consumer needs and, with RetainAge, the rest. It is the most bytes of it
	// on the disk; a stream that reads a segment of the log keeps that in addition. 0 means what
	// the database stores, at first NoRetention. Each Open begins a segment then. On a full disk
	// the retained log gives way.
	RetainBytes int64
	// RetainAge is the age up to which log is retained that no consumer needs. 0 means what the
	// database stores, at first NoRetention.
	RetainAge time.Duration
	// ConsumerAge is the age up to which log is retained for consumers that have not gone on. 0
	// means what the database stores, at first NoRetention, which is any age.
	ConsumerAge time.Duration
	// RetainLimit is what happens at RetainBytes and ConsumerAge. 0 means what the database stores.
	RetainLimit RetainLimit

	// RetainVersions keeps overwritten and deleted versions so long, at least, that the database
	// can be read as it was: see DB.SnapshotAt. It is at least a second. 0 means what the
	// database stores, at first NoRetention.
	RetainVersions time.Duration

	// ReaderBytes is the most that is kept on the disk for processes that read the database beside
	// this one: files that merges have replaced, and log. Default 1 GiB. Beyond it, and for what is
	// older than ReaderAge, an hour by default, the oldest goes, and reads that need it fail with
	// ErrStale. It goes on a full disk, too.
	ReaderBytes int64
	ReaderAge   time.Duration

	// The six options that follow say how files are written. They belong to the database, as those
	// of what is retained: a value other than zero is stored in it, and zero means what is stored.
	// The default is for a database that stores nothing. See DB.Settings.

	// BlockBytes is the target size of a data block before compression, 1 KiB to
	// 1 MiB. Default 4 KiB.
	BlockBytes int
	// FileBytes is the size at which a merge starts its next SST, 64 KiB to 4 GiB.
	// Default 64 MiB. A file whose index or range tombstones would become too large for
	// one block ends before.
	FileBytes int64
	// Compression of data blocks. Default Snappy.
	Compression Compression
	// BottomCompression is the codec of old data: of the runs that are the result of a merge
	// with the oldest run of their stripe. Flushes, and merges of young runs alone, use
	// Compression. Default: the same as Compression.
	BottomCompression Compression
	// FilterBits is the fingerprint size of the filters, 8 (0.4 % false positives,
	// 9 bits a key) or 16 (0.002 %, 18 bits), or NoFilter: each lookup of a key then reads
	// a block of every run whose range of keys holds it. Default 8.
	FilterBits int
	// LargeValue is the size from which values are kept apart from their keys: merges then rewrite
	// keys alone, and a value when much of its file is garbage, and reads without values, KeysOnly,
	// are fast. Such values have no zones. Below 1 KiB it costs more than it saves. Default
	// NoLargeValue: all lie with their keys.
	LargeValue int
	// MaxRuns is the number of sorted runs of a stripe that starts a merge. Default 4.
	MaxRuns int

	// CompactionWorkers is the number of merges at a time. Default: half the
	// processors, at least 1.
	CompactionWorkers int
	// CompactionBytesPerSecond limits what merges write. 0 means no limit.
	CompactionBytesPerSecond int64

	// Logger receives life-cycle events. Nil discards them.
	Logger *slog.Logger
	// Events are called, without locks held, when something happens. Nil is fine.
	Events *Events
	// Clock returns the present; expiry is measured with it. It is called concurrently. Where it
	// goes back by up to a minute, the time stands still. Nil means time.Now.
	Clock func() time.Time
}

const (
	// leastMemory is the least Options.Memory.
	leastMemory = 64 << 20
	// ownMemory is what of it the budgets do not bound: the program, a flush, a merge, what is
	// known of some thousand files.
	ownMemory = 28 << 20
)

// live returns how much may live at a time with Memory: half, since the collector lets the heap
// grow to twice that. Shares: a third for write buffers, which may take twice their budget, half
// for the cache with the map of slots, a sixth for a query of tables.
func (o *Options) live() int64 { return (o.Memory - ownMemory) / 2 }

// shareMemory sets the budgets that Memory bounds.
func (o *Options) shareMemory() {
	if o.Memory < leastMemory {
		return
	}
	fill(&o.MemtableBytes, o.live()/6)
	fill(&o.CacheBytes, o.live()*8/17)                  // and a sixteenth of it for slots
	fill(&o.FileBytes, min(o.live()/3, 64<<20))         // the cache is for many indexes
	fill(&o.MaxOpenFiles, int(min(o.Memory>>17, 4096))) // 2 KiB each, most in the kernel
	fill(&o.CompactionWorkers, int(max(1, min(o.Memory>>28, int64(runtime.GOMAXPROCS(0)/2)))))
}

// withDefaults validates o and returns a filled copy.
func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Durability <= Process, "Durability %d is unknown", c.Durability)
	check(c.Compression <= Snappy, "Compression %d is unknown", c.Compression)
	check(c.BottomCompression <= Snappy, "BottomCompression %d is unknown", c.BottomCompression)
	fill(&c.Durability, Sync)
	fill(&c.Compression, Snappy)
	fill(&c.BottomCompression, c.Compression)
	check(c.Memory == 0 || c.Memory >= leastMemory, "Memory %d is below 64 MiB", c.Memory)
	c.shareMemory()
	fill(&c.MemtableBytes, 64<<20)
	check(c.MemtableBytes >= 1<<20, "MemtableBytes %d is below 1 MiB", c.MemtableBytes)
	check(c.FlushRecords >= 0, "FlushRecords %d is negative", c.FlushRecords)
	fill(&c.LogBytes, max(3*c.MemtableBytes, 8<<20))
	check(c.LogBytes >= 8<<20, "LogBytes %d is below 8 MiB", c.LogBytes)
	fill(&c.CacheBytes, 256<<20)
	check(c.CacheBytes >= 0, "CacheBytes %d is negative", c.CacheBytes)
	fill(&c.MaxOpenFiles, 4096)
	check(c.MaxOpenFiles >= 16, "MaxOpenFiles %d is below 16", c.MaxOpenFiles)
	fill(&c.BlockBytes, 4<<10)
	check(c.BlockBytes >= 1<<10 && c.BlockBytes <= 1<<20,
		"BlockBytes %d is outside 1 KiB to 1 MiB", c.BlockBytes)
	fill(&c.FileBytes, 64<<20)
	check(c.FileBytes >= 64<<10 && c.FileBytes <= 4<<30,
		"FileBytes %d is outside 64 KiB to 4 GiB", c.FileBytes)
	fill(&c.FilterBits, 8)
	check(c.FilterBits == 8 || c.FilterBits == 16 || c.FilterBits == NoFilter,
		"FilterBits %d is neither 8 nor 16 nor NoFilter (%d)", c.FilterBits, NoFilter)
	check(c.LargeValue >= NoLargeValue && c.LargeValue <= MaxValueBytes,
		"LargeValue %d is outside 1 byte to 64 MiB", c.LargeValue)
	c.LargeValue = max(c.LargeValue, 0)
	fill(&c.MaxRuns, 4)
	check(c.MaxRuns >= 2 && c.MaxRuns <= 64, "MaxRuns %d is outside 2 to 64", c.MaxRuns)
	fill(&c.CompactionWorkers, max(1, runtime.GOMAXPROCS(0)/2))
	check(c.CompactionWorkers > 0, "CompactionWorkers %d is negative", c.CompactionWorkers)
	check(c.RetainBytes >= NoRetention, "RetainBytes %d is negative", c.RetainBytes)
	check(c.RetainBytes <= 0 || c.RetainBytes >= 1<<20, "RetainBytes %d is below 1 MiB",
		c.RetainBytes)
	check(min(c.RetainAge, c.ConsumerAge) >= NoRetention, "RetainAge or ConsumerAge is negative")
	check(c.RetainLimit <= WaitForConsumers, "RetainLimit %d is unknown", c.RetainLimit)
	check(c.RetainVersions == 0 || c.RetainVersions == NoRetention ||
		c.RetainVersions >= time.Second, "RetainVersions %v is below a second", c.RetainVersions)
	c.RetainBytes, c.RetainVersions = max(c.RetainBytes, 0), max(c.RetainVersions, 0)
	c.RetainAge, c.ConsumerAge = max(c.RetainAge, 0), max(c.ConsumerAge, 0)
	fill(&c.RetainLimit, DropConsumers)
	fill(&c.ReaderBytes, 1<<30)
	fill(&c.ReaderAge, time.Hour)
	check(c.ReaderBytes > 0, "ReaderBytes %d is negative", c.ReaderBytes)
	check(c.ReaderAge > 0, "ReaderAge %v is negative", c.ReaderAge)
	check(c.CompactionBytesPerSecond >= 0, "CompactionBytesPerSecond is negative")
	c.fillCalls()
	if len(errs) > 0 {
		return c, fmt.Errorf("%w: options: %w", ErrInvalid, errors.Join(errs...))
	}
	return c, nil
}

// fillCalls sets what the database calls.
func (o *Options) fillCalls() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Events == nil {
		o.Events = &Events{}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
}

// fill sets *p to def if it is zero.
func fill[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// Events are callbacks for what happens in the background. Any may be nil. They are
// called without locks held, from the goroutine that did the work, which goes on when
// they return: keep them short. They may use the database, but not close it, except
// for ReadOnly, which has a goroutine of its own. Do not write in Flushed and Compacted under
// a load that slows writers down or on a disk that may become full: the write waits for
// flushes and merges, which wait for the callback. Write in another goroutine.
type Events struct {
	// Flushed is called after memtables were written to SSTs.
	Flushed func(FlushEvent)
	// Compacted is called after runs of a stripe were merged.
	Compacted func(CompactionEvent)
	// Stalled is called in a writer's goroutine after it had to wait for flushes or
	// compactions, before it writes.
	Stalled func(time.Duration)
	// ReadOnly is called once if a failed write or sync turns the database
	// read-only, with the cause.
	ReadOnly func(error)
}

// FlushEvent describes a flush of a group of stripes.
type FlushEvent struct {
	Stripes  int   // stripes flushed together
	Bytes    int64 // file bytes written
	Duration time.Duration
}

// CompactionEvent describes a merge of runs of one stripe.
type CompactionEvent struct {
	Stripe       int
	Runs         int // runs that became one, or none if nothing was left
	BytesRead    int64
	BytesWritten int64
	Duration     time.Duration
}
