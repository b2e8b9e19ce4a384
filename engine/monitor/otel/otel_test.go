package otel_test

import (
	"context"
	"strconv"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/monitor/otel"
)

// TestProducer reads the metrics as an exporter does, of an open database and of a closed one.
func TestProducer(t *testing.T) {
	db, err := engine.Open("monitored", &engine.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3200 {
		if err := db.Put(engine.K("p", strconv.Itoa(i)), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	reader := metric.NewManualReader(metric.WithProducer(otel.NewProducer(db)))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer func() { _ = provider.Shutdown(context.Background()) }()
	got := collect(t, reader)
	commits, _ := got["kstone_commits"].Data.(metricdata.Sum[float64])
	if len(commits.DataPoints) != 1 || commits.DataPoints[0].Value != 3200 || !commits.IsMonotonic {
		t.Errorf("commits: %+v", commits)
	}
	if m := got["kstone_memtable_bytes"]; m.Unit != "By" {
		t.Errorf("memtables: %+v", m)
	}
	quantiles, _ := got["kstone_write_latency_seconds"].Data.(metricdata.Gauge[float64])
	if len(quantiles.DataPoints) != 4 || quantiles.DataPoints[0].Attributes.Len() != 1 {
		t.Errorf("quantiles: %+v", quantiles)
	}
	writes, _ := got["kstone_write_seconds"].Data.(metricdata.Histogram[float64])
	if len(writes.DataPoints) != 1 {
		t.Fatalf("writes: %+v", writes)
	}
	p, sum := writes.DataPoints[0], uint64(0)
	for _, n := range p.BucketCounts {
		sum += n
	}
	if p.Count == 0 || sum != p.Count || len(p.BucketCounts) != len(p.Bounds)+1 {
		t.Errorf("writes: %+v", p)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, reader); len(got) != 0 {
		t.Errorf("closed: %d metrics", len(got))
	}
}

func collect(t *testing.T, reader metric.Reader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			found[m.Name] = m
		}
	}
	return found
}
