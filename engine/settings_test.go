package engine_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// chosenSettings returns what db stores, as "name=value" in the order of Settings.
func chosenSettings(db *engine.DB) string {
	var words []string
	for _, s := range db.Settings() {
		if s.Chosen {
			words = append(words, s.Name+"="+s.Value)
		}
	}
	return strings.Join(words, " ")
}

// allChosen chooses every setting, allChosenText is how they are spelt.
var allChosen = engine.Options{
	Compression: engine.Zstd, BottomCompression: engine.LZ4, FilterBits: engine.NoFilter,
	BlockBytes: 16 << 10, FileBytes: 5_000_001,
}

const allChosenText = "compression=zstd bottom-compression=lz4 filter-bits=none " +
	"block-bytes=16KiB file-bytes=5000001"

// manifestContents returns the content of the manifests in directory db.
func manifestContents(t testing.TB, fsys vfs.FS) map[string]string {
	t.Helper()
	files := snapshotFiles(t, fsys, "db")
	maps.DeleteFunc(files, func(name, _ string) bool { return !strings.Contains(name, "MANIFEST") })
	return files
}

// Goal: a program without options writes a database as it was made. Method: a Zstd database
// is filled, flushed and merged by a program that opens it with nil options; inspect shows
// the codec of every file.
//
// Promise (manners): Codecs, filters and sizes belong to the database: what is chosen at one
// Open is used by the next, whatever opens it, by checkpoints and repaired databases; choosing
// the same, and readers, write nothing. Also `TestSettingsAreChosenByOpen`,
// `TestReadersChooseNothing`, `TestCopiesKeepSettings`.
func TestSettingsLast(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := engine.Open(dir, &engine.Options{Compression: engine.Zstd})
	ok(t, err)
	ok(t, db.Put(pk("a"), []byte(strings.Repeat("text ", 1000))))
	mustClose(t, db)
	for range 2 {
		db = openDir(t, dir, nil)
		if got := chosenSettings(db); got != "compression=zstd" {
			t.Errorf("opened without options: %s", got)
		}
		ok(t, db.Put(pk("a"), []byte(strings.Repeat("more ", 1000))))
		ok(t, db.Flush(ctx))
		ok(t, db.Compact(ctx))
		mustClose(t, db)
		if got := inspectCodecs(t, dir); !slices.Equal(got, []string{"zstd"}) {
			t.Errorf("files have codecs %v", got)
		}
	}
}

// Goal: what is chosen at an Open stays, alone, until it is chosen again. Method: a series
// of opens with the settings that each must find and leave.
func TestSettingsAreChosenByOpen(t *testing.T) {
	mem := vfs.NewMem()
	for i, step := range []struct {
		o    engine.Options
		want string
	}{
		{engine.Options{}, ""},
		{engine.Options{Compression: engine.Snappy}, "compression=snappy"}, // the default, chosen
		{engine.Options{}, "compression=snappy"},
		{engine.Options{FilterBits: 16}, "compression=snappy filter-bits=16"},
		{allChosen, allChosenText},
		{engine.Options{}, allChosenText},
		{engine.Options{FilterBits: 8, Compression: engine.NoCompression},
			"compression=none bottom-compression=lz4 filter-bits=8 block-bytes=16KiB " +
				"file-bytes=5000001"},
		{allChosen, allChosenText},
	} {
		db := openOn(t, mem, step.o)
		if got := chosenSettings(db); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
		ok(t, db.SetProperty("p", fmt.Append(nil, i)))
		mustClose(t, db)
	}
	before := manifestContents(t, mem)
	mustClose(t, openOn(t, mem, engine.Options{}))
	mustClose(t, openOn(t, mem, allChosen))
	if !maps.Equal(before, manifestContents(t, mem)) {
		t.Error("an open that chooses what is stored has written to the manifest")
	}
}

// BottomCompression follows Compression until it is chosen.
func TestBottomCompressionFollows(t *testing.T) {
	mem := vfs.NewMem()
	for _, step := range []struct {
		o    engine.Options
		want string
	}{
		{engine.Options{Compression: engine.LZ4}, "lz4"},
		{engine.Options{Compression: engine.Zstd}, "zstd"},
		{engine.Options{BottomCompression: engine.NoCompression}, "none"},
		{engine.Options{Compression: engine.LZ4}, "none"},
	} {
		db := openOn(t, mem, step.o)
		if s := db.Settings()[1]; s.Name != "bottom-compression" || s.Value != step.want {
			t.Errorf("%v: %+v, want %s", step.o.Compression, s, step.want)
		}
		mustClose(t, db)
	}
}

