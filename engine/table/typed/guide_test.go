package typed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

// The examples of docs/designing-keys.md. They use the cities of docs/tables.md, and all
// earthquakes as Events.

type Event struct {
	Net   string    `kstone:"net,pk"`
	Time  time.Time `kstone:"time,sk,ms,desc"`
	Code  string    `kstone:"code,sk"`
	Type  string    `kstone:"type"`
	Place string    `kstone:"place"`
}

var (
	Events    = typed.NewTable[Event]("events")
	EventNet  = typed.Col(Events, func(e *Event) *string { return &e.Net })
	EventTime = typed.Col(Events, func(e *Event) *time.Time { return &e.Time })
	EventCode = typed.Col(Events, func(e *Event) *string { return &e.Code })
	EventType = typed.Col(Events, func(e *Event) *string { return &e.Type })

	_ = Events.Index("by_time", EventTime.Asc()).Shard(8)
	_ = Events.Index("by_type", EventType.Asc(), EventTime.Asc())
)

// bundledEvents returns the bundled earthquakes.
func bundledEvents() (list []Event) {
	need(eachLine("earthquakes.jsonl.gz", 1<<20, func(line []byte) error {
		var q quakeLine
		err := json.Unmarshal(line, &q)
		list = append(list, Event{q.Net, time.UnixMilli(q.Time).UTC(), q.Code, q.Type, q.Place})
		return err
	}))
	return list
}

// importCities writes the bundled cities of a country.
func importCities(ctx context.Context, db *table.DB, country string) {
	cities, err := typed.NewBuffer(db, Cities, nil)
	need(err)
	want := []byte(`"country": "` + country + `"`)
	need(eachLine("cities.jsonl.gz", 1<<20, func(line []byte) error {
		if !bytes.Contains(line, want) {
			return nil
		}
		var c City
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		return cities.Put(ctx, &c)
	}))
	need(cities.Flush(ctx))
}

