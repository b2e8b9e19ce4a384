package main

import (
	"encoding/binary"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
)

// kstone is a subject: key is the row's number, value the time and what there is else.
type kstone struct {
	db *engine.DB
	s  *ship.Shipper
}

func openKstone(path string) (subject, error) {
	db, err := engine.Open(path, &engine.Options{Durability: engine.Process, RetainBytes: 4 << 30})
	return &kstone{db: db}, err
}

func (k *kstone) Put(id, now int64, value []byte) error {
	var key, v [8 + valueBytes]byte
	binary.BigEndian.PutUint64(key[:], uint64(id))
	binary.BigEndian.PutUint64(v[:], uint64(now))
	copy(v[8:], value)
	return k.db.Put(engine.Key{PK: key[:8]}, v[:])
}

func (k *kstone) Ship(dest string) (err error) {
	k.s, err = ship.Start(k.db, ship.Directory(dest), nil)
	return err
}

func (k *kstone) Settle() error {
	return k.s.WaitFor(background, k.db.Metrics().LastVersion)
}

func (k *kstone) Stop() error  { return k.s.Close(background) }
func (k *kstone) Close() error { return k.db.Close() }

func (k *kstone) Restore(dest, to string) (rows int, newest int64, took time.Duration, err error) {
	start := time.Now()
	if _, err = ship.Restore(background, ship.Directory(dest), to, nil); err != nil {
		return 0, 0, 0, err
	}
	took = time.Since(start)
	db, err := engine.Open(to, &engine.Options{ReadOnly: true})
	if err != nil {
		return 0, 0, 0, err
	}
	for it, err := range db.Scan(background, engine.Scan{Unordered: true}) {
		if err != nil {
			return 0, 0, 0, err
		}
		newest = max(newest, int64(binary.BigEndian.Uint64(it.Value)))
		rows++
	}
	return rows, newest, took, db.Close()
}
