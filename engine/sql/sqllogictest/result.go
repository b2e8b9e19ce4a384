package main

import (
	"crypto/md5"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
)

// cell writes a value as a result of the type of a column has it: I, R or T.
func cell(v expr.Value, typ byte) string {
	if v.IsNull() {
		return "NULL"
	}
	switch typ {
	case 'I':
		if n, ok := v.AsInt(); ok {
			return strconv.FormatInt(n, 10)
		}
		return strconv.FormatInt(integer(number(v)), 10)
	case 'R':
		return strconv.FormatFloat(number(v), 'f', 3, 64)
	}
	text := ""
	if s, ok := v.AsString(); ok {
		text = s
	} else if s, ok := v.AsBytes(); ok {
		text = s
	} else if n, ok := v.AsInt(); ok {
		text = strconv.FormatInt(n, 10)
	} else {
		text = strconv.FormatFloat(number(v), 'g', 15, 64)
	}
	if text == "" {
		return "(empty)"
	}
	// The text is that of a row, which is valid until the next one.
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '@'
		}
		return r
	}, strings.Clone(text))
}

// number returns a value as C takes it for a number: of a text the digits that it begins with.
func number(v expr.Value) float64 {
	if b, ok := v.AsBool(); ok {
		if b {
			return 1
		}
		return 0
	}
	if f, ok := v.AsFloat(); ok {
		return f
	}
	s, _ := v.AsString()
	for n := len(s); n > 0; n-- {
		if f, err := strconv.ParseFloat(s[:n], 64); err == nil {
			return f
		}
	}
	return 0
}

// integer cuts off the decimals.
func integer(f float64) int64 {
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

// arrange returns the values of a result of that many columns in the order of a record.
func arrange(values []string, columns int, order string) []string {
	switch order {
	case "valuesort":
		slices.Sort(values)
	case "rowsort":
		rows := slices.Collect(slices.Chunk(values, max(1, columns)))
		slices.SortStableFunc(rows, slices.Compare[[]string])
		values = slices.Concat(rows...)
	}
	return values
}

// digest is how a long result is written.
func digest(values []string) string {
	h := md5.New()
	for _, v := range values {
		h.Write([]byte(v + "\n"))
	}
	return fmt.Sprintf("%d values hashing to %x", len(values), h.Sum(nil))
}

// equal reports whether values are the result that a record has.
func equal(values, want []string) bool {
	if len(want) == 1 && strings.Contains(want[0], " values hashing to ") {
		return digest(values) == want[0]
	}
	return slices.Equal(values, want)
}
