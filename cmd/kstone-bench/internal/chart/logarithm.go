package chart

import "math"

// logAxis maps positive values to pixels, logarithmically.
type logAxis struct {
	lo, hi float64 // values at the ends
	x0, x1 float64 // pixels of the ends
}

func (a logAxis) at(v float64) float64 {
	v = math.Min(math.Max(v, a.lo), a.hi)
	return a.x0 + (a.x1-a.x0)*math.Log(v/a.lo)/math.Log(a.hi/a.lo)
}

// decades returns the powers of ten that enclose the values.
func decades(lo, hi float64) (float64, float64) {
	lo = math.Pow(10, math.Floor(math.Log10(lo)+1e-9))
	hi = math.Pow(10, math.Ceil(math.Log10(hi)-1e-9))
	if hi <= lo {
		hi = lo * 10
	}
	return lo, hi
}

// steps returns 1, 2 and 5 times powers of ten from lo to hi.
func steps(lo, hi float64) []float64 {
	var out []float64
	for decade := math.Floor(math.Log10(lo)); decade <= math.Ceil(math.Log10(hi)); decade++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, decade); v >= lo*0.999 && v <= hi*1.001 {
				out = append(out, v)
			}
		}
	}
	return out
}

// isPower reports whether v is a power of ten.
func isPower(v float64) bool {
	e := math.Log10(v)
	return math.Abs(e-math.Round(e)) < 1e-9
}

// enclose returns the steps of 1, 2 and 5 next below lo and above hi.
func enclose(lo, hi float64) (float64, float64) {
	outer := steps(lo/10, hi*10)
	a, b := outer[0], outer[len(outer)-1]
	for _, v := range outer {
		if v <= lo {
			a = v
		}
		if v >= hi {
			b = v
			break
		}
	}
	return a, b
}
