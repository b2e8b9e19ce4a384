//go:build unix

package main_test

import (
	"database/sql"
	"errors"
	"os"

	_ "modernc.org/sqlite"
)

// statements make the tables of each step.
var statements = map[string]string{
	"small": `
		CREATE TABLE towns (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL DEFAULT 'x',
			people INT DEFAULT (1 + 2), area REAL, big NUMERIC, capital BOOLEAN DEFAULT 0,
			seen DATETIME DEFAULT CURRENT_TIMESTAMP, flag BLOB,
			size AS (people * 2) STORED, CHECK (people >= 0));
		CREATE UNIQUE INDEX by_name ON towns (name, people DESC);
		CREATE INDEX large ON towns (people) WHERE people > 100;
		CREATE INDEX lower ON towns (lower(name));
		CREATE INDEX nocase ON towns (name COLLATE NOCASE);
		INSERT INTO towns (name, people, area, big, capital, seen, flag) VALUES
			('Rome', 2750000, 1285, 9007199254740993, 1, '2026-01-02 03:04:05', x'00ff'),
			('Pisa', 90000, 185.5, 0.5, 0, NULL, NULL), ('Ulm', NULL, NULL, NULL, NULL, NULL, x'');
		CREATE TABLE "odd one" (k, v INTEGER);
		INSERT INTO "odd one" VALUES (1, 1), ('a', 'text'), (x'01', NULL), (NULL, 2.5);
		INSERT INTO towns (id) VALUES (41); DELETE FROM towns WHERE id = 41;
		CREATE TABLE pairs (a TEXT, b INT, v TEXT UNIQUE, PRIMARY KEY (a, b)) WITHOUT ROWID;
		INSERT INTO pairs VALUES ('x', 2, NULL), ('x', 10, 'ten'), ('y', 1, NULL);
		CREATE TABLE people (name TEXT COLLATE NOCASE PRIMARY KEY, mail TEXT);
		CREATE UNIQUE INDEX names ON people (mail COLLATE NOCASE);
		INSERT INTO people VALUES ('Ada', 'a@example.org');
		CREATE TABLE nulls (k TEXT PRIMARY KEY, v INT REFERENCES towns (id));
		INSERT INTO nulls VALUES (NULL, 1), (NULL, 2), ('k', 3);
		CREATE TABLE mine (rowid TEXT, oid INT);
		INSERT INTO mine VALUES ('a', 1), ('a', 1);
		CREATE TABLE plain (id INTEGER PRIMARY KEY /* no
			AUTOINCREMENT */, "REFERENCES" TEXT DEFAULT 'CHECK'); -- COLLATE
		CREATE VIEW v AS SELECT * FROM towns;
		CREATE TRIGGER t AFTER INSERT ON pairs BEGIN SELECT 1; END;
		CREATE VIRTUAL TABLE words USING fts5 (word);`,
	"large": `
		CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
			INSERT INTO t SELECT i, 'value ' || i FROM n;`,
	"change": `
		UPDATE towns SET people = 91000 WHERE name = 'Pisa';
		INSERT INTO towns (name) VALUES ('Bern');`,
	"wal": `
		PRAGMA journal_mode = wal; CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1);`,
	"long": `
		CREATE TABLE t (a TEXT PRIMARY KEY); INSERT INTO t VALUES ('a'), (hex(zeroblob(40000)));
		CREATE TABLE u (id INTEGER PRIMARY KEY, v TEXT); CREATE INDEX by_v ON u (v);
		INSERT INTO u VALUES (1, 'a'), (2, hex(zeroblob(40000))), (3, 'c');
		CREATE TABLE v (v TEXT); INSERT INTO v VALUES ('a');
		CREATE TABLE w (id INTEGER PRIMARY KEY) WITHOUT ROWID;`,
	"moves": `
		CREATE TABLE t (id INTEGER PRIMARY KEY, v INT UNIQUE);
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
			INSERT INTO t SELECT i, i FROM n;`,
	"moved": ` -- of the last row to the first, and of two rows to each other
		UPDATE t SET v = -1 WHERE id = 2000; UPDATE t SET v = 2000 WHERE id = 1;
		UPDATE t SET v = -2 WHERE id = 2; UPDATE t SET v = 2 WHERE id = 1999;
		UPDATE t SET v = 1999 WHERE id = 2;`,
}

func makeSQLite(path, step string) error {
	if step == "hot" {
		return makeHot(path)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	_, err = db.Exec(statements[step])
	return errors.Join(err, db.Close())
}

// makeHot makes what a program leaves that is killed in the middle of a commit: a database that is
// half changed, and a journal by which the next one rolls that back.
func makeHot(path string) error {
	if err := makeSQLite(path+".tmp", "large"); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", path+".tmp")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec("PRAGMA cache_size = 1; BEGIN; UPDATE t SET v = 'new'")
	for _, end := range []string{"", "-journal"} {
		var b []byte
		if err == nil {
			b, err = os.ReadFile(path + ".tmp" + end)
		}
		if err == nil {
			err = os.WriteFile(path+end, b, 0o600)
		}
	}
	return errors.Join(err, db.Close())
}

// holdSQLite is in the middle of a commit.
func holdSQLite(path string) (func() error, error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec("BEGIN EXCLUSIVE")
	return db.Close, err
}
