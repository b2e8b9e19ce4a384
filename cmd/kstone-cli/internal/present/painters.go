package present

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
)

// boxStyle has the characters of a frame: of its top, the line below the headings and its bottom
// the left end, the line, the crossing and the right end; then what is between cells.
type boxStyle struct {
	top, middle, bottom [4]string
	side                string
}

var (
	roundBox = &boxStyle{[4]string{"╭", "─", "┬", "╮"}, [4]string{"├", "─", "┼", "┤"},
		[4]string{"╰", "─", "┴", "╯"}, "│"}
	asciiBox = &boxStyle{[4]string{"+", "-", "+", "+"}, [4]string{"+", "-", "+", "+"},
		[4]string{"+", "-", "+", "+"}, "|"}
)

// boxPainter draws a table with a frame. The sample decides the widths of its columns; what is
// wider later loses its middle.
type boxPainter struct {
	w      *bufio.Writer
	o      Options
	style  *boxStyle
	keys   int // columns that are never taken for numbers
	widths []int
	right  []bool
}

func (p *boxPainter) begin(head []string, sample [][]string) {
	p.widths = fitColumns(head, sample, p.o.Width)
	p.right = make([]bool, len(head))
	for i := range head {
		p.right[i] = i >= p.keys && allNumbers(sample, i)
	}
	p.rule(p.style.top)
	if p.o.Plain {
		return
	}
	p.line(head, p.o.Color)
	p.rule(p.style.middle)
}

func (p *boxPainter) row(cells []string) { p.line(cells, false) }

func (p *boxPainter) gap() {
	dots := "⋮"
	if p.style == asciiBox {
		dots = ":"
	}
	cells := make([]string, len(p.widths))
	for i := range cells {
		cells[i] = dots
	}
	p.line(cells, false)
}

func (p *boxPainter) end() { p.rule(p.style.bottom) }

func (p *boxPainter) rule(ends [4]string) {
	p.w.WriteString(ends[0])
	for i, width := range p.widths {
		if i > 0 {
			p.w.WriteString(ends[2])
		}
		p.w.WriteString(strings.Repeat(ends[1], width+2))
	}
	p.w.WriteString(ends[3] + "\n")
}

func (p *boxPainter) line(cells []string, bold bool) {
	for i, cell := range cells {
		cell = shorten(cell, p.widths[i])
		space := strings.Repeat(" ", p.widths[i]-runewidth.StringWidth(cell))
		if bold {
			cell = "\x1b[1m" + cell + "\x1b[0m"
		}
		p.w.WriteString(p.style.side + " ")
		if p.right[i] {
			p.w.WriteString(space + cell)
		} else {
			p.w.WriteString(cell + space)
		}
		p.w.WriteByte(' ')
	}
	p.w.WriteString(p.style.side + "\n")
}

// verticalPainter writes a line for each field of a row.
type verticalPainter struct {
	w     *bufio.Writer
	o     Options
	head  []string
	width int
	rows  int
}

func (p *verticalPainter) begin(head []string, _ [][]string) {
	p.head = head
	for _, name := range head {
		p.width = max(p.width, runewidth.StringWidth(name))
	}
}

func (p *verticalPainter) row(cells []string) {
	p.rows++
	title := fmt.Sprintf("─[ %d ]", p.rows)
	fmt.Fprintf(p.w, "%s%s\n", title, strings.Repeat("─", max(p.width+3-len([]rune(title)), 0)))
	for i, cell := range cells {
		name := p.head[i]
		space := strings.Repeat(" ", p.width-runewidth.StringWidth(name))
		if p.o.Color {
			name = "\x1b[1m" + name + "\x1b[0m"
		}
		fmt.Fprintf(p.w, "%s%s  %s\n", name, space, cell)
	}
}

func (p *verticalPainter) gap() { p.w.WriteString("⋮\n") }

func (p *verticalPainter) end() {}

// linePainter writes a line for each row: Markdown, or cells with tabs between them.
type linePainter struct {
	w        *bufio.Writer
	o        Options
	cell     func(string) string
	markdown bool
	columns  int
}

func (p *linePainter) begin(head []string, sample [][]string) {
	p.columns = len(head)
	switch {
	case p.o.Plain && !p.markdown:
		return
	case !p.markdown:
		p.row(head)
		return
	}
	p.row(head)
	for i := range head {
		line := "| --- "
		if allNumbers(sample, i) {
			line = "| ---: "
		}
		p.w.WriteString(line)
	}
	p.w.WriteString("|\n")
}

func (p *linePainter) row(cells []string) {
	for i, cell := range cells {
		cell = p.cell(cell)
		switch {
		case p.markdown:
			p.w.WriteString("| " + cell + " ")
		case i > 0:
			p.w.WriteString("\t" + cell)
		default:
			p.w.WriteString(cell)
		}
	}
	if p.markdown {
		p.w.WriteByte('|')
	}
	p.w.WriteByte('\n')
}

func (p *linePainter) gap() {
	cells := make([]string, p.columns)
	for i := range cells {
		cells[i] = "⋮"
	}
	p.row(cells)
}

func (p *linePainter) end() {}

var tsvEscapes = strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

var markdownEscapes = strings.NewReplacer("|", `\|`, "\n", "<br>", "\\", `\\`)

func markdownCell(cell string) string { return markdownEscapes.Replace(cell) }
