// Links is an HTTP service that embeds kstone: short names for addresses, each with a count of
// visits. docs/embedding.md explains it.
//
//	go run ./examples/links links.db
//	curl -X PUT -d https://go.dev localhost:8081/go
//	curl -i localhost:8081/go
//	curl localhost:8081/-/healthz localhost:8081/-/metrics
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"expvar"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/monitor"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: links DB")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// serve runs until ctx ends.
func serve(ctx context.Context, dir string) (err error) {
	db, err := engine.Open(dir, &engine.Options{
		Durability: engine.Sync, // acknowledged writes survive a power cut
		CacheBytes: 64 << 20,
		Logger:     slog.Default(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	expvar.Publish("kstone", monitor.Var(db))

	s := &http.Server{Addr: "localhost:8081", Handler: handler(db, dir+".backups"),
		ReadHeaderTimeout: time.Minute}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		late, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stopped <- s.Shutdown(late) // requests end first, then the database is closed
	}()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// handler serves links, and below /-/ what operators ask for. Pages of other sites can only read.
func handler(db *engine.DB, backups string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /-/metrics", monitor.Prometheus(db))
	mux.Handle("GET /-/healthz", monitor.HealthHandler(db))
	mux.Handle("GET /-/vars", expvar.Handler())
	mux.HandleFunc("POST /-/backup", func(w http.ResponseWriter, r *http.Request) {
		to := filepath.Join(backups, time.Now().UTC().Format("20060102T150405.000"))
		reply(w, db.Checkpoint(r.Context(), to, nil))
	})
	mux.HandleFunc("PUT /{name}", func(w http.ResponseWriter, r *http.Request) {
		to, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<10))
		if err == nil {
			err = db.PutIf(engine.K(r.PathValue("name"), "to"), to, engine.IfAbsent())
		}
		reply(w, err)
	})
	mux.HandleFunc("GET /{name}", func(w http.ResponseWriter, r *http.Request) {
		to, err := visit(r.Context(), db, r.PathValue("name"))
		if err != nil {
			reply(w, err)
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	return http.NewCrossOriginProtection().Handler(mux)
}

// visit returns where a name leads to, and counts.
func visit(ctx context.Context, db *engine.DB, name string) (to string, err error) {
	err = db.UpdateRetry(ctx, func(tx *engine.Tx) error {
		value, err := tx.Get(engine.K(name, "to"))
		if err != nil {
			return err
		}
		to = string(value)
		visits, err := tx.Get(engine.K(name, "visits"))
		if errors.Is(err, engine.ErrNotFound) {
			visits, err = make([]byte, 8), nil
		}
		if err != nil {
			return err
		}
		n := binary.BigEndian.Uint64(visits) + 1
		return tx.Put(engine.K(name, "visits"), binary.BigEndian.AppendUint64(nil, n))
	}, engine.Process) // a power cut may lose the last visits
	return to, err
}

// reply answers with the status that belongs to an error.
func reply(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		fmt.Fprintln(w, "ok")
	case errors.Is(err, engine.ErrNotFound):
		http.Error(w, "there is no such link", http.StatusNotFound)
	case errors.Is(err, engine.ErrConditionFailed):
		http.Error(w, "the name is taken", http.StatusConflict)
	case errors.Is(err, engine.ErrInvalid), errors.Is(err, engine.ErrTooLarge):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, engine.ErrDiskFull), errors.Is(err, engine.ErrReadOnly),
		errors.Is(err, context.DeadlineExceeded):
		http.Error(w, "try again later", http.StatusServiceUnavailable)
	default:
		slog.Error("request failed", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}
