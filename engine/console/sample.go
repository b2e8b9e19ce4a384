package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/monitor"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/overview"
	"github.com/kstonedb/kstone/keycodec"
)

const (
	// maxChanged is how many changed items a sample looks at, and maxHot how many partitions it
	// names.
	maxChanged = 5000
	maxHot     = 20
)

// Sample is what a database does at a moment.
type Sample struct {
	Name string    `json:"name"`
	Time time.Time `json:"time"`
	// Version is that of the newest commit, whichever process has made it.
	Version uint64 `json:"version"`
	// Reader says that the database is written elsewhere: counters are those of this process.
	Reader bool `json:"reader"`
	// Problem is why the database is not healthy, or "".
	Problem string `json:"problem,omitempty"`
	// Metrics are those of monitor.Values.
	Metrics map[string]float64 `json:"metrics"`
	// Changed counts the items of each stripe that have changed since the version that was asked
	// for, at most 5000 in all, and Hot names the partitions with the most of them.
	Changed [256]int64 `json:"changed"`
	Hot     []Hot      `json:"hot"`
	// Reads counts what this process has read of each stripe of late, and Read names the
	// partitions that it has read most, by a sample: see engine.HotReads.
	Reads [256]int64 `json:"reads"`
	Read  []Read     `json:"read"`
}

// Read is a partition with many reads.
type Read struct {
	PK     string  `json:"pk"`
	Owner  string  `json:"owner"` // the table or index
	Stripe uint8   `json:"stripe"`
	Share  float64 `json:"share"` // of the reads
}

// Hot is a partition with many changes.
type Hot struct {
	PK      string `json:"pk"`
	Owner   string `json:"owner"` // the table or index
	Stripe  uint8  `json:"stripe"`
	Changed int64  `json:"changed"` // items
}

// Source is what samples are taken of.
type Source struct {
	Name   string
	Engine *engine.DB
	Tables *table.DB
	// FormatPK returns the partition key of an item for people.
	FormatPK func(pk []byte) string
}

// Sample takes one at a moment. Since is the version of the one before; 0 looks for no changes.
func (s *Source) Sample(ctx context.Context, now time.Time, since uint64) (*Sample, error) {
	m := s.Engine.Metrics()
	out := &Sample{Name: s.Name, Time: now, Version: m.LastVersion, Reader: s.Engine.Follows(),
		Metrics: monitor.Values(&m), Hot: []Hot{}, Read: []Read{}}
	if err := monitor.Health(s.Engine); err != nil {
		out.Problem = err.Error()
	}
	owners := overview.OwnersIn(s.Tables)
	s.read(out, owners)
	if since == 0 || since >= m.LastVersion {
		return out, nil
	}
	hot := map[string]*Hot{}
	changed := engine.Scan{Unordered: true, Since: since, Limit: maxChanged}
	for item, err := range s.Engine.Scan(ctx, changed) {
		if err != nil {
			return nil, err
		}
		stripe := keycodec.Stripe(item.Key.PK)
		out.Changed[stripe]++
		one := hot[string(item.Key.PK)]
		if one == nil {
			owner := owners.Of(item.Key.PK)
			name := owner.PartitionName(s.FormatPK, item.Key)
			one = &Hot{PK: shorten(name, len(name)), Owner: owner.Name(), Stripe: stripe}
			hot[string(item.Key.PK)] = one
		}
		one.Changed++
	}
	for _, one := range hot {
		out.Hot = append(out.Hot, *one)
	}
	slices.SortFunc(out.Hot, func(a, b Hot) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(a.PK, b.PK))
	})
	out.Hot = out.Hot[:min(len(out.Hot), maxHot)]
	return out, nil
}

// read sets what is read most.
func (s *Source) read(out *Sample, owners *overview.Owners) {
	h := s.Engine.HotReads()
	for i, n := range h.Stripes {
		out.Reads[i] = int64(n)
	}
	for _, p := range h.Partitions[:min(len(h.Partitions), maxHot)] {
		owner := owners.Of(p.PK)
		name := owner.PartitionName(s.FormatPK, engine.Key{PK: p.PK})
		out.Read = append(out.Read, Read{PK: shorten(name, len(name)), Owner: owner.Name(),
			Stripe: keycodec.Stripe(p.PK), Share: float64(p.Reads) / float64(h.Reads)})
	}
}

// sample takes one for a request, which names a version as ?since=.
func (c *Console) sample(r *http.Request) (*Sample, error) {
	since, _ := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64) // 0 if there is none
	ctx, cancel := contextWithin(r, c.o.QueryTime)
	defer cancel()
	s := &Source{c.o.Name, c.e, c.db, c.o.FormatPK}
	return s.Sample(ctx, c.o.Clock(), since)
}

// live answers with a sample.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	s, err := c.sample(r)
	if err != nil {
		fail(w, r, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, http.StatusOK, s)
}
