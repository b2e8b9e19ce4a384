package tables

import "slices"

// line is a case with a number of goroutines: a line of a table.
type line struct {
	group, name string
	goroutines  int
}

// summary has the samples of every line by engine and round.
type summary struct {
	lines   []line
	engines map[string][]string // of each group, in the order of measuring
	samples map[line]map[string][]Sample
}

func summarise(samples []Sample) *summary {
	s := &summary{engines: map[string][]string{}, samples: map[line]map[string][]Sample{}}
	for _, v := range samples {
		l := line{v.Group, v.Case, v.Goroutines}
		if s.samples[l] == nil {
			s.lines = append(s.lines, l)
			s.samples[l] = map[string][]Sample{}
		}
		if !slices.Contains(s.engines[v.Group], v.Engine) {
			s.engines[v.Group] = append(s.engines[v.Group], v.Engine)
		}
		s.samples[l][v.Engine] = append(s.samples[l][v.Engine], v)
	}
	return s
}

// of returns the lines of a group.
func (s *summary) of(group string) []line {
	var out []line
	for _, l := range s.lines {
		if l.group == group {
			out = append(out, l)
		}
	}
	return out
}

// middle returns the median of a figure over the rounds; ok is false without a sample.
func (s *summary) middle(l line, engine string, f func(*Sample) float64) (v float64, ok bool) {
	var all []float64
	for i := range s.samples[l][engine] {
		all = append(all, f(&s.samples[l][engine][i]))
	}
	return median(all), len(all) > 0
}

// ratio returns how many times as fast a is as b: the median of the ratios of the rounds.
func (s *summary) ratio(a line, engineA string, b line, engineB string) (v float64, ok bool) {
	var all []float64
	for _, x := range s.samples[a][engineA] {
		for _, y := range s.samples[b][engineB] {
			if x.Round == y.Round && y.rate() > 0 {
				all = append(all, x.rate()/y.rate())
			}
		}
	}
	return median(all), len(all) > 0
}

// best returns the peer that is fastest by the median ratio, and kstone's ratio to it.
func (s *summary) best(l line) (peer string, ratio float64, ok bool) {
	for _, e := range s.engines[l.group] {
		if e == subject {
			continue
		}
		if r, has := s.ratio(l, subject, l, e); has && (!ok || r < ratio) {
			peer, ratio, ok = e, r, true
		}
	}
	return peer, ratio, ok
}

// rate and nanoseconds are figures of a sample.
func rate(s *Sample) float64 { return s.rate() }

func nanoseconds(s *Sample) float64 {
	if s.Ops == 0 {
		return 0
	}
	return s.Seconds * 1e9 / float64(s.Ops)
}

func allocs(s *Sample) float64 { return s.Allocs }
