package access_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/access"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/composite"
	"github.com/kstonedb/kstone/keycodec/shard"
	"github.com/kstonedb/kstone/testdata"
)

// The examples of docs/designing-keys.md.

type city struct{ Country, Region, County, City string }

// citiesOf returns the bundled cities of a country.
func citiesOf(country string) (list []city) {
	want := []byte(`"country": "` + country + `"`)
	for line := range lines(bytes.NewReader(testdata.Cities)) {
		var c city
		if bytes.Contains(line, want) && json.Unmarshal(line, &c) == nil {
			list = append(list, c)
		}
	}
	return list
}

type quake struct {
	Net, Code, Type, Place string
	Time                   int64
	Mag                    float64
}

// At returns when it happened.
func (q quake) At() time.Time { return time.UnixMilli(q.Time) }

// quakes are the bundled earthquakes.
var quakes = sync.OnceValue(func() (list []quake) {
	f, err := os.Open("../../testdata/earthquakes.jsonl.gz")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for line := range lines(f) {
		var q quake
		if err := json.Unmarshal(line, &q); err != nil {
			log.Fatal(err)
		}
		list = append(list, q)
	}
	return list
})

// lines yields the lines of gzipped text.
func lines(r io.Reader) func(yield func([]byte) bool) {
	z, err := gzip.NewReader(r)
	if err != nil {
		log.Fatal(err)
	}
	return func(yield func([]byte) bool) {
		for in := bufio.NewScanner(z); in.Scan() && yield(in.Bytes()); {
		}
	}
}

