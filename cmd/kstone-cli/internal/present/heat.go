package present

import (
	"fmt"
	"math"
	"strings"

	"github.com/kstonedb/kstone/internal/figure"
)

// HeatMap draws the 256 stripes as a square of 16 rows, the first 16 stripes in the
// top row. The fuller a stripe, the denser and redder its cell; an empty one is a dot.
// Shades follow the square root, so that one hot stripe does not hide the others.
func HeatMap(counts *[256]int64, what string, color bool) string {
	var most, total, used int64
	hottest := 0
	for i, n := range counts {
		total += n
		if n > 0 {
			used++
		}
		if n > most {
			most, hottest = n, i
		}
	}
	var b strings.Builder
	b.WriteString("      ")
	for col := range 16 {
		fmt.Fprintf(&b, "%-3d", col)
	}
	b.WriteByte('\n')
	for row := range 16 {
		fmt.Fprintf(&b, " %3d  ", row*16)
		for col := range 16 {
			b.WriteString(heatCell(counts[row*16+col], most, color))
		}
		b.WriteByte('\n')
	}
	if total == 0 {
		return b.String() + "      all 256 stripes are empty\n"
	}
	b.WriteString("      " + heatCell(0, most, color) + "empty  ")
	for step := range int64(4) { // the upper ends of the shades
		end := (step + 1) * (step + 1) * most / 16
		if end > 0 {
			b.WriteString(heatCell(end, most, color) + "≤ " + figure.Count(end) + "  ")
		}
	}
	fmt.Fprintf(&b, "%s\n      %d of 256 stripes used · fullest %d with %s (%.1f %%) · mean %s\n",
		what,
		used, hottest, figure.Count(most), 100*float64(most)/float64(total),
		figure.Count(total/max(used, 1)))
	return b.String()
}

// Shades from nearly empty to full. Why the colours come on top of the shades: they are those of
// the terminal's theme, which differ from its ground, be it dark or light; the shades alone say
// the same.
var (
	shades     = []string{"░░", "▒▒", "▓▓", "██"}
	heatColors = []int{36, 32, 33, 31}
)

func heatCell(n, most int64, color bool) string {
	if n == 0 {
		return "·  "
	}
	heat := math.Sqrt(float64(n) / float64(most))
	i := shade(heat, len(shades))
	if !color {
		return shades[i] + " "
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m ", heatColors[i], shades[i])
}

// shade returns which of n shades a heat above 0 and up to 1 has.
func shade(heat float64, n int) int {
	return min(max(int(math.Ceil(heat*float64(n)))-1, 0), n-1)
}
