package ship

import (
	"time"

	"github.com/kstonedb/kstone/engine/monitor"
)

// Metrics is a picture of a shipper at work. Counters begin at zero with Start.
type Metrics struct {
	Consumer string // name among the consumers of the database
	Epoch    uint64
	// Restorable is the last commit that can be restored; 0 until there is a base. Newest is that
	// of the database.
	Restorable, Newest uint64
	// LastSuccess is when the last attempt began that left nothing to ship. Lag is the time since
	// then if there is something to ship.
	LastSuccess time.Time
	Lag         time.Duration
	Bases       bool // whether there is a base
	BasesMade   int  // by this shipper, as what follows
	SSTs        int  // put for bases
	SSTBytes    int64
	// SharedBytes is the size of the SSTs of bases that were there already, BaseBytes that of the
	// bases without SSTs.
	SharedBytes, BaseBytes int64
	LogObjects             int
	LogBytes               int64
	Merges                 int
	MergedBytes            int64
	Removed                int   // objects
	Failures               int   // attempts
	Err                    error // see Shipper.Err
}

// Metrics returns the present figures.
func (s *Shipper) Metrics() Metrics {
	err := s.Err()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.m
	m.Err, m.Epoch, m.Newest = err, s.epoch, uint64(s.src.Log.LastSeq())
	if !m.Bases {
		m.Restorable = 0
	}
	if since := m.LastSuccess; m.Restorable < m.Newest {
		if since.IsZero() {
			since = s.begin
		}
		m.Lag = now().Sub(since)
	}
	return m
}

// Samples returns the metrics for monitor.Prometheus.
func (s *Shipper) Samples() []monitor.Sample {
	m := s.Metrics()
	return append(health("ship", m.LastSuccess, m.Failures, m.Err),
		gauge("ship_lag_seconds", m.Lag.Seconds(), "How long commits wait to be shipped."),
		gauge("ship_restorable_version", float64(m.Restorable),
			"The last commit that can be restored."),
		counter("ship_log_bytes", float64(m.LogBytes), "Bytes of log that were shipped."),
		counter("ship_base_bytes", float64(m.SSTBytes+m.BaseBytes),
			"Bytes of full copies that were shipped."))
}

// Samples returns the metrics for monitor.Prometheus.
func (f *Follower) Samples() []monitor.Sample {
	m := f.Metrics()
	return append(health("follow", m.LastSuccess, m.Failures, m.Err),
		gauge("follow_version", float64(m.Version), "The last commit that the follower has."),
		counter("follow_rebases", float64(m.Rebases),
			"Times that the follower has begun again, since commits were missing."))
}

// health returns what is worth an alert.
func health(of string, success time.Time, failures int, err error) []monitor.Sample {
	last, failing := 0.0, 0.0
	if !success.IsZero() {
		last = float64(success.UnixMilli()) / 1000
	}
	if err != nil {
		failing = 1
	}
	return []monitor.Sample{
		gauge(of+"_failing", failing, "1 after two intervals without success, or for good."),
		gauge(of+"_last_success_timestamp_seconds", last, "Unix time of the last success."),
		counter(of+"_failures", float64(failures), "Attempts that have failed."),
	}
}

func gauge(name string, value float64, help string) monitor.Sample {
	return monitor.Sample{Name: "kstone_" + name, Help: help, Kind: monitor.Gauge, Value: value}
}

func counter(name string, value float64, help string) monitor.Sample {
	return monitor.Sample{Name: "kstone_" + name + "_total", Help: help, Kind: monitor.Counter,
		Value: value}
}