// Readers write nothing, whatever their options, and show the settings of the database.
func TestReadersChooseNothing(t *testing.T) {
	mem := vfs.NewMem()
	mustClose(t, openOn(t, mem, engine.Options{Compression: engine.LZ4}))
	before := manifestContents(t, mem)
	o := allChosen
	o.ReadOnly = true
	db := openOn(t, mem, o)
	if s := db.Settings(); s[0].Value != "lz4" || !s[0].Chosen || s[3].Value != "4KiB" {
		t.Errorf("%+v", s)
	}
	mustClose(t, db)
	if !maps.Equal(before, manifestContents(t, mem)) {
		t.Error("a reader has written to the manifest")
	}
}

// Properties and settings do not meet: the name of the settings is no property's, and full
// properties leave room for settings.
func TestSettingsAreNoProperty(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem, engine.Options{Compression: engine.LZ4})
	if v, there := db.Property(""); there {
		t.Errorf("the settings are a property: %q", v)
	}
	wantIs(t, db.SetProperty("", []byte("{}")), engine.ErrInvalid)
	wantIs(t, db.SetProperty("", nil), engine.ErrInvalid)
	ok(t, db.SetProperty("tiny", []byte("x")))
	size := engine.MaxPropertyBytes * 3 / 4
	for ; db.SetProperty("large", make([]byte, size)) != nil; size-- {
	}
	mustClose(t, db)
	db = openOn(t, mem, allChosen)
	ok(t, db.SetProperty("tiny", nil))
	ok(t, db.SetProperty("large", nil))
	ok(t, db.SetProperty("small", []byte("x")))
	mustClose(t, db)
	db = openOn(t, mem, engine.Options{})
	defer mustClose(t, db)
	if got := chosenSettings(db); got != allChosenText {
		t.Errorf("after changes of properties: %s", got)
	}
	if v, _ := db.Property("small"); string(v) != "x" {
		t.Errorf("after changes of settings: property %q", v)
	}
}

// withStored returns a database that stores the given JSON as its settings.
func withStored(t testing.TB, json string) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	mustClose(t, openOn(t, mem, engine.Options{}))
	l, _, err := manifest.Open(mem, "db")
	ok(t, err)
	blob := fmt.Sprintf(`{"properties":{"":%q,"p":"eA=="}}`, base64Of(json))
	_, err = l.Commit(&manifest.Edit{Settings: []byte(blob)})
	ok(t, errors.Join(err, l.Close()))
	return mem
}

// Settings of a later version are kept; one that must be known, and a value that this
// version cannot use, is an error that names it, unless another one is chosen.
//
// Promise (manners): Settings of later versions are kept, those that must be known are refused;
// settings and properties do not change each other. Also `TestSettingsAreNoProperty`,
// `TestSettingsFormat`.
func TestSettingsOfALaterVersion(t *testing.T) {
	mem := withStored(t, `{"block-bytes":"8KiB","encoding":"columns"}`)
	want := "block-bytes=8KiB encoding=columns"
	for _, o := range []engine.Options{{ReadOnly: true}, {}, {FilterBits: 16}, {}} {
		db := openOn(t, mem, o)
		if o.FilterBits == 16 {
			want = "filter-bits=16 " + want
		}
		if got := chosenSettings(db); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		mustClose(t, db)
	}
	for stored, choice := range map[string]engine.Options{
		`{"compression":"brotli"}`: {Compression: engine.LZ4},
		`{"block-bytes":"1GiB"}`:   {BlockBytes: 1 << 10},
		`{"file-bytes":"-4"}`:      {FileBytes: 1 << 20},
		`{"filter-bits":"32"}`:     {FilterBits: 16},
		`{"!encryption":"aes"}`:    {},
	} {
		mem := withStored(t, stored)
		before := snapshotFiles(t, mem, "db")
		for _, o := range []engine.Options{{}, {ReadOnly: true}} {
			_, err := engine.OpenFS(mem, "db", &o)
			wantIs(t, err, engine.ErrVersion)
			if name := strings.Split(stored, `"`)[1]; !strings.Contains(err.Error(), name) &&
				!strings.Contains(strings.ToLower(err.Error()), strings.ReplaceAll(name, "-", "")) {
				t.Errorf("%v does not name %s", err, name)
			}
		}
		if !maps.Equal(before, snapshotFiles(t, mem, "db")) {
			t.Errorf("%s: a refused open has changed the database", stored)
		}
		if !reflect.DeepEqual(choice, engine.Options{}) {
			db := openOn(t, mem, choice)
			if got := chosenSettings(db); strings.Contains(stored, got) || got == "" {
				t.Errorf("%s: chosen %s", stored, got)
			}
			mustClose(t, db)
		}
	}
	for _, stored := range []string{`[]`, `{"compression":4}`, `{`} {
		_, err := engine.OpenFS(withStored(t, stored), "db", nil)
		wantIs(t, err, engine.ErrCorrupt)
	}
}

