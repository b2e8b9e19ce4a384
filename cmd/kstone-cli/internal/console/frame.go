package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine/console"
	"github.com/kstonedb/kstone/internal/figure"
)

const (
	// topPartitions and topStripes are how many of the hottest are shown.
	topPartitions, topStripes = 8, 8
	// fade is what is left of a count of changes with each sample: what was hot a while ago goes
	// down the list instead of blinking.
	fade, leastHot = 0.7, 0.5
)

// frame holds what one sample needs of those before.
type frame struct {
	partitions map[hotKey]float64
	stripes    [256]float64
}

type hotKey struct {
	pk, owner string
	stripe    uint8
}

func newFrame() *frame { return &frame{partitions: map[hotKey]float64{}} }

// lines describes a sample, and what has happened since the one before, which may be nil.
func (f *frame) lines(before, now *console.Sample) []string {
	f.heat(now)
	r := rates{before: before, now: now}
	if before != nil {
		r.seconds = now.Time.Sub(before.Time).Seconds()
	}
	var out []string
	row := func(name, format string, args ...any) {
		out = append(out, fmt.Sprintf("%-10s %s", name, fmt.Sprintf(format, args...)))
	}
	how := ""
	if now.Reader {
		how = "  read beside the writer"
	}
	out = append(out, fmt.Sprintf("%s  version %s  %s%s", layout.Show([]byte(now.Name)),
		figure.Count(int64(now.Version)), now.Time.Format(time.TimeOnly), how), "")
	if now.Problem != "" {
		row("problem", "%s", layout.Show([]byte(now.Problem)))
	}
	commits := "–"
	if r.seconds > 0 {
		commits = number(float64(now.Version-min(before.Version, now.Version))/r.seconds) + "/s"
	}
	if now.Reader {
		row("commits", "%s", commits)
	} else {
		row("commits", "%s  operations %s  conflicts %s", commits, r.of("operations_total"),
			r.of("conflicts_total"))
		row("reads", "gets %s  queries %s  scans %s", r.of("gets_total"), r.of("queries_total"),
			r.of("scans_total"))
		row("writes", "%s", r.latency("write"))
		row("gets", "%s", r.latency("read"))
		row("stalls", "%s  waiting %s of a second  longest %s", r.of("stalls_total"),
			r.time("stall_seconds_total"), span(r.metric("longest_stall_seconds")))
		row("merging", "flushes %s  merges %s  amplification %.2f",
			r.bytes("flushed_bytes_total"), r.bytes("compaction_written_bytes_total"),
			r.metric("write_amplification"))
	}
	row("memory", "write buffers %s of %s  cache %s of %s%s", r.size("memtable_bytes"),
		r.size("memtable_budget_bytes"), r.size("cache_bytes"), r.size("cache_budget_bytes"),
		r.hits())
	row("disk", "%s in %s, %s  log %s", r.size("disk_bytes"),
		figure.Plural(int64(r.metric("files")), "file"),
		figure.Plural(int64(r.metric("runs")), "run"), r.size("log_bytes"))
	out = append(out, f.hottest()...)
	return append(out, mostRead(now)...)
}

// mostRead lists the partitions that the process reads most.
func mostRead(now *console.Sample) (out []string) {
	for _, r := range now.Read[:min(len(now.Read), topPartitions)] {
		out = append(out, fmt.Sprintf("  %6.1f %%  stripe %3d  %s (%s)", 100*r.Share, r.Stripe,
			layout.Show([]byte(r.PK)), layout.Show([]byte(r.Owner))))
	}
	if len(out) > 0 {
		out = append([]string{"", "partitions read most, of one read in 256"}, out...)
	}
	return out
}

// heat adds what has changed.
func (f *frame) heat(now *console.Sample) {
	maps.DeleteFunc(f.partitions, func(k hotKey, n float64) bool {
		f.partitions[k] = n * fade
		return n*fade < leastHot
	})
	for _, h := range now.Hot {
		f.partitions[hotKey{h.PK, h.Owner, h.Stripe}] += float64(h.Changed)
	}
	for i, n := range now.Changed {
		f.stripes[i] = f.stripes[i]*fade + float64(n)
	}
}

// hottest lists the stripes and partitions that change most.
func (f *frame) hottest() []string {
	stripes := make([]int, 0, 256)
	for i, n := range f.stripes {
		if n >= leastHot {
			stripes = append(stripes, i)
		}
	}
	if len(stripes) == 0 {
		return []string{"", "nothing changes"}
	}
	slices.SortStableFunc(stripes, func(a, b int) int {
		return cmp.Compare(f.stripes[b], f.stripes[a])
	})
	var text []string
	for _, i := range stripes[:min(len(stripes), topStripes)] {
		text = append(text, fmt.Sprintf("%d: %s", i, number(f.stripes[i])))
	}
	out := []string{"", "hottest stripes, by items changed", "  " + strings.Join(text, "  "), "",
		"hottest partitions, by items changed"}
	keys := slices.SortedFunc(maps.Keys(f.partitions), func(a, b hotKey) int {
		return cmp.Or(cmp.Compare(f.partitions[b], f.partitions[a]), strings.Compare(a.pk, b.pk))
	})
	for _, k := range keys[:min(len(keys), topPartitions)] {
		out = append(out, fmt.Sprintf("  %8s  stripe %3d  %s (%s)", number(f.partitions[k]),
			k.stripe, layout.Show([]byte(k.pk)), layout.Show([]byte(k.owner))))
	}
	return out
}

// rates computes figures of two samples.
type rates struct {
	before, now *console.Sample
	seconds     float64
}

func (r *rates) metric(name string) float64 { return r.now.Metrics["kstone_"+name] }

// rate returns the growth of a counter in a second; false if it is not known.
func (r *rates) rate(name string) (float64, bool) {
	if r.before == nil || r.seconds <= 0 {
		return 0, false
	}
	return max(r.metric(name)-r.before.Metrics["kstone_"+name], 0) / r.seconds, true
}

// of returns a rate as text.
func (r *rates) of(name string) string { return r.text(name, number) + "/s" }

// bytes returns a rate of bytes as text.
func (r *rates) bytes(name string) string {
	return r.text(name, func(n float64) string { return figure.Bytes(int64(n)) }) + "/s"
}

// time returns a rate of seconds as text.
func (r *rates) time(name string) string { return r.text(name, span) }

func (r *rates) text(name string, write func(float64) string) string {
	n, ok := r.rate(name)
	if !ok {
		return "–"
	}
	return write(n)
}

// size returns a number of bytes as text.
func (r *rates) size(name string) string { return figure.Bytes(int64(r.metric(name))) }

// latency returns the quantiles of a latency.
func (r *rates) latency(of string) string {
	at := func(q string) string { return span(r.metric(of + "_latency_seconds_" + q)) }
	return fmt.Sprintf("median %s  99 %% %s  99.9 %% %s  longest %s", at("0.5"), at("0.99"),
		at("0.999"), at("1"))
}

// hits returns the part of blocks that were found in the cache.
func (r *rates) hits() string {
	h, ok := r.rate("block_hits_total")
	m, _ := r.rate("block_misses_total")
	if !ok || h+m == 0 {
		return ""
	}
	return fmt.Sprintf("  hits %.0f %%", 100*h/(h+m))
}

// span writes a number of seconds.
func span(s float64) string { return figure.Duration(time.Duration(s * float64(time.Second))) }

// number writes a number with a place after the point if it is small.
func number(n float64) string {
	if n > 0 && n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return figure.Count(int64(n + 0.5))
}