// open opens a database in memory for an example.
func open() *engine.DB {
	db, err := engine.Open("guide", &engine.Options{InMemory: true})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A path from the general to the special as sort key: every level is a prefix.
func Example_hierarchies() {
	db := open()
	defer db.Close()
	place, err := keycodec.NewSchema(
		keycodec.Field{Name: "region", Type: keycodec.TypeString},
		keycodec.Field{Name: "county", Type: keycodec.TypeString},
		keycodec.Field{Name: "city", Type: keycodec.TypeString})
	check(err)
	b := engine.NewBatch()
	for _, c := range citiesOf("IT") {
		sk, err := place.Append(nil, c.Region, c.County, c.City)
		check(err)
		check(b.Put(engine.Key{PK: []byte(c.Country), SK: sk}, nil))
	}
	check(db.Apply(context.Background(), b))

	count := func(what string, prefix []byte, err error) {
		check(err)
		q := engine.Query{PK: []byte("IT"), SK: engine.SKBeginsWith(prefix)}
		n, err := db.Count(context.Background(), q)
		check(err)
		fmt.Printf("%-28s %d\n", what, n)
	}
	p, err := place.AppendPrefix(nil, "Lombardy")
	count("region Lombardy", p, err)
	p, err = place.AppendPrefix(nil, "Lombardy", "Provincia di Brescia")
	count("its county of Brescia", p, err)
	p, err = place.AppendBeginsWith(nil, "Lombardy", "Provincia di Brescia", "Bo")
	count("of these, cities with Bo…", p, err)
	// Output:
	// region Lombardy              1801
	// its county of Brescia        259
	// of these, cities with Bo…    7
}

// A descending time makes the newest event the first of its partition.
func Example_timeSeriesNewestFirst() {
	db := open()
	defer db.Close()
	event, err := keycodec.NewSchema(
		keycodec.Field{Name: "time", Type: keycodec.TypeTime, Unit: keycodec.Millisecond,
			Desc: true},
		keycodec.Field{Name: "code", Type: keycodec.TypeString})
	check(err)
	for _, q := range quakes() {
		sk, err := event.Append(nil, q.At(), q.Code)
		check(err)
		check(db.Put(engine.Key{PK: []byte(q.Net), SK: sk}, []byte(q.Place)))
	}
	show := func(q engine.Query) {
		for item, err := range db.Query(context.Background(), q) {
			check(err)
			values, err := event.Decode(item.Key.SK)
			check(err)
			fmt.Printf("%s %s\n", values[0].(time.Time).Format(time.DateTime), item.Value)
		}
	}
	fmt.Println("the newest two:")
	show(engine.Query{PK: []byte("ci"), Limit: 2})

	fmt.Println("the newest two up to the second of February:")
	until, err := event.AppendPrefix(nil, time.Date(2018, 2, 2, 0, 0, 0, 0, time.UTC))
	check(err)
	show(engine.Query{PK: []byte("ci"), SK: engine.SKGreaterEqual(until), Limit: 2})
	// Output:
	// the newest two:
	// 2018-02-07 01:26:13 4km W of Castaic, CA
	// 2018-02-07 01:13:57 2km E of San Marino, CA
	// the newest two up to the second of February:
	// 2018-02-01 23:41:57 6km NNE of Beaumont, CA
	// 2018-02-01 23:12:11 9km NE of Aguanga, CA
}

// A descending number of the version makes the last one the first item; the others follow.
func Example_versions() {
	db := open()
	defer db.Close()
	version, err := keycodec.NewSchema(
		keycodec.Field{Name: "version", Type: keycodec.TypeUint64, Desc: true})
	check(err)
	q := quakes()[0]
	for i, mag := range []float64{q.Mag + 0.3, q.Mag + 0.1, q.Mag} { // corrected twice
		sk, err := version.Append(nil, uint64(i+1))
		check(err)
		text := fmt.Sprintf("magnitude %.1f", mag)
		check(db.Put(engine.Key{PK: []byte(q.Code), SK: sk}, []byte(text)))
	}
	show := func(what string, query engine.Query) {
		for item, err := range db.Query(context.Background(), query) {
			check(err)
			values, err := version.Decode(item.Key.SK)
			check(err)
			fmt.Printf("%s: version %d, %s\n", what, values[0], item.Value)
		}
	}
	show("latest", engine.Query{PK: []byte(q.Code), Limit: 1})
	two, err := version.Append(nil, uint64(2))
	check(err)
	show("as of 2", engine.Query{PK: []byte(q.Code), SK: engine.SKGreaterEqual(two), Limit: 1})
	show("oldest", engine.Query{PK: []byte(q.Code), Reverse: true, Limit: 1})
	// Output:
	// latest: version 3, magnitude 2.0
	// as of 2: version 2, magnitude 2.1
	// oldest: version 1, magnitude 2.3
}

// Everything by time would be one partition, in one stripe, which all writes go to. Shards
// in front make it several; a range of time is read from all of them and merged.
func Example_hotKeys() {
	db := open()
	defer db.Close()
	spec := shard.Spec{Function: shard.XXHash, Count: 8}
	keys, err := composite.NewSchema(composite.Options{Shard: &spec},
		composite.Field{Name: "time", Type: composite.Timestamp},
		composite.Field{Name: "code", Type: composite.String, Width: 16})
	check(err)
	c, err := access.Open(db, access.Index{Name: "by time", Keys: keys})
	check(err)
	for _, q := range quakes() {
		fields := map[string]any{"time": q.Time, "code": q.Code}
		check(c.Put(context.Background(), access.Record{Fields: fields, Payload: []byte(q.Place)}))
	}
	stripes := map[uint8]bool{}
	for item, err := range db.Scan(context.Background(), engine.Scan{Unordered: true}) {
		check(err)
		stripes[keycodec.Stripe(item.Key.PK)] = true
	}
	fmt.Println("stripes written to:", len(stripes))

	day := time.Date(2018, 2, 2, 0, 0, 0, 0, time.UTC)
	from, to := composite.Including(day), composite.Excluding(day.AddDate(0, 0, 1))
	for m, err := range c.RangeScan(context.Background(), nil, "time", from, to, 3) {
		check(err)
		fields, err := m.Fields()
		check(err)
		fmt.Printf("%s %s\n", fields["time"].(time.Time).Format(time.TimeOnly), m.Payload)
	}
	// Output:
	// stripes written to: 8
	// 00:02:34 78km NNW of Cape Yakataga, Alaska
	// 00:11:14 6km NW of The Geysers, CA
	// 00:11:15 2km SE of Mammoth Lakes, CA
}

// A counter lies beside what it counts and changes in the same transaction: it is always
// right, and reading it costs one lookup instead of a scan.
func Example_aggregates() {
	db := open()
	defer db.Close()
	ctx := context.Background()
	event, err := keycodec.NewSchema(
		keycodec.Field{Name: "kind", Type: keycodec.TypeString}, // "event" or "day"
		keycodec.Field{Name: "time", Type: keycodec.TypeTime, Unit: keycodec.Millisecond},
		keycodec.Field{Name: "code", Type: keycodec.TypeString})
	check(err)
	add := func(tx *engine.Tx, q quake) error {
		sk, err := event.Append(nil, "event", q.At(), q.Code)
		if err != nil {
			return err
		}
		key := engine.Key{PK: []byte(q.Net), SK: sk}
		if err := tx.PutIf(key, nil, engine.IfAbsent()); err != nil {
			return err // it is counted already
		}
		day, err := event.Append(nil, "day", q.At().UTC().Truncate(24*time.Hour), "")
		if err != nil {
			return err
		}
		n := uint64(0)
		old, err := tx.Get(engine.Key{PK: []byte(q.Net), SK: day})
		if err == nil {
			n = binary.BigEndian.Uint64(old)
		} else if !errors.Is(err, engine.ErrNotFound) {
			return err
		}
		total := binary.BigEndian.AppendUint64(nil, n+1)
		return tx.Put(engine.Key{PK: []byte(q.Net), SK: day}, total)
	}
	for _, q := range quakes() {
		check(db.UpdateRetry(ctx, func(tx *engine.Tx) error { return add(tx, q) }))
	}
	days, err := event.AppendPrefix(nil, "day")
	check(err)
	q := engine.Query{PK: []byte("ci"), SK: engine.SKBeginsWith(days), Limit: 3}
	for item, err := range db.Query(ctx, q) {
		check(err)
		values, err := event.Decode(item.Key.SK)
		check(err)
		fmt.Printf("%s %d\n", values[1].(time.Time).Format(time.DateOnly),
			binary.BigEndian.Uint64(item.Value))
	}
	// Output:
	// 2018-01-31 37
	// 2018-02-01 50
	// 2018-02-02 56
}

// Two ways to look for the same records that no one key serves: two keys, one commit.
func Example_conflictingPatterns() {
	db := open()
	defer db.Close()
	ctx := context.Background()
	net := composite.Field{Name: "net", Type: composite.String, Width: 2}
	kind := composite.Field{Name: "type", Type: composite.String, Width: 20}
	at := composite.Field{Name: "time", Type: composite.Timestamp}
	code := composite.Field{Name: "code", Type: composite.String, Width: 16}
	byNet, err := composite.NewSchema(composite.Options{}, net, at, code)
	check(err)
	byType, err := composite.NewSchema(composite.Options{}, kind, at, net, code)
	check(err)
	c, err := access.Open(db, access.Index{Name: "events", Keys: byNet},
		access.Index{Name: "events.type", Keys: byType})
	check(err)
	var records []access.Record
	for _, q := range quakes() {
		records = append(records, access.Record{
			Fields:  map[string]any{"net": q.Net, "type": q.Type, "time": q.Time, "code": q.Code},
			Payload: []byte(q.Place),
		})
	}
	check(c.Put(ctx, records...))

	for _, equal := range []map[string]any{{"net": "nc"}, {"type": "explosion"}} {
		for m, err := range c.PrefixScan(ctx, equal, 2) {
			check(err)
			fmt.Println(equal, string(m.Payload))
		}
	}
	for _, err := range c.PrefixScan(ctx, map[string]any{"code": "37868143"}, 1) {
		fmt.Println(errors.Unwrap(err))
	}
	// Output:
	// map[net:nc] 18km SW of Toms Place, CA
	// map[net:nc] 11km N of Coalinga, CA
	// map[type:explosion] 2km ESE of Princeton, Canada
	// map[type:explosion] 2km SSE of Summerlin South, Nevada
	// access: no key of the collection begins with these fields
}
