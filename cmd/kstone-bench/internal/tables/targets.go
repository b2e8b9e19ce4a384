package tables

import "fmt"

// The targets: ahead of everybody in every line, a prepared query by primary key within
// mostOverhead of reading and decoding, spans below mostSpanNS.
const (
	mostOverhead = 1.3
	mostSpanNS   = 1000
)

// check is a target and whether it is reached.
type check struct {
	what, wanted, measured string
	reached                bool
}

func (s *summary) checks() []check {
	var out []check
	for _, group := range []string{groupReads, groupInserts} {
		for _, l := range s.of(group) {
			if peer, ratio, ok := s.best(l); ok {
				out = append(out, check{l.label(), "> 1 × the best of the others",
					fmt.Sprintf("%s × (%s)", figure(ratio), peer), ratio > 1})
			}
		}
	}
	for _, l := range s.of(groupOwn) {
		if ratio, ok := s.ratio(l, ownRaw, l, ownPrepared); ok {
			out = append(out, check{"prepared point get beside Get and decode",
				fmt.Sprintf("≤ %g × the time", mostOverhead), figure(ratio) + " ×",
				ratio <= mostOverhead})
		}
	}
	for _, l := range s.of(groupSpans) {
		ns, ok := s.middle(l, subject, nanoseconds)
		if ok && l.name != spansLong {
			out = append(out, check{"spans of `" + l.name + "`",
				fmt.Sprintf("< %d ns", mostSpanNS), fmt.Sprintf("%.0f ns", ns), ns < mostSpanNS})
		}
	}
	return out
}

// label names a line.
func (l line) label() string {
	if l.group == groupReads && l.goroutines > 1 {
		return fmt.Sprintf("%s, %d goroutines", l.name, l.goroutines)
	}
	return l.name
}

// title is label, short enough for a panel of a chart.
func (l line) title() string {
	if l.group == groupReads && l.goroutines > 1 {
		return fmt.Sprintf("%s ×%d", l.name, l.goroutines)
	}
	return l.name
}

// figure writes a number with three digits.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
