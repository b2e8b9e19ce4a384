package main

import (
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/benbjohnson/litestream"
	"github.com/benbjohnson/litestream/file"
	_ "modernc.org/sqlite" // the driver
)

// sqlite is a subject: a table in a database in WAL mode, which litestream ships as it does by
// default, each second.
type sqlite struct {
	path  string
	db    *sql.DB
	put   *sql.Stmt
	lite  *litestream.DB
	store *litestream.Store
}

func openSQLite(path string) (subject, error) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)"+
		"&_pragma=journal_mode(wal)&_pragma=synchronous(normal)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err = db.Exec("CREATE TABLE t (id INTEGER PRIMARY KEY, at INTEGER, v BLOB)"); err != nil {
		return nil, err
	}
	put, err := db.Prepare("INSERT OR REPLACE INTO t VALUES (?, ?, ?)")
	return &sqlite{path: path, db: db, put: put}, err
}

func (s *sqlite) Put(id, now int64, value []byte) error {
	_, err := s.put.Exec(id, now, value)
	return err
}

func (s *sqlite) Ship(dest string) error {
	s.lite = litestream.NewDB(s.path)
	client := file.NewReplicaClient(dest)
	replica := litestream.NewReplicaWithClient(s.lite, client)
	s.lite.Replica, client.Replica = replica, replica
	s.store = litestream.NewStore([]*litestream.DB{s.lite}, litestream.CompactionLevels{
		{Level: 0}, {Level: 1, Interval: 30 * time.Second}})
	return s.store.Open(background)
}

func (s *sqlite) Settle() error {
	return errors.Join(s.lite.Sync(background), s.lite.Replica.Sync(background))
}

func (s *sqlite) Stop() error  { return errors.Join(s.Settle(), s.store.Close(background)) }
func (s *sqlite) Close() error { return errors.Join(s.put.Close(), s.db.Close()) }

func (s *sqlite) Restore(dest, to string) (rows int, newest int64, took time.Duration, err error) {
	start := time.Now()
	o := litestream.NewRestoreOptions()
	o.OutputPath = to
	err = litestream.NewReplicaWithClient(nil, file.NewReplicaClient(dest)).Restore(background, o)
	if err != nil {
		return 0, 0, 0, err
	}
	took = time.Since(start)
	db, err := sql.Open("sqlite", "file:"+to)
	if err != nil {
		return 0, 0, 0, err
	}
	err = db.QueryRow("SELECT count(*), coalesce(max(at), 0) FROM t").Scan(&rows, &newest)
	return rows, newest, took, errors.Join(err, db.Close())
}
