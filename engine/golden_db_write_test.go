package engine_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// goldenEnv set to "write" makes the golden databases that do not exist yet.
const goldenEnv = "KSTONE_GOLDEN_DB"

// goldenRecipes make the databases, each in directory db.
var goldenRecipes = map[string]func(*goldenMaker){
	"plain": func(g *goldenMaker) {
		g.open(engine.Options{})
		g.fill("one", 0, 200)
		g.flush()
		g.fill("two", 100, 260)
		g.close()
	},
	"codecs": func(g *goldenMaker) {
		codecs := []engine.Compression{
			engine.NoCompression, engine.LZ4, engine.Zstd, engine.Snappy,
		}
		for i, c := range codecs {
			g.open(engine.Options{Compression: c})
			for n := range 200 {
				k := pksk(fmt.Sprintf("codec %d", i), fmt.Sprintf("%04d", n))
				ok(g.t, g.db.Put(k, bytes.Repeat([]byte("compressible "), n%20)))
			}
			ok(g.t, g.db.Compact(ctx)) // touches no stripe that is one run already
			g.close()
		}
	},
	"ttl-and-ranges": func(g *goldenMaker) {
		g.open(engine.Options{MaxRuns: 8})
		g.fill("base", 0, 150)
		g.flush()
		_, err := g.db.Snapshot() // is never closed: the tombstones stay
		ok(g.t, err)
		g.expiring(0, 20, time.Second)
		g.expiring(20, 40, 100*365*24*time.Hour)
		g.deleteRanges("p1")
		g.flush()
		g.expiring(40, 50, time.Second)
		g.deleteRanges("p2")
		g.kill()
	},
	"properties": func(g *goldenMaker) {
		g.open(engine.Options{})
		for name, v := range map[string][]byte{
			"schema": []byte("version one"), "binary": {0, 1, 2, 0xff}, "empty": {},
			"removed": []byte("x"),
		} {
			ok(g.t, g.db.SetProperty(name, v))
		}
		g.fill("one", 0, 10)
		ok(g.t, g.db.SetProperty("removed", nil))
		g.close()
	},
	"killed": func(g *goldenMaker) {
		g.open(engine.Options{Durability: engine.Process, LogBytes: 8 << 20})
		g.fill("flushed", 0, 60)
		g.flush()
		g.fill("in the log", 40, 90)
		g.deleteRanges("p3")
		ok(g.t, g.db.Update(ctx, func(tx *engine.Tx) error {
			return tx.Put(pk("transaction"), []byte("committed"))
		}))
		g.kill()
	},
	"filters-16": func(g *goldenMaker) {
		g.open(engine.Options{FilterBits: 16})
		g.fill("one", 0, 300)
		g.flush()
		g.close()
	},
	"settings": func(g *goldenMaker) {
		g.open(allChosen)
		g.fill("one", 0, 60)
		g.flush()
		g.close()
		g.open(engine.Options{})
		g.fill("two", 40, 90)
		ok(g.t, g.db.SetProperty("schema", []byte("beside settings")))
		ok(g.t, g.db.Compact(ctx))
		g.close()
	},
	"versions": func(g *goldenMaker) {
		g.open(engine.Options{MaxRuns: 8, BlockBytes: 1 << 10})
		for round := range 4 {
			g.fill(fmt.Sprint("round ", round), 0, 30)
			_, err := g.db.Snapshot() // is never closed: the versions stay
			ok(g.t, err)
		}
		g.flush()
		g.kill()
	},
	"large-keys": func(g *goldenMaker) {
		g.open(engine.Options{FileBytes: 64 << 10, BlockBytes: 1 << 10})
		for i := range 40 {
			k := engine.Key{PK: bytes.Repeat([]byte{byte(i)}, 1+i*400)}
			if i%2 == 1 {
				k.SK = bytes.Repeat([]byte{0, 0xff}, 1+i*40)
			}
			ok(g.t, g.db.Put(k, bytes.Repeat([]byte("abc"), i*i*3)))
		}
		g.flush()
		g.close()
	},
	"large-values": func(g *goldenMaker) {
		g.open(engine.Options{LargeValue: 20, FlushRecords: 5, MaxRuns: 2})
		for round := range 3 {
			for i := range 30 {
				v := bytes.Repeat(fmt.Append(nil, round, " of ", i, ";"), i)
				ok(g.t, g.db.Put(g.key(i), v))
			}
			g.flush()
		}
		ok(g.t, g.db.Delete(g.key(29)))
		ok(g.t, g.db.Compact(ctx))
		g.fill("in the log", 10, 12)
		g.kill()
	},
	"parts": func(g *goldenMaker) { // of the index of an SST
		g.open(engine.Options{BlockBytes: 1 << 10})
		for i := range 140 {
			k := pksk("one stripe", fmt.Sprintf("%04d", i))
			ok(g.t, g.db.Put(k, bytes.Repeat(fmt.Append(nil, i%10), 520)))
		}
		g.flush()
		g.close()
	},
	"checkpoint": func(g *goldenMaker) {
		g.open(engine.Options{})
		g.fill("one", 0, 50)
		g.flush()
		g.fill("two", 25, 75)
		ok(g.t, g.db.Checkpoint(ctx, "copy", nil))
		g.fill("not in the copy", 0, 99)
		g.close()
		g.dir = "copy"
	},
	"short-runs": func(g *goldenMaker) {
		for i := range 8 {
			g.open(engine.Options{})
			g.fill(fmt.Sprint("run ", i), 10*i, 10*i+15)
			if i%3 == 1 {
				g.kill()
			} else {
				g.close()
			}
		}
		g.open(engine.Options{}) // the first record does not fit into the segment
		ok(g.t, g.db.Put(pk("large"), bytes.Repeat([]byte("large "), 50_000)))
		g.close()
		g.open(engine.Options{})
		g.fill("last", 0, 5)
		g.kill()
	},
}

