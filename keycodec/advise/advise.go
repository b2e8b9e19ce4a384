package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/internal/figure"
)

// Options of Advise. The zero value is usable.
type Options struct {
	// Rows is the expected number of records; 0 means that the sample is all.
	Rows uint64
	// MaxKeys bounds the number of keys; 0 is no bound. The queries given first decide which
	// keys remain.
	MaxKeys int
	// ID names the fields that identify a record. Every key ends with those of them that it
	// lacks. Without them a field that is unique in the sample is taken.
	ID []string
}

// Key is a recommended composite key.
type Key struct {
	Fields []string
	Needed int      // how many of the fields the queries need; the others identify the record
	Shard  int      // number of shards to put in front, 0 for none
	Why    []string // one sentence for each decision

	// Set by Repeats: whether the key was compared with the records of the sample, how many
	// of them repeat the key of another, and the field whose addition leaves the fewest.
	Checked  bool
	Repeated uint64
	Add      []string
}

// Report is the result of Advise.
type Report struct {
	Rows     uint64 // number of records that the estimates are for
	Fields   []Field
	Keys     []Key     // the first one is the primary key
	Verdicts []Verdict // one for each query
	Notes    []string  // what needs another look
}

// shards is how many shards are recommended for a key that would grow at its end only: the
// writes of that many places go on side by side, and an ordered read still merges few.
const shards = 16

// Advise recommends keys for the queries. It fails if a query or the options name a field
// that no record of the sample has.
func Advise(s *Sample, queries []Query, o Options) (Report, error) {
	r := Report{Rows: max(o.Rows, s.rows)}
	r.Fields = s.Fields(o.Rows)
	if err := checkNames(r.Fields, queries, o.ID); err != nil {
		return r, err
	}
	id := o.ID
	if len(id) == 0 {
		id = r.pickID()
	}
	chains := cover(queries, canonical(queries))
	if o.MaxKeys > 0 && len(chains) > o.MaxKeys {
		r.note("%d keys would serve all queries; the limit is %d", len(chains), o.MaxKeys)
		chains = cover(queries, given(queries))[:o.MaxKeys]
	}
	for _, chain := range chains {
		k := r.key(chain, queries, id)
		r.inspect(&k, s)
		r.Keys = append(r.Keys, k)
	}
	r.compareKeys(queries, chains)
	names := make([][]string, len(r.Keys))
	for i, k := range r.Keys {
		names[i] = k.Fields
	}
	r.Verdicts = Explain(names, queries, s, r.Rows)
	if n := len(r.Keys); n > 1 {
		r.note("each record is written %d times, once for every key, in one commit", n)
	}
	return r, nil
}

func checkNames(fields []Field, queries []Query, id []string) error {
	for i, q := range queries {
		for _, name := range append(slices.Clone(q.Equal), q.Range, q.Order) {
			if _, ok := find(fields, name); !ok && name != "" {
				return fmt.Errorf("query %d: no record has a field %q", i+1, name)
			}
		}
	}
	for _, name := range id {
		if _, ok := find(fields, name); !ok {
			return fmt.Errorf("no record has a field %q", name)
		}
	}
	return nil
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// pickID returns a field that distinguishes records: a unique one, if possible one whose
// name says so.
func (r *Report) pickID() []string {
	best := ""
	for _, f := range r.Fields {
		name := strings.ToLower(f.Name)
		named := strings.HasSuffix(name, "id") || strings.HasSuffix(name, "code") ||
			strings.HasSuffix(name, "key")
		if f.Unique && (best == "" || named) {
			best = f.Name
			if named {
				break
			}
		}
	}
	if best == "" {
		r.note("no field identifies a record; name the fields that do, or records with one key" +
			" replace each other")
		return nil
	}
	return []string{best}
}

// key makes the key of a chain of queries.
func (r *Report) key(chain []int, queries []Query, id []string) Key {
	var k Key
	for _, i := range chain {
		q := queries[i]
		var group []Field
		for _, name := range q.Equal {
			if !slices.Contains(k.Fields, name) {
				f, _ := find(r.Fields, name)
				group = append(group, f)
			}
		}
		slices.SortStableFunc(group, func(a, b Field) int {
			return cmp.Or(cmp.Compare(users(queries, b.Name), users(queries, a.Name)),
				cmp.Compare(b.Distinct, a.Distinct), cmp.Compare(a.Name, b.Name))
		})
		for _, f := range group {
			k.Fields = append(k.Fields, f.Name)
			k.why("%s: equality in query %d; %s cardinality, about %s values", f.Name, i+1, f.Class,
				figure.Count(int64(f.Distinct)))
		}
		if next := q.next(); next != "" && !slices.Contains(k.Fields, next) {
			k.Fields = append(k.Fields, next)
			what := "order"
			if q.Range != "" {
				what = "range"
			}
			k.why("%s: %s in query %d, so after the fields compared for equality", next, what, i+1)
		}
	}
	k.Needed = len(k.Fields)
	for _, name := range id {
		if !slices.Contains(k.Fields, name) {
			k.Fields = append(k.Fields, name)
			k.why("%s: added to tell records apart", name)
		}
	}
	return k
}

// users counts the queries that compare the field for equality.
func users(queries []Query, name string) (n int) {
	for _, q := range queries {
		if slices.Contains(q.Equal, name) {
			n++
		}
	}
	return n
}

func (k *Key) why(format string, args ...any) {
	k.Why = append(k.Why, fmt.Sprintf(format, args...))
}

// inspect looks for what makes a key slow although every query fits it.
func (r *Report) inspect(k *Key, s *Sample) {
	if len(k.Fields) == 0 {
		return
	}
	first, _ := find(r.Fields, k.Fields[0])
	if first.Rising {
		k.Shard = shards
		k.why("%s only grows: without shards all writes go to one end", first.Name)
	}
	reads := s.Reads(k.Fields[:1], r.Rows)
	if first.Class == Low && k.Needed == 1 && reads > 1 {
		r.note("%s has %s values only: reading one reads about %s records; a scan may do as well",
			first.Name, figure.Count(int64(first.Distinct)), figure.Count(int64(reads)))
	}
	for _, name := range k.Fields {
		if f, _ := find(r.Fields, name); f.Missing > 0 {
			r.note("%s is missing in %s of the sample's records; composite keys of version 1 have"+
				" no NULL", name, figure.Count(int64(f.Missing)))
		}
	}
}

// compareKeys says why the first key does not serve the others' queries too.
func (r *Report) compareKeys(queries []Query, chains [][]int) {
	for i := 1; i < len(r.Keys); i++ {
		for _, q := range chains[i] {
			v := Classify(r.Keys[0].Fields, queries[q])
			if v.Kind == Inefficient {
				r.Keys[i].why("key 1 cannot serve query %d: it %s", q+1, v.Why)
				break
			}
		}
	}
}
