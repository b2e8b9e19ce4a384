package exec

import (
	"fmt"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// access reads one table, through an index or its rows.
type access struct {
	*runner
	node     *plan.Access
	filter   condition // on entries
	residual condition // on rows
	decoder  decoder
	// entry reads what the filter needs of an entry that does not cover; else nil.
	entry    *decoder
	fetch    fetcher
	found    func(i int, it store.Item) bool // takes what fetch has read; nil: it is not used
	wants    *extremes
	counts   *plan.Actual
	meter    *meter     // nil: what it reads has no bound
	shared   bool       // it reads what a division gives to its worker
	ints     *intFilter // nil: each row is tested by itself
	narrow   narrower   // nil: gate, or the operator above, decides about each row
	narrowed bool       // the present block was
	at       int        // which row of the block is handed on
	// gate, if not nil, reports whether a row is wanted that has the columns of decoder.first.
	gate func(row []expr.Value) bool
	into sink // of run
}

func (r *runner) access(n *plan.Access) (operator, error) {
	if n.Probe != nil {
		return nil, fmt.Errorf("exec: table %s is read by probes only", n.Name)
	}
	if n.Deferred {
		return nil, fmt.Errorf("exec: the plan waits for a subquery")
	}
	return r.newAccess(n)
}

func (r *runner) newAccess(n *plan.Access) (*access, error) {
	a := &access{runner: r, node: n, decoder: newDecoder(n.Table, n.Layout(), n.Residual),
		wants: r.extremes, counts: r.actual(n), meter: r.meter,
		shared: r.worker != nil && r.worker.division.leaf == n}
	a.meter.watch(a.counts)
	var err error
	if a.filter, err = r.condition(n.Filter); err != nil {
		return nil, err
	}
	if a.residual, err = r.condition(n.Residual); err != nil {
		return nil, err
	}
	if n.Residual != nil {
		a.ints = a.intFilter(n.Residual)
	}
	if n.Index != nil && n.Covering {
		a.decoder.full = n.Table.Row()
		a.decoder.own = !a.decoder.keys && a.decoder.want.Within(n.Index.OwnColumns())
	} else if n.Index != nil {
		entry := a.decoder
		a.entry = &entry
		if entry.want = entry.columnsOf(n.Filter); entry.want.Empty() {
			entry.ordinals = nil
		} else {
			entry.full = n.Table.Row()
		}
		a.fetches(n.Table, n.Index.Name)
	}
	return a, nil
}

// fetches makes the access ready to read rows by their keys, which entries of an index lead to
// if it has a name.
func (a *access) fetches(t *schema.Table, index string) {
	first := a.firstBatch(minFetch, maxFetch)
	a.fetch = fetcher{runner: a.runner, table: t, index: index, actual: a.counts, first: first,
		size: first}
	a.found = a.into.fetched
}

// decoder makes rows of a layout out of stored bytes.
type decoder struct {
	table    *schema.Table
	want     schema.ColumnSet
	ordinals []int // of the columns at the start of the layout; none: the row is full
	at       []int // where they are in it
	keys     bool  // RowPK and RowSK follow them
	own      bool  // of an index: its entries have all of it without the keys of their rows
	full     []expr.Value
	row      []expr.Value
	buf      []byte
	// first reads the columns that a row is tested by, and rest the others. Without a test it is
	// rest that reads all of them.
	first, rest *schema.RowReader
}

// newDecoder returns a decoder that reads the columns of a test, which may be nil, before others.
func newDecoder(t *schema.Table, layout []plan.ColumnRef, test expr.Expr) decoder {
	d := decoder{
		table: t, row: make([]expr.Value, len(layout)),
		ordinals: make([]int, 0, len(layout)), at: make([]int, len(t.Columns)),
	}
	for _, c := range layout {
		if c.Ordinal < 0 {
			d.keys = true
			continue
		}
		d.at[c.Ordinal] = len(d.ordinals)
		d.ordinals = append(d.ordinals, c.Ordinal)
		d.want.Add(c.Ordinal)
	}
	d.test(test)
	return d
}

// test makes the decoder read the columns that some expressions need before the others.
func (d *decoder) test(exprs ...expr.Expr) {
	first := d.columnsOf(exprs...)
	d.first = d.table.RowReader(first, d.at)
	d.rest = d.table.RowReader(d.want.Without(first), d.at)
}

// columnsOf returns the columns that expressions over the layout use.
func (d *decoder) columnsOf(exprs ...expr.Expr) (used schema.ColumnSet) {
	for _, e := range exprs {
		expr.Walk(e, func(e expr.Expr) bool {
			if s, ok := e.(expr.Slot); ok && uint(s.I) < uint(len(d.ordinals)) {
				used.Add(d.ordinals[s.I])
			}
			return true
		})
	}
	return used
}

// needsKey reports whether the row of a layout takes more of a key than its test.
func (d *decoder) needsKey() bool { return d.keys || d.rest.NeedsKey() }

// complete reads what the test has not, into the row.
func (d *decoder) complete(key store.Key, value []byte) error {
	if d.keys {
		d.setKey(key)
	}
	return d.rest.Read(d.row, key, value)
}

// setKey puts the key of a row after its columns.
func (d *decoder) setKey(key store.Key) {
	n := len(d.ordinals)
	d.row[n] = expr.BytesOf(view(key.PK))
	d.row[n+1] = expr.Null()
	if key.SK != nil {
		d.row[n+1] = expr.BytesOf(view(key.SK))
	}
}

// arrange puts the decoded columns and the key in the order of the layout.
func (d *decoder) arrange(key store.Key) []expr.Value {
	for i, o := range d.ordinals {
		d.row[i] = d.full[o]
	}
	if d.keys {
		d.setKey(key)
	}
	return d.row
}

// decodeRow returns the row of an item. It may share the item's memory.
func (d *decoder) decodeRow(key store.Key, value []byte) ([]expr.Value, error) {
	err := d.first.Read(d.row, key, value)
	if err == nil {
		err = d.complete(key, value)
	}
	return d.row, err
}

// decodeEntry returns what an entry has of its row, and the key of the row if own is not set. Both
// are valid until the next call.
func (d *decoder) decodeEntry(x *schema.Index, it *store.Item) ([]expr.Value, store.Key, error) {
	var key store.Key
	var err error
	switch {
	case d.own:
		err = x.DecodeOwn(d.full, it.Key.SK, it.Value, &d.want)
	case d.want.Empty():
		key, d.buf, err = x.RowKey(d.buf[:0], it.Key.SK, it.Value)
	default:
		key, d.buf, err = x.DecodeEntry(d.full, d.buf[:0], it.Key.SK, it.Value, &d.want)
	}
	if err != nil {
		return nil, key, err
	}
	return d.arrange(key), key, nil
}

// view returns the text of b without copying it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func (a *access) run(yield func([]expr.Value) bool) error {
	if a.node.Limit == 0 {
		return nil
	}
	s := a.begin(yield, a.node.Limit)
	err := a.read(s)
	s.finish()
	return first(err, s.err)
}