// goldenMaker makes one database.
type goldenMaker struct {
	t   *testing.T
	fs  *vfstest.CrashFS
	dir string // that is kept
	db  *engine.DB
}

func (g *goldenMaker) open(o engine.Options) {
	o.Clock = func() time.Time { return goldenNow.Add(-time.Hour) }
	g.db = openOn(g.t, g.fs, o)
}

func (g *goldenMaker) close() { mustClose(g.t, g.db) }

func (g *goldenMaker) flush() { ok(g.t, g.db.Flush(ctx)) }

// kill keeps the directory as the death of the process would leave it.
func (g *goldenMaker) kill() {
	after := g.fs.Kill()
	_ = g.db.Close() // may speak of the snapshots
	g.fs = after
}

func (g *goldenMaker) key(i int) engine.Key {
	k := pk(fmt.Sprintf("p%d", i%7))
	if i%10 > 0 {
		k.SK = fmt.Appendf(nil, "%04d", i)
	}
	return k
}

// fill writes items by single puts, batches and deletes.
func (g *goldenMaker) fill(text string, from, to int) {
	b := engine.NewBatch()
	for i := from; i < to; i++ {
		v := []byte(strings.Repeat(fmt.Sprintf("%s %d ", text, i), i%9))
		switch i % 5 {
		case 0:
			ok(g.t, g.db.Put(g.key(i), v))
		case 1:
			ok(g.t, b.Delete(g.key(i-1)))
			ok(g.t, b.Put(g.key(i), v))
			ok(g.t, g.db.Apply(ctx, b))
			b.Reset()
		case 2:
			ok(g.t, g.db.Delete(g.key(i-3)))
		default:
			ok(g.t, b.Put(g.key(i), v))
		}
	}
	ok(g.t, g.db.Apply(ctx, b))
}

func (g *goldenMaker) expiring(from, to int, ttl time.Duration) {
	for i := from; i < to; i++ {
		ok(g.t, g.db.Put(g.key(i), []byte("expires"), engine.TTL(ttl)))
	}
}

func (g *goldenMaker) deleteRanges(part string) {
	p := []byte(part)
	ok(g.t, g.db.DeleteRange(p, engine.SKBetween([]byte("0020"), []byte("0050"))))
	ok(g.t, g.db.DeleteRange(p, engine.SKBeginsWith([]byte("01"))))
}

// Makes the golden databases that are missing, if it is asked to. One that exists is never
// written again, whatever has changed: a new kind of content gets a new recipe.
func TestWriteGoldenDatabases(t *testing.T) {
	if os.Getenv(goldenEnv) != "write" {
		t.Skipf("%s is not \"write\"", goldenEnv)
	}
	ok(t, os.MkdirAll(goldenDir, 0o755))
	for name, recipe := range goldenRecipes {
		archive := filepath.Join(goldenDir, name+".tar.gz")
		if _, err := os.Stat(archive); err == nil {
			t.Logf("%s exists and stays", archive)
			continue
		}
		g := &goldenMaker{t: t, fs: vfstest.NewCrash(), dir: "db"}
		recipe(g)
		packGolden(t, archive, filesOf(t, g.fs, g.dir))
		o := engine.Options{ReadOnly: true, Clock: func() time.Time { return goldenNow }}
		db := openOn(t, unpackGolden(t, archive), o)
		listing := strings.TrimSuffix(archive, ".tar.gz") + ".txt"
		ok(t, os.WriteFile(listing, []byte(listGolden(t, db)), 0o644))
		mustClose(t, db)
	}
}

// packGolden writes an archive. Without times and owners it is the same each time.
func packGolden(t *testing.T, archive string, files fileSet) {
	t.Helper()
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	ok(t, err)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		ok(t, w.WriteHeader(&tar.Header{
			Name: name, Mode: 0o644, Size: int64(len(files[name])),
		}))
		_, err := w.Write(files[name])
		ok(t, err)
	}
	ok(t, w.Close())
	ok(t, z.Close())
	ok(t, os.WriteFile(archive, buf.Bytes(), 0o644))
}
