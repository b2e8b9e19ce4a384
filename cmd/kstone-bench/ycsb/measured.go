package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pingcap/go-ycsb/pkg/ycsb"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	ycsbpage "github.com/kstonedb/kstone/cmd/kstone-bench/internal/ycsb"
	"github.com/kstonedb/kstone/internal/histogram"
)

// measured takes the times of a store's operations and counts what fails. Why not what go-ycsb
// measures by: it takes a lock for each operation.
type measured struct {
	ycsb.DB
	reads, writes, scans histogram.Histogram
	errors               atomic.Int64
}

// figures are what a page has of the operations of a workload.
func (m *measured) figures() result.Figures {
	f := result.Figures{ycsbpage.Failed: float64(m.errors.Load())}
	for i, t := range []*histogram.Histogram{&m.reads, &m.writes, &m.scans} {
		op, s := ycsbpage.Operations()[i], t.Snapshot()
		if s.Count() > 0 {
			f[ycsbpage.P50(op)] = float64(s.Quantile(0.5).Nanoseconds()) / 1e3
			f[ycsbpage.P99(op)] = float64(s.Quantile(0.99).Nanoseconds()) / 1e3
		}
	}
	return f
}

// note is deferred: it takes the time of an operation that returns err.
func (m *measured) note(t *histogram.Histogram, start time.Time, err *error) {
	t.Record(time.Since(start))
	if *err != nil {
		m.errors.Add(1)
	}
}

func (m *measured) Read(ctx context.Context, table, key string, fields []string) (
	row map[string][]byte, err error) {
	defer m.note(&m.reads, time.Now(), &err)
	return m.DB.Read(ctx, table, key, fields)
}

func (m *measured) Scan(ctx context.Context, table, start string, n int, fields []string) (
	rows []map[string][]byte, err error) {
	defer m.note(&m.scans, time.Now(), &err)
	return m.DB.Scan(ctx, table, start, n, fields)
}

func (m *measured) Update(ctx context.Context, table, key string,
	values map[string][]byte) (err error) {
	defer m.note(&m.writes, time.Now(), &err)
	return m.DB.Update(ctx, table, key, values)
}

func (m *measured) Insert(ctx context.Context, table, key string,
	values map[string][]byte) (err error) {
	defer m.note(&m.writes, time.Now(), &err)
	return m.DB.Insert(ctx, table, key, values)
}
