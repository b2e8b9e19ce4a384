package overview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Source is a database, and how it is described.
type Source struct {
	DB *engine.DB
	// Name is the name of its directory, and Version that of the program.
	Name, Version string
	Now           time.Time
	// Keys are the fields of the keys of items, as flags of an import; "" if they are not known.
	Keys string
	// FormatPK returns the partition key of an item for people; nil means the bytes as text.
	FormatPK func(pk []byte) string
	// MaxExact is up to how many records are counted one by one; beyond it the figures are
	// those of the files.
	MaxExact uint64
	// Follow, if not nil, is around the items that are counted, of about total.
	Follow func(total int64, items iter.Seq2[engine.Item, error]) iter.Seq2[engine.Item, error]
	// Probe also lets filters and zone maps work, by some thousand lookups.
	Probe bool
}

// Data is what is known about a database.
type Data struct {
	Path, Made, Version string

	Exact      bool
	Items      int64 // that were put by key, or all if not Exact
	LiveBytes  int64 // keys and values; 0 if not Exact
	Partitions int64
	Metrics    engine.Metrics
	Keys       string
	Settings   []engine.Setting

	Stripes [256]stripe
	Largest []*Partition
	Owners  []*share
	Filters filterProbe
	Zones   zoneProbe
	Advice  []advice

	now time.Time
}

// stripe is one of the 256 trees.
type stripe struct {
	Items, Bytes int64
	Files        []file // newest first
}

// file is a data file.
type file struct {
	Name  string
	Bytes int64
	Made  time.Time
}

// share is what a table, an index or the items outside of tables take.
type share struct {
	*Share
	Kind       string // "rows", "entries" or "items"
	About      string
	Statistics string
}

// filterProbe is what filters have answered for keys that are not there.
type filterProbe struct {
	Lookups                 int
	Checks, Negatives       uint64
	FalsePositives, Reading uint64
}

// zoneProbe is what zone maps have left for a scan for what the newest commit has changed.
type zoneProbe struct{ Read, Blocks int64 }

// Collect gathers everything about an open database.
func Collect(ctx context.Context, src Source) (*Data, error) {
	owners, err := OwnersOf(ctx, src.DB)
	if err != nil {
		return nil, err
	}
	r := &Data{Path: src.Name, Made: src.Now.Format("2 January 2006, 15:04 MST"), now: src.Now,
		Version: src.Version, Metrics: src.DB.Metrics(), Settings: src.DB.Settings(),
		Keys: src.Keys}
	if r.Exact = r.Metrics.Total.Records <= src.MaxExact; r.Exact {
		if err := r.count(ctx, src, owners); err != nil {
			return nil, err
		}
	} else {
		for i := range r.Stripes {
			m := &r.Metrics.Stripes[i]
			r.Stripes[i].Items, r.Stripes[i].Bytes = int64(m.Records), m.RawBytes
			r.Items += int64(m.Records)
		}
	}
	if err := r.readFiles(src.DB.Dir()); err != nil {
		return nil, err
	}
	if src.Probe {
		if err := r.probe(ctx, src.DB); err != nil {
			return nil, err
		}
	}
	r.Advice = adviceFor(r)
	return r, nil
}

// count reads all items.
func (r *Data) count(ctx context.Context, src Source, owners *Owners) error {
	c := Census{Tally: Tally{Owners: owners}, Top: top,
		Size: func(p *Partition) int64 { return p.Bytes }}
	all := src.DB.Scan(ctx, engine.Scan{Unordered: true})
	if src.Follow != nil {
		all = src.Follow(int64(r.Metrics.Total.Records), all)
	}
	for item, err := range all {
		if err != nil {
			return err
		}
		c.Add(item)
	}
	c.Done(src.formatPK)
	r.LiveBytes, r.Partitions, r.Largest = c.Bytes, c.Outer, c.Largest
	for i, s := range c.Stripes {
		r.Stripes[i].Items, r.Stripes[i].Bytes = s.Items, s.Bytes
	}
	statistics := map[string]string{}
	for _, t := range owners.Tables { // also those without rows
		for _, owner := range ownersOf(t) {
			c.shareOf(owner)
		}
		statistics[Owner{Table: t.Table}.Name()] = t.Statistics
	}
	for _, s := range c.Shares {
		r.Owners = append(r.Owners, newShare(s, statistics[s.Name]))
		if !s.owner.Inner() {
			r.Items = s.Count
		}
	}
	slices.SortFunc(r.Owners, func(x, y *share) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), strings.Compare(x.Name, y.Name))
	})
	return nil
}