// A checkpoint and a repaired database have the settings of the original.
func TestCopiesKeepSettings(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem, allChosen)
	ok(t, db.Put(pk("a"), []byte("b")))
	ok(t, db.Checkpoint(ctx, "copy", nil))
	mustClose(t, db)
	rep, err := engine.RepairFS(ctx, mem, "db", "repaired", nil)
	ok(t, err)
	if len(rep.Doubts) > 0 {
		t.Errorf("doubts: %v", rep.Doubts)
	}
	_, err = engine.RepairFS(ctx, mem, "db", "changed", &engine.Options{FilterBits: 16})
	ok(t, err)
	ok(t, mem.Remove(filepath.Join("db", "CURRENT")))
	ok(t, mem.Remove(filepath.Join("db", "MANIFEST-000001")))
	_, err = engine.RepairFS(ctx, mem, "db", "of nothing", &engine.Options{FilterBits: 16})
	ok(t, err)
	for dir, want := range map[string]string{
		"copy": allChosenText, "repaired": allChosenText, "of nothing": "filter-bits=16",
		"changed": strings.Replace(allChosenText, "none", "16", 1),
	} {
		db, err := engine.OpenFS(mem, dir, nil)
		ok(t, err)
		if got := chosenSettings(db); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
		mustClose(t, db)
	}
	if got := chosenSettings(openMemory(t, allChosen)); got != allChosenText {
		t.Errorf("in memory: %s", got)
	}
}

// Goal: settings are there from the moment a database is, and a change is made or not.
// Method: the power is cut before every operation that creates a database, then before
// every one of an open that changes its settings; so also with the operation failing.
//
// Promise (manners): A power cut while they are stored leaves the old settings or the new ones,
// and no database without those it was created with; a full disk does not keep a database
// closed. Also `TestSettingsOnAFullDisk`.
func TestPowerCutWhileSettingsAreStored(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	const first = "compression=lz4"
	cutAtEveryOperation(t, "create", vfstest.NewCrash, engine.Options{Compression: engine.LZ4},
		func(err error) bool { return errors.Is(err, engine.ErrNotExist) }, first)
	mem := vfs.NewMem()
	mustClose(t, openOn(t, mem, engine.Options{Compression: engine.LZ4}))
	files := snapshotFiles(t, mem, "db")
	copied := func() *vfstest.CrashFS { return vfstest.CrashOf(stored(t, files)) }
	cutAtEveryOperation(t, "change", copied, allChosen, nil, first, allChosenText)
}

// cutAtEveryOperation opens what start makes with o while operation n and all later ones
// fail, for every n, and cuts the power then. What is found must be one of wanted, the last of
// them if the open succeeded, or an error that allowed takes.
func cutAtEveryOperation(
	t *testing.T, what string, start func() *vfstest.CrashFS, o engine.Options,
	allowed func(error) bool, wanted ...string,
) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	for stop := 1; ; stop++ {
		n := 0
		c := start()
		db, err := engine.OpenFS(vfstest.NewFault(c, func(op vfstest.Op) error {
			if n++; n >= stop {
				return errDisk
			}
			return nil
		}), "db", &o)
		opened, whole := err == nil, n < stop
		for _, keep := range []float64{0, 0.5, 1} {
			after, err := engine.OpenFS(c.PowerCut(rnd, keep), "db",
				&engine.Options{MustExist: true})
			if err != nil && !opened && allowed != nil && allowed(err) {
				continue
			}
			ok(t, err)
			got := chosenSettings(after)
			if !slices.Contains(wanted, got) || opened && got != wanted[len(wanted)-1] {
				t.Errorf("%s: power cut at operation %d, opened %t: settings %q", what, stop,
					opened, got)
			}
			mustClose(t, after)
		}
		if db != nil {
			_ = db.Close()
		}
		if whole {
			return
		}
	}
}

// A full disk does not keep Open from changing settings: they are in force, and the next
// Open stores them.
func TestSettingsOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	mustClose(t, openOn(t, mem, engine.Options{Compression: engine.LZ4}))
	b := &breaker{match: onFile("MANIFEST", vfstest.OpWriteAt), err: vfs.ErrNoSpace}
	b.broken.Store(true)
	db := openOn(t, vfstest.NewFault(mem, b.hook), allChosen)
	if s := db.Settings()[0]; s.Value != "zstd" || s.Chosen || !s.Lost {
		t.Errorf("on a full disk: %+v", s)
	}
	ok(t, db.Put(pk("a"), []byte("b")))
	mustClose(t, db)
	db = openOn(t, mem, allChosen)
	defer mustClose(t, db)
	if got := chosenSettings(db); got != allChosenText {
		t.Errorf("with space again: %s", got)
	}
	wantValue(t, db, pk("a"), []byte("b"))
	if s := db.Settings()[0]; s.Lost {
		t.Errorf("with space again: %+v", s)
	}
}

