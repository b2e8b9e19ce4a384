package present

import (
	"bufio"
	"fmt"
	"iter"
	"slices"

	"github.com/kstonedb/kstone/internal/figure"
)

// sampleRows is from how many rows the columns of a long table and their widths are chosen, so
// that memory stays bounded and columns keep their places.
const sampleRows = 1000

// grid is the layout of a table: its columns, the first of them keys, and the cells of a row.
type grid[R any] struct {
	head  []string
	keys  int
	empty bool // it is shown without rows
	// escaped says that head and cells are those of TSV, where texts differ from NULL.
	escaped bool
	// cells returns those of a row. It is complete if the row has no field without a column.
	cells func(R) (line []string, complete bool)
}

// painter writes rows in one of the forms for people.
type painter interface {
	begin(head []string, sample [][]string)
	row(cells []string)
	gap() // stands for rows that are left out
	end()
}

// sheet is a table that is being written.
type sheet[T, R any] struct {
	w       *bufio.Writer
	o       Options
	cut     func(T) R
	lay     func([]R) grid[R]
	rows    []R // until the layout is chosen
	tail    []R // the last rows of a brief table, as a ring
	grid    grid[R]
	painter painter
	partial int // rows with fields that have no column
}

// writeSheet writes values as a table: cut takes from a value what is shown of it, lay chooses
// the columns from the first rows.
func writeSheet[T, R any](w *bufio.Writer, values iter.Seq2[T, error], o Options, cut func(T) R,
	lay func([]R) grid[R]) (n int, err error) {
	s := &sheet[T, R]{w: w, o: o, cut: cut, lay: lay}
	defer func() {
		if err != nil && n > 0 {
			s.close(n, "")
		}
	}()
	for v, err := range values {
		if err != nil {
			return n, err
		}
		if s.o.Brief > 0 && n == s.o.Brief && o.Last != nil {
			return n, s.closeFar(o)
		}
		n++
		if err := s.add(cut(v), n); err != nil {
			return n, err
		}
	}
	note := ""
	if s.tail != nil {
		half := s.half()
		at := n % half
		s.tail = slices.Concat(s.tail[at:], s.tail[:at])
		note = fmt.Sprintf(" (%d shown)", 2*half)
	}
	s.close(n, note)
	return n, s.w.Flush()
}

// half is how many rows a brief table shows at its start and at its end.
func (s *sheet[T, R]) half() int { return max(s.o.Brief/2, 1) }

// add takes the row with a number, counted from 1.
func (s *sheet[T, R]) add(row R, n int) error {
	limit := sampleRows
	if s.o.Brief > 0 {
		limit = 2 * s.half()
	}
	switch {
	case s.painter != nil:
		s.paint(row)
	case len(s.rows) < limit:
		s.rows = append(s.rows, row)
	case s.o.Brief > 0:
		if s.tail == nil {
			s.tail = slices.Clone(s.rows[s.half():])
		}
		s.tail[(n-1)%s.half()] = row
	default:
		s.open()
		s.paint(row)
	}
	_, err := s.w.Write(nil) // the first error of the writer
	return err
}

// closeFar ends a brief table whose last rows are read from the other side.
func (s *sheet[T, R]) closeFar(o Options) error {
	half := s.half()
	for v, err := range o.Last(half) {
		if err != nil {
			return err
		}
		item, ok := any(v).(T)
		if !ok {
			break
		}
		s.tail = append(s.tail, s.cut(item))
	}
	slices.Reverse(s.tail)
	total := "more rows"
	if about := o.About(); about > 2*int64(half) {
		total = "about " + figure.Rows(about)
	}
	s.finish()
	_, err := fmt.Fprintf(s.w, "%s (%d shown)\n", total, 2*half)
	return err
}

// open chooses the layout and writes the rows that were kept.
func (s *sheet[T, R]) open() {
	all := slices.Concat(s.rows, s.tail)
	s.grid = s.lay(all)
	sample := make([][]string, len(all))
	for i, row := range all {
		sample[i], _ = s.grid.cells(row)
	}
	s.painter = s.paintWith(sample)
	s.painter.begin(s.grid.head, sample)
	for _, row := range s.rows {
		s.paint(row)
	}
	s.rows = nil
}

// paintWith returns the painter of the format.
func (s *sheet[T, R]) paintWith(sample [][]string) painter {
	format := s.o.Format
	if format == Table && s.o.Auto && s.o.Width > 0 &&
		leastWidth(s.grid.head, sample) > s.o.Width {
		format = Vertical
	}
	switch format {
	case Vertical:
		return &verticalPainter{w: s.w, o: s.o}
	case Markdown:
		return &linePainter{w: s.w, o: s.o, cell: markdownCell, markdown: true}
	case TSV:
		p := &linePainter{w: s.w, o: s.o, cell: tsvEscapes.Replace}
		if s.grid.escaped {
			p.cell = func(cell string) string { return cell }
		}
		return p
	case Box:
		return &boxPainter{w: s.w, o: s.o, style: asciiBox, keys: s.grid.keys}
	}
	return &boxPainter{w: s.w, o: s.o, style: roundBox, keys: s.grid.keys}
}

func (s *sheet[T, R]) paint(row R) {
	cells, complete := s.grid.cells(row)
	if !complete {
		s.partial++
	}
	s.painter.row(cells)
}

// finish writes the rows that are kept and ends the table.
func (s *sheet[T, R]) finish() {
	if s.painter == nil {
		if s.tail != nil {
			s.rows = s.rows[:s.half()]
		}
		s.open()
	}
	if s.tail != nil {
		s.painter.gap()
		for _, row := range s.tail {
			s.paint(row)
		}
	}
	s.painter.end()
}

// close ends a table of n rows, and counts them for people.
func (s *sheet[T, R]) close(n int, note string) {
	if n > 0 || s.lay(nil).empty {
		s.finish()
	}
	if s.o.Format == TSV || s.o.Format == Markdown || s.o.Plain {
		return
	}
	if s.partial > 0 {
		note += fmt.Sprintf("; %d have fields without a column: -o jsonl shows them", s.partial)
	}
	fmt.Fprintf(s.w, "%s%s\n", figure.Rows(int64(n)), note)
}
