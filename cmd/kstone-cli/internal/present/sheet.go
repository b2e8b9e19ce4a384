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

// sheetRow is what is shown of an item or of a row: the cells that all have, and others by the
// names of their columns.
type sheetRow struct {
	fixed []string
	names []string
	cells map[string]string
}

func (r *sheetRow) add(name, cell string) {
	r.names = append(r.names, name)
	r.cells[name] = cell
}

// painter writes rows in one of the forms for people.
type painter interface {
	begin(head []string, sample [][]string)
	row(cells []string)
	gap() // stands for rows that are left out
	end()
}

// sheet is a table that is being written.
type sheet struct {
	w    *bufio.Writer
	o    Options
	head []string // of the fixed cells
	// items: the fixed cells are PK and SK, which are no numbers; the SK is left out where no item
	// has one, and so is the table where there are no items.
	items bool
	// last returns the last rows, as Options.Last; nil if there is no such way.
	last    func(n int) iter.Seq2[sheetRow, error]
	rows    []sheetRow // until the columns are chosen
	tail    []sheetRow // the last rows of a brief table, as a ring
	fixed   int        // how many of the fixed cells are shown
	names   []string   // of the columns after them
	known   map[string]bool
	painter painter
	partial int // rows with fields that have no column
}

// cutRows returns what cut takes from values.
func cutRows[T any](values iter.Seq2[T, error], cut func(T) sheetRow) iter.Seq2[sheetRow, error] {
	return func(yield func(sheetRow, error) bool) {
		for v, err := range values {
			var row sheetRow
			if err == nil {
				row = cut(v)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// write writes rows as a table.
func (s *sheet) write(rows iter.Seq2[sheetRow, error]) (n int, err error) {
	defer func() {
		if err != nil && n > 0 {
			s.close(n, "")
		}
	}()
	for row, err := range rows {
		if err != nil {
			return n, err
		}
		if s.o.Brief > 0 && n == s.o.Brief && s.last != nil {
			return n, s.closeFar()
		}
		n++
		if err := s.add(row, n); err != nil {
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
func (s *sheet) half() int { return max(s.o.Brief/2, 1) }

// add takes the row with a number, counted from 1.
func (s *sheet) add(row sheetRow, n int) error {
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
func (s *sheet) closeFar() error {
	half := s.half()
	for row, err := range s.last(half) {
		if err != nil {
			return err
		}
		s.tail = append(s.tail, row)
	}
	slices.Reverse(s.tail)
	total := "more rows"
	if about := s.o.About(); about > 2*int64(half) {
		total = "about " + figure.Rows(about)
	}
	s.finish()
	_, err := fmt.Fprintf(s.w, "%s (%d shown)\n", total, 2*half)
	return err
}

// open chooses the layout and writes the rows that were kept.
func (s *sheet) open() {
	all := slices.Concat(s.rows, s.tail)
	head := s.lay(all)
	sample := make([][]string, len(all))
	for i, row := range all {
		sample[i] = s.cells(row)
	}
	s.painter = s.paintWith(head, sample)
	s.painter.begin(head, sample)
	for _, row := range s.rows {
		s.paint(row)
	}
	s.rows = nil
}

// lay chooses the columns from the first rows, and returns their headings.
func (s *sheet) lay(rows []sheetRow) []string {
	s.fixed, s.known = len(s.head), map[string]bool{}
	if s.items && !slices.ContainsFunc(rows, func(r sheetRow) bool { return r.fixed[1] != "" }) {
		s.fixed = 1
	}
	for _, row := range rows {
		for _, name := range row.names {
			if !s.known[name] {
				s.known[name] = true
				s.names = append(s.names, name)
			}
		}
	}
	if i := slices.Index(s.names, expiresColumn); i >= 0 {
		s.names = append(slices.Delete(s.names, i, i+1), expiresColumn)
	}
	return append(s.head[:s.fixed:s.fixed], s.names...)
}

// cells returns those of a row.
func (s *sheet) cells(row sheetRow) []string {
	line := row.fixed[:s.fixed:s.fixed]
	for _, name := range s.names {
		line = append(line, row.cells[name])
	}
	return line
}

// paintWith returns the painter of the format.
func (s *sheet) paintWith(head []string, sample [][]string) painter {
	format := s.o.Format
	if format == Table && s.o.Auto && s.o.Width > 0 && leastWidth(head, sample) > s.o.Width {
		format = Vertical
	}
	keys := 0
	if s.items {
		keys = s.fixed
	}
	switch format {
	case Vertical:
		return &verticalPainter{w: s.w, o: s.o}
	case Markdown:
		return &linePainter{w: s.w, o: s.o, cell: markdownCell, markdown: true}
	case TSV:
		p := &linePainter{w: s.w, o: s.o, cell: tsvEscapes.Replace}
		if !s.items { // those of rows are escaped, so that texts differ from NULL
			p.cell = func(cell string) string { return cell }
		}
		return p
	case Box:
		return &boxPainter{w: s.w, o: s.o, style: asciiBox, keys: keys}
	}
	return &boxPainter{w: s.w, o: s.o, style: roundBox, keys: keys}
}

func (s *sheet) paint(row sheetRow) {
	if slices.ContainsFunc(row.names, func(name string) bool { return !s.known[name] }) {
		s.partial++
	}
	s.painter.row(s.cells(row))
}

// finish writes the rows that are kept and ends the table.
func (s *sheet) finish() {
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
func (s *sheet) close(n int, note string) {
	if n > 0 || !s.items {
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
