// Package otel gives the metrics of a database to OpenTelemetry. It is a module of its own, so that
// programs without OpenTelemetry do not depend on it.
//
//	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(otel.NewProducer(db)))
//	provider := metric.NewMeterProvider(metric.WithReader(reader))
//
// The names are those of package monitor without "_total", the units those of UCUM.
package otel

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/monitor"
)

// scope is what the metrics belong to.
const scope = "github.com/kstonedb/kstone/engine"

// NewProducer returns the metrics of a database, for metric.WithProducer. Counters start at zero
// with Open; their start is reported as now. After the database is closed there are none. It may
// be used concurrently.
func NewProducer(db *engine.DB) metric.Producer {
	return &producer{db: db, start: time.Now()}
}

type producer struct {
	db    *engine.DB
	start time.Time
}

// Produce implements metric.Producer.
func (p *producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if monitor.Health(p.db) != nil && p.db.Metrics().ReadOnlyCause == nil {
		return nil, nil
	}
	m, now := p.db.Metrics(), time.Now()
	out := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: scope}}
	for samples := monitor.Samples(&m); len(samples) > 0; {
		n := 1
		for n < len(samples) && samples[n].Name == samples[0].Name {
			n++
		}
		out.Metrics = append(out.Metrics, p.metric(samples[:n], now))
		samples = samples[n:]
	}
	for _, h := range monitor.Histograms(&m) {
		out.Metrics = append(out.Metrics, p.histogram(&h, now))
	}
	return []metricdata.ScopeMetrics{out}, nil
}

// metric returns the samples of one name.
func (p *producer) metric(samples []monitor.Sample, now time.Time) metricdata.Metrics {
	s := &samples[0]
	var points []metricdata.DataPoint[float64]
	for i := range samples {
		point := metricdata.DataPoint[float64]{Time: now, Value: samples[i].Value}
		if s.Kind == monitor.Counter {
			point.StartTime = p.start
		}
		if s.Label != "" {
			point.Attributes = attribute.NewSet(attribute.String(s.Label, samples[i].Of))
		}
		points = append(points, point)
	}
	out := metricdata.Metrics{Name: strings.TrimSuffix(s.Name, "_total"), Description: s.Help,
		Unit: unitOf(s.Name)}
	if s.Kind == monitor.Counter {
		out.Data = metricdata.Sum[float64]{DataPoints: points, IsMonotonic: true,
			Temporality: metricdata.CumulativeTemporality}
	} else {
		out.Data = metricdata.Gauge[float64]{DataPoints: points}
	}
	return out
}

func (p *producer) histogram(h *monitor.Histogram, now time.Time) metricdata.Metrics {
	counts, before := make([]uint64, 0, len(h.Within)+1), uint64(0)
	for _, n := range h.Within {
		counts, before = append(counts, n-before), n
	}
	return metricdata.Metrics{Name: h.Name, Description: h.Help, Unit: "s",
		Data: metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality,
			DataPoints: []metricdata.HistogramDataPoint[float64]{{StartTime: p.start, Time: now,
				Count: h.Count, Sum: h.Sum, Bounds: h.Bounds,
				BucketCounts: append(counts, h.Count-before)}}}}
}

// unitOf returns the unit that a name of package monitor ends with.
func unitOf(name string) string {
	switch name = strings.TrimSuffix(name, "_total"); {
	case strings.HasSuffix(name, "_bytes"):
		return "By"
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	}
	return "1"
}
