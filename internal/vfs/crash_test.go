package vfs_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// disk renders what a power cut leaves: names with their contents, in order.
func disk(t *testing.T, c *vfstest.CrashFS, seed uint64, keep float64) string {
	t.Helper()
	m := c.PowerCut(rand.New(rand.NewPCG(seed, 1)), keep)
	names, err := m.List("d")
	if err != nil {
		return "no directory"
	}
	var words []string
	for _, name := range names {
		f, err := m.Open("d/" + name)
		ok(t, err)
		words = append(words, name+"="+read(t, f))
		ok(t, f.Close())
	}
	return strings.Join(words, " ")
}

// What a power cut leaves is what was synced, at keep 0; at keep 1 it is everything.
func TestPowerCutKeepsWhatWasSynced(t *testing.T) {
	c := vfstest.NewCrash()
	want := func(nothing, all string) {
		t.Helper()
		for seed := range uint64(20) {
			if got := disk(t, c, seed, 0); got != nothing {
				t.Fatalf("keep 0: %q, want %q", got, nothing)
			}
			if got := disk(t, c, seed, 1); got != all {
				t.Fatalf("keep 1: %q, want %q", got, all)
			}
		}
	}
	ok(t, c.MkdirAll("d"))
	want("no directory", "")
	ok(t, c.SyncDir("."))
	f, err := c.Create("d/a")
	ok(t, err)
	ok(t, second(f.Write([]byte("one"))))
	ok(t, f.Sync())
	want("", "a=one")
	ok(t, c.SyncDir("d"))
	ok(t, second(f.Write([]byte("two"))))
	want("a=one", "a=onetwo")
	ok(t, f.Sync())
	ok(t, f.Truncate(2))
	want("a=onetwo", "a=on")
	ok(t, f.Close())
	want("a=onetwo", "a=on")
	ok(t, c.Rename("d/a", "d/b"))
	want("a=onetwo", "b=on")
	ok(t, c.Link("d/b", "d/c"))
	ok(t, c.SyncDir("d"))
	want("b=onetwo c=onetwo", "b=on c=on")
	ok(t, c.Remove("d/b"))
	f, err = c.OpenReadWrite("d/c")
	ok(t, err)
	ok(t, f.Allocate(3))
	ok(t, f.Sync())
	want("b=on\x00 c=on\x00", "c=on\x00")
	ok(t, f.Close())
}

// A write is torn at sectors; a rename is never torn.
func TestPowerCutTears(t *testing.T) {
	c := vfstest.NewCrash()
	ok(t, c.MkdirAll("d"))
	ok(t, c.SyncDir("."))
	f, err := c.Create("d/new")
	ok(t, err)
	ok(t, f.Allocate(3*512))
	ok(t, f.Sync())
	create(t, c, "d/old", "")
	ok(t, c.SyncDir("d"))
	ok(t, second(f.WriteAt([]byte(strings.Repeat("x", 1024)), 256)))
	ok(t, f.Close())
	ok(t, c.Rename("d/new", "d/old"))
	got := map[string]bool{}
	for seed := range uint64(200) {
		s := disk(t, c, seed, 0.5)
		s = strings.ReplaceAll(s, strings.Repeat("\x00", 256), "-")
		got[strings.ReplaceAll(s, strings.Repeat("x", 256), "x")] = true
	}
	want := map[string]bool{}
	for i := range 8 {
		pick := func(bit int, width int) string {
			return strings.Repeat(string("-x"[i>>bit&1]), width)
		}
		content := "-" + pick(0, 1) + pick(1, 2) + pick(2, 1) + "-"
		want["new="+content+" old="] = true
		want["old="+content] = true
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("power cuts leave\n%v, want\n%v", got, want)
	}
}

// The death of a process loses nothing, and makes nothing durable.
func TestKillKeepsBothSides(t *testing.T) {
	c := vfstest.NewCrash()
	ok(t, c.MkdirAll("d"))
	ok(t, c.SyncDir("."))
	create(t, c, "d/a", "one")
	f, err := c.OpenReadWrite("d/a")
	ok(t, err)
	ok(t, f.Sync())
	ok(t, c.SyncDir("d"))
	ok(t, c.Link("d/a", "d/b"))
	ok(t, c.Remove("d/a"))
	create(t, c, "d/gone", "x")
	ok(t, c.Remove("d/gone"))
	ok(t, second(f.WriteAt([]byte("two"), 3)))
	_, err = c.Lock("d/LOCK", "", false)
	ok(t, err)

	k := c.Kill()
	ok(t, second(f.WriteAt([]byte("later"), 6)))
	wantContent(t, k, "d/b", "onetwo")
	ok(t, second(k.Lock("d/LOCK", "", false)))
	for seed := range uint64(20) {
		if got := disk(t, k, seed, 0); got != "a=one" {
			t.Fatalf("durable is %q", got)
		}
		if got := disk(t, k, seed, 1); got != "LOCK= b=onetwo" {
			t.Fatalf("present is %q", got)
		}
	}
	g, err := k.OpenReadWrite("d/b")
	ok(t, err)
	ok(t, g.Sync())
	ok(t, k.SyncDir("d"))
	if got := disk(t, k, 1, 0); got != "LOCK= b=onetwo" {
		t.Fatalf("after a sync durable is %q", got)
	}
	if got := disk(t, c, 1, 0); got != "a=one" {
		t.Fatalf("the sync reached the machine before: %q", got)
	}
}
