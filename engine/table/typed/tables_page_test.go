package typed_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/internal/testutil"
)

// The code of docs/tables.md is in this file, and what it prints is what these tests print.

//go:generate go run github.com/kstonedb/kstone/cmd/kstone-gen

//kstone:table cities prefix=
type City struct {
	Country string  `kstone:"country,pk" json:"country"`
	Region  string  `kstone:"region,sk" json:"region"`
	County  string  `kstone:"county,sk" json:"county"`
	Name    string  `kstone:"city,sk" json:"city"`
	Lat     float64 `kstone:"lat" json:"lat"`
	Lng     float64 `kstone:"lng" json:"lng"`
}

var (
	_ = Cities.Index("by_name", Name.Asc())
	_ = Cities.Index("by_lat", Lat.Desc()).Include(Lng).Shard(16)
)

//kstone:table quakes prefix=
type Quake struct {
	Net   string    `kstone:"net,pk"`
	Time  time.Time `kstone:"time,sk,ms"`
	Code  string    `kstone:"code,sk"`
	Mag   float64   `kstone:"mag"`
	Place string    `kstone:"place"`
	Depth *float64  `kstone:"depth"`
}

var (
	_ = Quakes.Index("strong", Mag.Desc()).Where(Mag.Ge(5))
)

// eachLine calls f with the lines of a bundled file, at most n of them.
func eachLine(name string, n int, f func([]byte) error) error {
	file, err := os.Open("../../../testdata/" + name)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(unzipped)
	for i := 0; i < n && lines.Scan(); i++ {
		if err := f(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// quakeLine is a line of the bundled earthquakes.
type quakeLine struct {
	Net, Code, Type, Place string
	Time                   int64
	Mag                    float64
	Depth                  *float64
}

// importPage fills the tables of the page: with 20,000 cities and all earthquakes.
func importPage(t *testing.T, db *table.DB) {
	t.Helper()
	buffer, err := typed.NewBuffer(db, Cities, nil)
	ok(t, err)
	err = eachLine("cities.jsonl.gz", 20_000, func(line []byte) error {
		var c City
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		return buffer.Put(ctx, &c)
	})
	ok(t, errors.Join(err, buffer.Flush(ctx)))
	err = eachLine("earthquakes.jsonl.gz", 1<<20, func(line []byte) error {
		var q quakeLine
		if err := json.Unmarshal(line, &q); err != nil {
			return err
		}
		return Quakes.Insert(ctx, db, &Quake{q.Net, time.UnixMilli(q.Time), q.Code, q.Mag, q.Place,
			q.Depth})
	})
	ok(t, err)
}

// TestTablesPage runs what docs/tables.md shows and compares what it prints.
//
// Promise (tables): The page [tables](tables.md) prints what it says.
func TestTablesPage(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := openTyped(t, Cities, Quakes)
	importPage(t, db)
	var out strings.Builder
	show := func(what fmt.Stringer, err error) {
		ok(t, err)
		// The page shows a plan without estimates and notes, an attribute on a line.
		for line := range strings.Lines(what.String()) {
			if strings.HasPrefix(line, "statistics of ") {
				continue
			}
			line, _, _ = strings.Cut(line, " | rows ")
			fmt.Fprintln(&out, strings.ReplaceAll(strings.TrimRight(line, "\n"), " | ", "\n    | "))
		}
	}

	q := Cities.Where(Country.Eq("AE"), Region.Eq("Abu Dhabi"))
	show(q.Explain(ctx, db))

	show(Cities.Where(Name.Eq("San Martín")).Explain(ctx, db))

	north := Cities.Where(Lat.Lt(80)).OrderBy(Lat.Desc()).Limit(3)
	show(north.Explain(ctx, db))
	for c, err := range north.All(ctx, db) {
		fmt.Fprintln(&out, c.Name, c.Country, c.Lat, err)
	}

	strong := Quakes.Where(Mag.Ge(6)).OrderBy(Mag.Desc())
	show(strong.Explain(ctx, db))
	n, err := strong.Count(ctx, db)
	fmt.Fprintln(&out, n, err)

	type NetSum struct {
		Net              string
		Quakes           int64
		Strongest, Depth float64
	}
	quakes := typed.Count(Net, func(s *NetSum) *int64 { return &s.Quakes })
	sums := typed.GroupBy(Quakes.Where().Limit(3), quakes,
		typed.By(Net, func(s *NetSum) *string { return &s.Net }),
		typed.Max(Mag, func(s *NetSum) *float64 { return &s.Strongest }),
		typed.Max(Depth, func(s *NetSum) *float64 { return &s.Depth }))
	for s, err := range sums.Having(quakes.Lt(500)).OrderBy(quakes.Desc()).All(ctx, db) {
		fmt.Fprintln(&out, s.Net, s.Quakes, s.Strongest, s.Depth, err)
	}

	show(Cities.Where(Lat.Gt(60), County.Eq("")).UseIndex("primary").Explain(ctx, db))

	comparePage(t, out.String())
}

// comparePage compares the text blocks of the page, one after the other, with what was
// printed, and looks for the lines of its Go blocks in this file and the examples.
func comparePage(t *testing.T, printed string) {
	t.Helper()
	var source string
	for _, name := range []string{"tables_page_test.go", "tables_page_kstone_test.go",
		"example_test.go"} {
		data, err := os.ReadFile(name)
		ok(t, err)
		source += string(data)
	}
	known := map[string]bool{}
	for line := range strings.Lines(source) {
		known[strings.Join(strings.Fields(line), " ")] = true
	}
	var shown strings.Builder
	for kind, block := range blocksOf(t, "tables.md") {
		if kind == "text" {
			shown.WriteString(block)
			continue
		}
		for line := range strings.Lines(block) {
			if !known[strings.Join(strings.Fields(line), " ")] {
				t.Errorf("the page has code that no test has: %s", line)
			}
		}
	}
	if shown.String() != printed {
		t.Errorf("the page shows\n%s\nprinted was\n%s", shown.String(), printed)
	}
}

// blocksOf yields the text and Go blocks of a page in docs, each after its kind.
func blocksOf(t *testing.T, page string) iter.Seq2[string, string] {
	t.Helper()
	data, err := os.ReadFile("../../../docs/" + page)
	ok(t, err)
	return func(yield func(kind, text string) bool) {
		kind, text := "", ""
		for line := range strings.Lines(string(data)) {
			switch fence, ok := strings.CutPrefix(line, "```"); {
			case ok && kind == "":
				kind, text = strings.TrimSpace(fence), ""
			case ok:
				if (kind == "text" || kind == "go") && !yield(kind, text) {
					return
				}
				kind = ""
			default:
				text += line
			}
		}
	}
}