// need ends an example that cannot go on.
func need(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A path from the general to the special as sort key: every level is a prefix.
//
// Promise (keys): The guide to designing keys prints what it says. Also all examples of the
// guide.
func Example_hierarchies() {
	ctx := context.Background()
	db, closeAll := openExample(ctx, Cities)
	defer closeAll()
	importCities(ctx, db, "IT")

	lombardy := Cities.Where(Country.Eq("IT"), Region.Eq("Lombardy"))
	brescia := lombardy.Where(County.Eq("Provincia di Brescia"))
	count := func(what string, q typed.Query[City]) {
		n, err := q.Count(ctx, db)
		fmt.Printf("%-28s %d %v\n", what, n, err)
	}
	count("region Lombardy", lombardy)
	count("its county of Brescia", brescia)
	count("of these, cities with Bo…", brescia.Where(typed.BeginsWith(Name, "Bo")))
	// Output:
	// region Lombardy              1801 <nil>
	// its county of Brescia        259 <nil>
	// of these, cities with Bo…    7 <nil>
}

// openEvents returns a database in memory with all events.
func openEvents(ctx context.Context) (*table.DB, func()) {
	db, closeAll := openExample(ctx, Events)
	_, err := Events.PutMany(ctx, db, bundledEvents())
	need(err)
	return db, closeAll
}

// A descending time makes the newest event the first of its partition, and pages go into the
// past.
func Example_timeSeriesNewestFirst() {
	ctx := context.Background()
	db, closeAll := openEvents(ctx)
	defer closeAll()

	show := func(what string, q typed.Query[Event]) []byte {
		rows, next, err := q.OrderBy(EventTime.Desc()).Limit(2).Page(ctx, db)
		fmt.Println(what, err)
		for _, e := range rows {
			fmt.Println(e.Time.Format(time.DateTime), e.Place)
		}
		return next
	}
	newest := Events.Where(EventNet.Eq("ci"))
	next := show("the newest two:", newest)
	show("the page after them:", newest.After(next))
	february2 := time.Date(2018, 2, 2, 0, 0, 0, 0, time.UTC)
	show("the newest two before the second of February:", newest.Where(EventTime.Lt(february2)))
	// Output:
	// the newest two: <nil>
	// 2018-02-07 01:26:13 4km W of Castaic, CA
	// 2018-02-07 01:13:57 2km E of San Marino, CA
	// the page after them: <nil>
	// 2018-02-07 01:01:13 11km NE of Aguanga, CA
	// 2018-02-07 00:24:13 2km S of Mentone, CA
	// the newest two before the second of February: <nil>
	// 2018-02-01 23:41:57 6km NNE of Beaumont, CA
	// 2018-02-01 23:12:11 9km NE of Aguanga, CA
}

// A descending number of the version makes the last one the first row; the others follow.
func Example_versions() {
	type Revision struct {
		Document string `kstone:"document,pk"`
		Version  int64  `kstone:"version,sk,desc"`
		Text     string `kstone:"text"`
	}
	revisions := typed.NewTable[Revision]("revisions")
	document := typed.Col(revisions, func(r *Revision) *string { return &r.Document })
	version := typed.Col(revisions, func(r *Revision) *int64 { return &r.Version })

	ctx := context.Background()
	db, closeAll := openExample(ctx, revisions)
	defer closeAll()
	for i, text := range []string{"magnitude 2.3", "magnitude 2.1", "magnitude 2.0"} {
		need(revisions.Insert(ctx, db, &Revision{"37868143", int64(i + 1), text}))
	}
	// Another writer that has read version 2 makes a third one, too.
	err := revisions.Insert(ctx, db, &Revision{"37868143", 3, "magnitude 2.2"})
	fmt.Println("taken:", errors.Is(err, table.ErrUnique))

	show := func(what string, q typed.Query[Revision]) {
		r, err := q.First(ctx, db)
		fmt.Printf("%s: version %d, %s %v\n", what, r.Version, r.Text, err)
	}
	all := revisions.Where(document.Eq("37868143"))
	show("latest", all.OrderBy(version.Desc()))
	show("as of 2", all.Where(version.Le(2)).OrderBy(version.Desc()))
	show("oldest", all.OrderBy(version.Asc()))
	old := typed.And(document.Eq("37868143"), version.Lt(3))
	n, err := revisions.DeleteWhere(ctx, db, old)
	fmt.Println("removed:", n, err)
	// Output:
	// taken: true
	// latest: version 3, magnitude 2.0 <nil>
	// as of 2: version 2, magnitude 2.1 <nil>
	// oldest: version 1, magnitude 2.3 <nil>
	// removed: 2 <nil>
}

// An index of everything by time would be one partition, in one stripe, which all writes go
// to. Shards make it several; a range of time is read from all of them and merged.
func Example_hotKeys() {
	ctx := context.Background()
	db, closeAll := openEvents(ctx)
	defer closeAll()

	day := time.Date(2018, 2, 2, 0, 0, 0, 0, time.UTC)
	friday := Events.Where(EventTime.Ge(day), EventTime.Lt(day.AddDate(0, 0, 1))).
		OrderBy(EventTime.Asc()).Limit(3)
	for e, err := range friday.All(ctx, db) {
		fmt.Println(e.Time.Format(time.TimeOnly), e.Place, err)
	}
	for _, q := range []typed.Query[Event]{friday, Events.Where(EventTime.Eq(day))} {
		plan, err := q.Explain(ctx, db)
		need(err)
		for part := range strings.SplitSeq(plan.String(), " | ") {
			if strings.HasPrefix(part, "buckets:") || strings.HasPrefix(part, "merge:") {
				fmt.Println(strings.TrimSpace(part))
			}
		}
	}
	// Output:
	// 00:02:34 78km NNW of Cape Yakataga, Alaska <nil>
	// 00:11:14 6km NW of The Geysers, CA <nil>
	// 00:11:15 2km SE of Mammoth Lakes, CA <nil>
	// buckets: 8/8
	// merge: 8 streams
	// buckets: 1/8
}

// A counter changes in the same transaction as what it counts: it is always right, and
// reading it costs one lookup instead of a scan.
func Example_aggregates() {
	type Day struct {
		Net   string    `kstone:"net,pk"`
		Day   time.Time `kstone:"day,sk,s"`
		Count int64     `kstone:"count"`
	}
	days := typed.NewTable[Day]("days")
	net := typed.Col(days, func(d *Day) *string { return &d.Net })
	date := typed.Col(days, func(d *Day) *time.Time { return &d.Day })
	count := typed.Col(days, func(d *Day) *int64 { return &d.Count })

	ctx := context.Background()
	db, closeAll := openExample(ctx, Events, days)
	defer closeAll()
	add := func(tx *table.Tx, e *Event) error {
		if err := Events.Insert(ctx, tx, e); err != nil {
			return err // it is counted already
		}
		day := e.Time.Truncate(24 * time.Hour)
		err := days.Set(ctx, tx, []typed.Assign[Day]{count.Add(1)}, net.Eq(e.Net), date.Eq(day))
		if errors.Is(err, table.ErrNotFound) {
			err = days.Insert(ctx, tx, &Day{e.Net, day, 1})
		}
		return err
	}
	events, repeated := bundledEvents(), 0
	for _, e := range append(events, events[:10]...) {
		err := db.Update(ctx, func(tx *table.Tx) error { return add(tx, &e) })
		if errors.Is(err, table.ErrUnique) {
			err = nil
			repeated++
		}
		need(err)
	}
	fmt.Println("repeated:", repeated)
	for d, err := range days.Where(net.Eq("ci")).OrderBy(date.Asc()).Limit(3).All(ctx, db) {
		fmt.Println(d.Day.Format(time.DateOnly), d.Count, err)
	}
	// Output:
	// repeated: 10
	// 2018-01-31 37 <nil>
	// 2018-02-01 50 <nil>
	// 2018-02-02 56 <nil>
}

// Two ways to look for the same rows that no one key serves: an index, kept in the same
// commit.
func Example_conflictingPatterns() {
	ctx := context.Background()
	db, closeAll := openEvents(ctx)
	defer closeAll()

	explosions := Events.Where(EventType.Eq("explosion")).OrderBy(EventTime.Asc())
	for _, q := range []typed.Query[Event]{
		Events.Where(EventNet.Eq("nc")).OrderBy(EventTime.Desc()), explosions,
	} {
		for e, err := range q.Limit(2).All(ctx, db) {
			fmt.Println(e.Net, e.Type, e.Place, err)
		}
	}

	// A row that changes is found under its new keys and under no old one.
	before, err := explosions.Count(ctx, db)
	need(err)
	e, err := explosions.First(ctx, db)
	need(err)
	need(Events.Set(ctx, db, []typed.Assign[Event]{EventType.Set("quarry blast")},
		EventNet.Eq(e.Net), EventTime.Eq(e.Time), EventCode.Eq(e.Code)))
	after, err := explosions.Count(ctx, db)
	fmt.Println("explosions:", before, after, err)

	// No key begins with the code alone.
	code := Events.Where(EventCode.Eq("37868143")).Hint(plan.Hints{RefuseFullScan: true})
	_, err = code.First(ctx, db)
	fmt.Println(err)
	// Output:
	// nc earthquake 10km WNW of The Geysers, CA <nil>
	// nc earthquake 10km WNW of The Geysers, CA <nil>
	// uw explosion 2km ESE of Princeton, Canada <nil>
	// nn explosion 2km SSE of Summerlin South, Nevada <nil>
	// explosions: 15 14 <nil>
	// plan: full scan of events refused: no index narrows it down
}

// TestDesigningKeysPage compares the text blocks of docs/designing-keys.md with what the
// examples above print, and looks for its Go blocks in this file.
func TestDesigningKeysPage(t *testing.T) {
	source, err := os.ReadFile("guide_test.go")
	ok(t, err)
	normal := func(text string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
		}
		return b.String()
	}
	code := normal(string(source))
	printed := strings.ReplaceAll(code, "\n// ", "\n")
	for kind, text := range blocksOf(t, "designing-keys.md") {
		known := code
		if kind == "text" {
			known = printed
		}
		if !strings.Contains(known, "\n"+normal(text)) {
			t.Errorf("the page has a block that no example has:\n%s", text)
		}
	}
}
