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
	// entry is that of what an entry has, for the filter of one that does not cover; else nil.
	entry    *decoder
	fetch    *fetcher
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
		a.entry.full = n.Table.Row()
		covers := n.Index.Covers()
		a.entry.want = a.decoder.want.Without(a.decoder.want.Without(covers))
		a.fetch = newFetcher(r, n.Table, n.Index.Name, a.counts)
	}
	return a, nil
}

// decoder makes rows of a layout out of stored bytes.
type decoder struct {
	table    *schema.Table
	want     schema.ColumnSet
	ordinals []int // of the columns at the start of the layout
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
		ordinals: make([]int, 0, len(layout)),
	}
	for _, c := range layout {
		if c.Ordinal < 0 {
			d.keys = true
			continue
		}
		d.ordinals = append(d.ordinals, c.Ordinal)
		d.want.Add(c.Ordinal)
	}
	d.test(test)
	return d
}

// test makes the decoder read the columns that some expressions need before the others.
func (d *decoder) test(exprs ...expr.Expr) {
	var room [2][8]bool
	used, rest := room[0][:], room[1][:]
	if n := len(d.ordinals); n > len(used) {
		used, rest = make([]bool, n), make([]bool, n)
	}
	for _, e := range exprs {
		expr.Walk(e, func(e expr.Expr) bool {
			if s, ok := e.(expr.Slot); ok && uint(s.I) < uint(len(used)) {
				used[s.I] = true
			}
			return true
		})
	}
	for i := range rest {
		rest[i] = !used[i]
	}
	d.first = d.table.RowReader(d.ordinals, used)
	d.rest = d.table.RowReader(d.ordinals, rest)
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
	if d.own {
		err := x.DecodeOwn(d.full, it.Key.SK, it.Value, &d.want)
		return d.arrange(store.Key{}), store.Key{}, err
	}
	key, buf, err := x.DecodeEntry(d.full, d.buf[:0], it.Key.SK, it.Value, &d.want)
	d.buf = buf
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
	s := &a.into
	*s = sink{access: a, yield: yield, left: a.node.Limit, block: s.block}
	err := a.read(s)
	s.finish()
	return first(err, s.err)
}

// sink takes the items of an access, one after the other, and hands on rows.
type sink struct {
	*access
	yield func([]expr.Value) bool
	left  int64 // rows that are still wanted; negative: no limit
	err   error
	done  bool
	item  store.Item
	block *store.Block // of item; nil: not needed yet
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
	tests := s.residual.some || s.gate != nil
	keyed, later := d.first.NeedsKey(), d.needsKey()
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
			if !s.passes(&s.residual, d.row, err) {
				continue
			}
			if s.gate != nil && !s.gate(d.row) {
				a.Rows++ // it is one of the result
				continue
			}
		}
		if later && key.PK == nil {
			key, err = b.Key(i)
		}
		if err == nil {
			err = d.complete(key, value)
		}
		if err != nil {
			s.fail(err)
			break
		}
		s.at = i
		s.hand(d.row)
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
	if s.node.Index == nil {
		if s.block == nil {
			s.block = new(store.Block)
		}
		s.item = it
		s.block.SetItem(&s.item)
		return s.rows(s.block)
	}
	return s.index(&it)
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
		if s.passes(&s.filter, row, err) {
			s.row(row, nil)
		}
		return !s.done
	}
	row, key, err := s.entry.decodeEntry(s.node.Index, it)
	if s.passes(&s.filter, row, err) {
		s.later(key)
	}
	return !s.done
}

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

// row hands on a row for which the residual condition is true.
func (s *sink) row(row []expr.Value, err error) {
	if s.passes(&s.residual, row, err) {
		s.hand(row)
	}
}

// hand hands on a row.
func (s *sink) hand(row []expr.Value) {
	s.taken = true
	s.left--
	if !s.yield(row) || s.left == 0 {
		s.done = true
	}
}

// later puts a row on the list of those to fetch.
func (s *sink) later(key store.Key) {
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
	err := s.fetch.flush(func(_ int, it store.Item) bool {
		row, err := s.decoder.decodeRow(it.Key, it.Value)
		s.row(row, err)
		return !s.done
	})
	if err != nil {
		s.fail(err)
	}
}

// finish fetches what is left on the list.
func (s *sink) finish() {
	if s.fetch == nil {
		return
	}
	if !s.done && s.fetch.len() > 0 {
		s.flush()
	}
	s.fetch.reset()
}
