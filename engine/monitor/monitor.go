package monitor

import (
	"bytes"
	"expvar"
	"fmt"
	"net/http"
	"strconv"

	"github.com/kstonedb/kstone/engine"
)

// Health returns nil if the database can be read and, unless it was opened read-only, written; else
// an error that matches engine.ErrClosed or engine.ErrReadOnly and has the cause. It takes
// microseconds.
func Health(db *engine.DB) error {
	snap, err := db.Snapshot()
	if err != nil {
		return err
	}
	snap.Close()
	if cause := db.Metrics().ReadOnlyCause; cause != nil {
		return fmt.Errorf("%w: %w", engine.ErrReadOnly, cause)
	}
	return nil
}

// HealthHandler answers with 200 and "ok", or with 503 and what is wrong, for the probes of
// orchestrators.
func HealthHandler(db *engine.DB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err := Health(db); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}

// Prometheus answers with the metrics in the text format of Prometheus, version 0.0.4, and with
// those of others, such as ship.Shipper.Samples.
func Prometheus(db *engine.DB, others ...func() []Sample) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		m := db.Metrics()
		samples := Samples(&m)
		for _, of := range others {
			samples = append(samples, of()...)
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(appendHistograms(appendText(nil, samples), Histograms(&m)))
	})
}

// appendText appends samples in the text format.
func appendText(dst []byte, samples []Sample) []byte {
	b := bytes.NewBuffer(dst)
	last := ""
	for _, s := range samples {
		if s.Name != last {
			fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", s.Name, s.Help, s.Name, s.Kind)
			last = s.Name
		}
		b.WriteString(s.Name)
		if s.Label != "" {
			fmt.Fprintf(b, "{%s=%q}", s.Label, s.Of)
		}
		fmt.Fprintf(b, " %s\n", strconv.FormatFloat(s.Value, 'g', -1, 64))
	}
	return b.Bytes()
}

// appendHistograms appends histograms in the text format.
func appendHistograms(dst []byte, all []Histogram) []byte {
	b := bytes.NewBuffer(dst)
	for _, h := range all {
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s histogram\n", h.Name, h.Help, h.Name)
		for i, bound := range h.Bounds {
			fmt.Fprintf(b, "%s_bucket{le=\"%s\"} %d\n", h.Name,
				strconv.FormatFloat(bound, 'g', -1, 64), h.Within[i])
		}
		fmt.Fprintf(b, "%s_bucket{le=\"+Inf\"} %d\n%s_sum %s\n%s_count %d\n", h.Name, h.Count,
			h.Name, strconv.FormatFloat(h.Sum, 'g', -1, 64), h.Name, h.Count)
	}
	return b.Bytes()
}

// Var returns the metrics as a variable for expvar.Publish: an object of names and numbers.
func Var(db *engine.DB) expvar.Var {
	return expvar.Func(func() any {
		m := db.Metrics()
		return Values(&m)
	})
}