// ownersOf returns a table and its indexes.
func ownersOf(t OwnedTable) []Owner {
	all := []Owner{{Table: t.Table}}
	for _, x := range t.Indexes {
		all = append(all, Owner{Table: t.Table, Index: x})
	}
	return all
}

func newShare(of *Share, statistics string) *share {
	s, o := &share{Share: of, Kind: "items", Statistics: statistics}, of.owner
	switch {
	case o.Index != nil:
		s.Kind, s.About = "entries", IndexText(o.Table, o.Index)
	case o.Table != nil:
		s.Kind = "rows"
		s.About = fmt.Sprintf("%d columns, partition key %s, sort key %s", len(o.Table.Columns),
			PartitionText(o.Table), KeyColumnsText(o.Table, o.Table.SK))
	}
	return s
}

// formatPK returns the partition key of an item for people.
func (s *Source) formatPK(pk []byte) string {
	if s.FormatPK == nil {
		return string(pk)
	}
	return s.FormatPK(pk)
}

// top is how many of the largest partitions are shown.
const top = 20

// readFiles lists the data files, which have their stripe in their name. A database in memory has
// none.
func (r *Data) readFiles(dir string) error {
	fsys := vfs.OS()
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		number, _, _ := strings.Cut(name, "-")
		n, err := strconv.Atoi(number)
		if err != nil || filepath.Ext(name) != ".sst" || n > 255 {
			continue
		}
		info, err := fsys.Stat(filepath.Join(dir, name))
		if err != nil {
			continue // merged meanwhile
		}
		s := &r.Stripes[n]
		s.Files = append(s.Files, file{name, info.SizeBytes, info.Modified()})
	}
	for i := range r.Stripes {
		slices.SortFunc(r.Stripes[i].Files, func(a, b file) int { return b.Made.Compare(a.Made) })
	}
	return nil
}

// Each of some stored keys is looked up with so many endings, which make it an absent key.
const (
	probes  = 200
	endings = 10
)

// probe lets filters and zone maps work. Why keys beside those that are there: others are outside
// of the bounds of files, and no filter is asked.
func (r *Data) probe(ctx context.Context, d *engine.DB) error {
	keys, err := sampleKeys(ctx, d)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	before := d.Metrics()
	for _, key := range keys {
		for range endings {
			other := engine.Key{PK: key.PK, SK: slices.Clone(key.SK)}
			other.SK = strconv.AppendUint(other.SK, rng.Uint64(), 36)
			if len(other.SK) > engine.MaxKeyBytes-len(key.PK) {
				continue
			}
			r.Filters.Lookups++
			if _, err := d.Has(other); err != nil {
				return err
			}
		}
	}
	m := d.Metrics()
	r.Filters = filterProbe{r.Filters.Lookups, m.FilterChecks - before.FilterChecks,
		m.FilterNegatives - before.FilterNegatives,
		m.FilterFalsePositives - before.FilterFalsePositives,
		m.BlockHits + m.BlockMisses - before.BlockHits - before.BlockMisses}
	before = m
	newest := engine.Scan{Unordered: true, Since: max(m.LastVersion, 1) - 1}
	if _, err := d.CountScan(ctx, newest); err != nil {
		return err
	}
	m = d.Metrics()
	blocks := int64(1)
	for _, setting := range d.Settings() {
		size, err := figure.ParseBytes(setting.Value)
		if setting.Name == "block-bytes" && err == nil {
			blocks = max((m.Total.RawBytes-m.Total.ValueBytes)/max(size, 1), 1)
		}
	}
	read := int64(m.BlockHits + m.BlockMisses - before.BlockHits - before.BlockMisses)
	r.Zones = zoneProbe{read, max(blocks, read)}
	return nil
}

// shareOf returns n as a part of all, for people.
func shareOf(n, all int64) string {
	if all <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(all))
}

// sampleKeys returns some of the keys, from everywhere.
func sampleKeys(ctx context.Context, d *engine.DB) (keys []engine.Key, err error) {
	snap, err := d.Snapshot()
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	sample := engine.Sample{Parts: probes, Rand: rand.New(rand.NewPCG(1, 2))}
	for item, err := range snap.Sample(ctx, sample) {
		if err != nil {
			return nil, err
		}
		if keys = append(keys, item.Item.Clone().Key); len(keys) > 50*probes {
			break
		}
	}
	for i := range keys { // as many, from everywhere in them
		if i*len(keys)/probes >= len(keys) {
			return keys[:i], nil
		}
		keys[i] = keys[max(i*len(keys)/probes, i)]
	}
	return keys, nil
}