// begin returns the sink of another run.
func (a *access) begin(yield func([]expr.Value) bool, left int64) *sink {
	s := &a.into
	*s = sink{access: a, yield: yield, left: left}
	return s
}

// sink takes the items of an access, one after the other, and hands on rows.
type sink struct {
	*access
	yield func([]expr.Value) bool
	whole Sink  // not nil: takes rows as they are stored, instead of yield
	left  int64 // rows that are still wanted; negative: no limit
	idle  int   // entries since the last whose row is wanted
	skip  int64 // rows before them that are still to be left out
	err   error
	done  bool
	// single makes the sink fetch each row at once; taken then reports whether the last
	// item became a row.
	single, taken bool
}

// take takes the items of a block. It returns false if no more are wanted.
func (s *sink) take(b *store.Block) bool {
	if s.shared && !s.worker.reads(b) {
		return false
	}
	if err := s.meter.check(0); err != nil {
		s.fail(err)
		return false
	}
	if s.node.Index == nil {
		return s.rows(b)
	}
	for i := range b.Len() {
		it, err := b.Item(i)
		if err != nil {
			s.fail(err)
		} else {
			s.index(&it)
		}
		if s.done {
			return false
		}
	}
	return true
}

// rows takes stored rows. Only those that pass the test are decoded completely.
func (s *sink) rows(b *store.Block) bool {
	a, d := s.counts, &s.decoder
	tests := s.tests()
	keyed, later := d.first.NeedsKey(), d.needsKey() || s.whole != nil
	keep := s.ints.keeps(b, s.params)
	if s.narrowed = s.narrow != nil && (keep != nil || !s.residual.some); s.narrowed {
		keep = s.narrow.narrow(b, keep, a)
	}
	i, n := 0, b.Len()
rows:
	for ; i < n && !s.done; i++ {
		for keep != nil && !keep[i] {
			if i++; i == n {
				break rows
			}
		}
		value := b.Value(i)
		var key store.Key
		var err error
		if tests {
			if keyed {
				key, err = b.Key(i)
			}
			if err == nil {
				err = d.first.Read(d.row, key, value)
			}
			if !s.passes(&s.residual, d.row, err) || s.gate != nil && !s.opens() {
				continue
			}
		}
		if later && key.PK == nil {
			key, err = b.Key(i)
		}
		if err != nil {
			s.fail(err)
			break
		}
		s.at = i
		s.passed(key, value)
	}
	a.Keys += int64(i)
	if i == n {
		a.Bytes += int64(b.Bytes())
		return !s.done
	}
	for ; i > 0; i-- {
		a.Bytes += int64(b.KeyBytes(i-1) + len(b.Value(i-1)))
	}
	return false
}

