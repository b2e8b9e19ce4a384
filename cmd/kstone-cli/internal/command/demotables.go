package command

import (
	"bufio"
	"bytes"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/testdata"
)

// sampleEvery is how many cities there are for one that becomes a row: the demo is to
// be short.
const sampleEvery = 8

// tables shows a table with indexes, and plans of queries.
func (t *tour) tables() error {
	if err := t.readSample(); err != nil {
		return err
	}
	const create = "CREATE TABLE cities (country TEXT, region TEXT, county TEXT, city TEXT," +
		" lat FLOAT, lng FLOAT, PARTITION KEY (country), SORT KEY (region, county, city)," +
		" INDEX by_name (city) INCLUDE (lat, lng), INDEX by_lat (lat DESC) SHARD (16))"
	const byName = "SELECT country, region, lat FROM cities WHERE city BEGINS WITH 'San Jo'" +
		" ORDER BY city LIMIT 5"
	const north = "SELECT city, country, lat FROM cities ORDER BY lat DESC LIMIT 5"
	const most = "SELECT country, count(*) AS n FROM cities WHERE lat < 0 GROUP BY country" +
		" ORDER BY n DESC LIMIT 5"
	for _, s := range []struct {
		text string
		args []string
	}{
		{"A table beside the items: typed columns, an index that covers, an index in 16 buckets.",
			[]string{"sql", t.dir, create}},
		{"Every eighth city becomes a row.",
			[]string{"import", t.dir, "-", "--table", "cities"}},
		{"An index finds names that begin alike; the rows themselves are not read.",
			[]string{"sql", t.dir, byName + "; EXPLAIN " + byName}},
		{"The most northern cities: 16 sorted buckets are merged, and reading ends after five.",
			[]string{"sql", t.dir, north + "; EXPLAIN " + north}},
		{"The countries with the most cities south of the equator.",
			[]string{"sql", t.dir, most + "; EXPLAIN ANALYZE " + most}},
	} {
		if _, err := t.step(s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// readSample takes some of the cities.
func (t *tour) readSample() error {
	in, err := record.Decompress(bytes.NewReader(testdata.Cities))
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	for n := 0; lines.Scan(); n++ {
		if n%sampleEvery == 0 {
			t.sample = append(append(t.sample, lines.Bytes()...), '\n')
		}
	}
	return lines.Err()
}
