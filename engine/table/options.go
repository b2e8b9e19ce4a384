package table

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// Options of a DB. Nil means the defaults.
type Options struct {
	// RefuseFullScan makes queries fail with a *plan.FullScanError that would read a whole
	// table.
	RefuseFullScan bool
	// PlanCache is how many prepared queries are kept; 0 means 1000, negative means no cache.
	PlanCache int
	// MemoryBytes bounds what sorts, groups and joins of one query keep in memory; 0 is what the
	// store says (engine.Options.Memory), or else exec.DefaultMemoryBytes. The rest goes into
	// temporary files of the database, if it has a directory that it writes to: see
	// store.Spiller. Otherwise they are made by Temp, and without it the query ends with an
	// *exec.MemoryError.
	MemoryBytes int64
	// Temp makes a temporary file for a query over a store that has no room for one: a database
	// that is read-only, one in memory, one on other machines. It may be called concurrently.
	Temp func() (store.TempFile, error)
	// Workers bounds the goroutines of one query, as GOMAXPROCS does; 0 is as many as that. 1
	// uses none beside the caller's, and so does a query that reads little.
	Workers int
	// Costs of the planner; nil are plan.DefaultCosts with those of the store: see store.Limits.
	Costs *plan.Costs

	// SampleRows is how many rows are looked at for statistics that are not asked for: of
	// tables that have none, or had many writes since. 0 is 2000; negative leaves statistics to
	// Analyze. Stores whose snapshots are no store.Sampler have none.
	SampleRows int

	// Logger takes slow queries and what happens to indexes; nil discards it.
	Logger *slog.Logger
	// SlowQuery is how long a query may take before it is logged; 0 logs none. The time is
	// that of the whole iteration, the caller's work in its body included.
	SlowQuery time.Duration
	// LogValues adds the values of parameters to logged queries. Without it, only their
	// shape is logged.
	LogValues bool
	// Shapes is how many different queries are counted for Advise; 0 is 500, negative is
	// none.
	Shapes int

	// MaxTxAge is TxOptions.MaxAge of transactions that Begin begins without one, those of BEGIN
	// in statements included; 0 is no limit.
	MaxTxAge time.Duration

	// Lease is for how long a process may read by definitions of tables without looking whether
	// another one has changed them, where several share the storage: see store.Limits.Fences. Drops
	// wait for twice that time. All processes must have the same; 0 is a second.
	Lease time.Duration

	// Clock is the time; nil is time.Now. Expiry is decided by the engine's own clock.
	Clock func() time.Time
}

const (
	defaultPlanCache = 1000
	defaultShapes    = 500
	defaultSample    = 2000
)

// Validate returns what Open refuses the options for. Nil is fine.
func (o *Options) Validate() error {
	_, err := o.complete()
	return err
}

// complete returns a copy with defaults filled in.
func (o *Options) complete() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	var errs []error
	if out.MemoryBytes < 0 {
		errs = append(errs, fmt.Errorf("table: MemoryBytes is %d", out.MemoryBytes))
	}
	if out.Workers < 0 {
		errs = append(errs, fmt.Errorf("table: Workers is %d", out.Workers))
	}
	if out.SlowQuery < 0 {
		errs = append(errs, fmt.Errorf("table: SlowQuery is %s", out.SlowQuery))
	}
	if out.Lease < 0 {
		errs = append(errs, fmt.Errorf("table: Lease is %s", out.Lease))
	}
	out.Lease = cmp.Or(out.Lease, defaultLease)
	if out.MaxTxAge < 0 {
		errs = append(errs, fmt.Errorf("table: MaxTxAge is %s", out.MaxTxAge))
	}
	out.PlanCache = cmp.Or(out.PlanCache, defaultPlanCache)
	out.Shapes = cmp.Or(out.Shapes, defaultShapes)
	out.SampleRows = cmp.Or(out.SampleRows, defaultSample)
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	if out.Clock == nil {
		out.Clock = time.Now
	}
	return out, errors.Join(errs...)
}