// The past is not kept less than what is stored says, on a full disk.
func TestPastEndsOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem, engine.Options{RetainVersions: time.Hour})
	ok(t, db.Put(pk("a"), []byte("1")))
	ok(t, db.Put(pk("a"), []byte("2")))
	mustClose(t, db)
	b := &breaker{match: onFile("MANIFEST", vfstest.OpWriteAt), err: vfs.ErrNoSpace}
	b.broken.Store(true)
	_, err := engine.OpenFS(vfstest.NewFault(mem, b.hook), "db",
		&engine.Options{RetainVersions: engine.NoRetention})
	wantIs(t, err, engine.ErrDiskFull)
	db = openOn(t, mem, engine.Options{})
	defer mustClose(t, db)
	ok(t, db.Compact(ctx))
	s, err := db.SnapshotAt(1)
	ok(t, err)
	v, err := s.Get(pk("a"))
	ok(t, errors.Join(err, s.Close()))
	if string(v) != "1" {
		t.Errorf("a was %q", v)
	}
}

// TestNoRetentionAgain: what is retained is a choice that is taken back, by the word and by 0.
func TestNoRetentionAgain(t *testing.T) {
	mem := vfs.NewMem()
	names := []string{"retain-bytes", "retain-age", "retain-versions"}
	for _, step := range []struct{ values, want string }{
		{"1GiB 1h 90s", "1GiB true, 1h0m0s true, 1m30s true"},
		{"none none none", "none false, none false, none false"},
		{"1GiB 1h 90s", "1GiB true, 1h0m0s true, 1m30s true"},
		{"1MiB 0s 0", "1MiB true, none false, none false"},
	} {
		var o engine.Options
		for i, value := range strings.Fields(step.values) {
			ok(t, o.Set(names[i], value))
		}
		mustClose(t, openOn(t, mem, o))
		db := openOn(t, mem, engine.Options{})
		var got []string
		for _, s := range db.Settings() {
			if slices.Contains(names, s.Name) && !s.Lost {
				got = append(got, fmt.Sprint(s.Value, " ", s.Chosen))
			}
		}
		if text := strings.Join(got, ", "); text != step.want {
			t.Errorf("%s: %s, want %s", step.values, text, step.want)
		}
		mustClose(t, db)
	}
}

// Set takes every value that Settings shows, and names what it does not take.
func TestSetSetting(t *testing.T) {
	var o engine.Options
	for _, word := range strings.Fields(allChosenText) {
		name, value, _ := strings.Cut(word, "=")
		ok(t, o.Set(name, value))
	}
	if !reflect.DeepEqual(o, allChosen) {
		t.Errorf("set %+v", o)
	}
	for _, s := range engine.DefaultSettings() {
		for _, v := range append(s.Values, s.Value) {
			ok(t, o.Set(s.Name, v))
		}
		if s.Chosen || s.Meaning == "" {
			t.Errorf("default %+v", s)
		}
	}
	for text, want := range map[string]int{"4096": 4096, "4KiB": 4096, "1MiB": 1 << 20} {
		if ok(t, o.Set("block-bytes", text)); o.BlockBytes != want {
			t.Errorf("%s is %d", text, o.BlockBytes)
		}
	}
	for word, want := range map[string]string{
		"compresion=zstd": "bottom-compression", "compression=gzip": "lz4", "filter-bits=0": "none",
		"block-bytes=0": "bytes", "block-bytes=4kb": "bytes", "file-bytes=-1": "bytes",
		"file-bytes=99999999999GiB": "bytes", "block-bytes=": "bytes", "compression=": "zstd",
	} {
		name, value, _ := strings.Cut(word, "=")
		err := o.Set(name, value)
		wantIs(t, err, engine.ErrInvalid)
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v does not say %q", word, err, want)
		}
	}
}

// The stored bytes are those that the format page shows.
func TestSettingsFormat(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem, allChosen)
	ok(t, db.SetProperty("p", []byte("x")))
	mustClose(t, db)
	s, _, err := manifest.Load(mem, "db")
	ok(t, err)
	value := `{"block-bytes":"16KiB","bottom-compression":"lz4","compression":"zstd",` +
		`"file-bytes":"5000001","filter-bits":"none"}`
	want := fmt.Sprintf(`{"properties":{"":"%s","p":"eA=="}}`, base64Of(value))
	if string(s.Settings) != want {
		t.Errorf("stored %s, want %s", s.Settings, want)
	}
	page, err := os.ReadFile(filepath.Join("..", "docs", "format", "manifest.md"))
	ok(t, err)
	for _, text := range []string{value, want} {
		if !strings.Contains(strings.ReplaceAll(string(page), "\n", ""), text) {
			t.Errorf("docs/format/manifest.md does not show %s", text)
		}
	}
}