// put takes an item. It returns false if no more are wanted.
func (s *sink) put(it store.Item) bool {
	if s.node.Index != nil {
		return s.index(&it)
	}
	s.counts.Keys++
	s.counts.Bytes += int64(len(it.Key.PK) + len(it.Key.SK) + len(it.Value))
	return s.fetched(0, it)
}

// index is put for an entry of the index.
func (s *sink) index(it *store.Item) bool {
	a := s.counts
	if a.Keys++; a.Keys%checkEvery == 0 || s.single {
		if err := s.meter.check(0); err != nil {
			s.fail(err)
		}
	}
	a.Bytes += int64(len(it.Key.PK) + len(it.Key.SK) + len(it.Value))
	if s.node.Covering {
		row, _, err := s.decoder.decodeEntry(s.node.Index, it)
		if s.passes(&s.filter, row, err) && !s.leaves() {
			s.hand(s.yield(row))
		}
		return !s.done
	}
	row, key, err := s.entry.decodeEntry(s.node.Index, it)
	if s.passes(&s.filter, row, err) {
		s.idle = 0
		s.later(key)
	} else if s.idle++; s.idle == maxIdle {
		s.finish()
	}
	return !s.done
}

// maxIdle is how many entries may pass that are not wanted, until the rows that are to be fetched
// are. Why: they may be all that is wanted, as the end of a group whose rows are sorted.
const maxIdle = 4096

// fail ends the reading with an error.
func (s *sink) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.done = true
}

// passes applies a condition to what was decoded, if that did not fail.
func (s *sink) passes(c *condition, row []expr.Value, err error) bool {
	ok := false
	if err == nil {
		ok, err = c.holds(row)
	}
	if err != nil {
		s.fail(err)
		return false
	}
	return ok
}

// leaves reports whether a row is one of those before the result.
func (s *sink) leaves() bool {
	if s.skip == 0 {
		return false
	}
	s.skip--
	return true
}

// fetched takes a row that was read by its key. Only one that passes the test is decoded
// completely.
func (s *sink) fetched(_ int, it store.Item) bool {
	d := &s.decoder
	if s.narrowed = false; s.tests() {
		err := d.first.Read(d.row, it.Key, it.Value)
		if !s.passes(&s.residual, d.row, err) || s.gate != nil && !s.opens() {
			return !s.done
		}
	}
	s.passed(it.Key, it.Value)
	return !s.done
}

// tests reports whether rows are tested.
func (s *sink) tests() bool { return s.residual.some || s.gate != nil }

// opens asks the gate for the present row, which is one of the result.
func (s *sink) opens() bool {
	if s.gate(s.decoder.row) {
		return true
	}
	s.counts.Rows++
	return false
}

// passed hands on a stored row that passes the test, which has decoded the columns that it uses.
func (s *sink) passed(key store.Key, value []byte) {
	switch {
	case s.leaves():
	case s.whole != nil:
		s.hand(s.whole.Stored(key, value))
	default:
		if err := s.decoder.complete(key, value); err != nil {
			s.fail(err)
			return
		}
		s.hand(s.yield(s.decoder.row))
	}
}

// hand takes note of a row that was handed on.
func (s *sink) hand(more bool) {
	s.taken = true
	s.left--
	if !more || s.left == 0 {
		s.done = true
	}
}

// later puts a row on the list of those to fetch.
func (s *sink) later(key store.Key) {
	if !s.residual.some && s.leaves() {
		return
	}
	s.fetch.add(key)
	wanted := s.fetch.size
	if s.left >= 0 && !s.residual.some {
		wanted = min(wanted, int(min(s.left, maxFetch)))
	}
	if s.single || s.fetch.len() >= wanted {
		s.flush()
	}
}

// flush fetches the rows on the list.
func (s *sink) flush() {
	if err := s.fetch.flush(s.found); err != nil {
		s.fail(err)
	}
}

// finish fetches what is left on the list.
func (s *sink) finish() {
	if !s.done && s.fetch.len() > 0 {
		s.flush()
	}
	s.fetch.reset()
}
