package expr

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timeUnits are what times are cut off to, longest first.
var timeUnits = []string{"year", "quarter", "month", "week", "day", "hour", "minute", "second",
	"millisecond", "microsecond"}

// timeFields are the fields of a time that are not its units.
var timeFields = []string{"dow", "isodow", "doy", "isoyear", "epoch"}

// unitNames returns the units, or with fields all that date_part takes.
func unitNames(fields bool) []string {
	if fields {
		return append(timeUnits[:len(timeUnits):len(timeUnits)], timeFields...)
	}
	return timeUnits
}

// timeOf returns a time in the years 0 to 9999.
func timeOf(v Value) (time.Time, error) {
	if s := int64(v.n); s < minTextSecond || s > maxTextSecond {
		return time.Time{}, fmt.Errorf("%w: %s is not in the years 0 to 9999", ErrRange, v)
	}
	t, _ := v.AsTime()
	return t, nil
}

func callDateTrunc(args []Value) (Value, error) {
	t, err := timeOf(args[1])
	if err != nil {
		return Value{}, err
	}
	day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	switch unit := strings.ToLower(args[0].s); unit {
	case "year":
		t = time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	case "quarter":
		t = time.Date(t.Year(), (t.Month()-1)/3*3+1, 1, 0, 0, 0, 0, time.UTC)
	case "month":
		t = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	case "week":
		t = day.AddDate(0, 0, -((int(t.Weekday()) + 6) % 7))
	case "day":
		t = day
	default:
		step, ok := durations[unit]
		if !ok {
			return Value{}, noUnit(args[0], false)
		}
		t = day.Add(t.Sub(day) / step * step)
	}
	return Time(t), nil
}

func noUnit(v Value, fields bool) error {
	return fmt.Errorf("%s is not one of %s", v, strings.Join(unitNames(fields), ", "))
}

func callDatePart(args []Value) (Value, error) {
	t, err := timeOf(args[1])
	if err != nil {
		return Value{}, err
	}
	part := timeParts[strings.ToLower(args[0].s)]
	if part == nil {
		return Value{}, noUnit(args[0], true)
	}
	return Int(part(t)), nil
}

// timeParts are what date_part takes out of a time.
var timeParts = map[string]func(time.Time) int64{
	"year":        func(t time.Time) int64 { return int64(t.Year()) },
	"quarter":     func(t time.Time) int64 { return int64(t.Month()+2) / 3 },
	"month":       func(t time.Time) int64 { return int64(t.Month()) },
	"week":        func(t time.Time) int64 { _, week := t.ISOWeek(); return int64(week) },
	"isoyear":     func(t time.Time) int64 { year, _ := t.ISOWeek(); return int64(year) },
	"day":         func(t time.Time) int64 { return int64(t.Day()) },
	"hour":        func(t time.Time) int64 { return int64(t.Hour()) },
	"minute":      func(t time.Time) int64 { return int64(t.Minute()) },
	"second":      func(t time.Time) int64 { return int64(t.Second()) },
	"millisecond": func(t time.Time) int64 { return int64(t.Nanosecond() / 1e6) },
	"microsecond": func(t time.Time) int64 { return int64(t.Nanosecond() / 1e3) },
	"dow":         func(t time.Time) int64 { return int64(t.Weekday()) },
	"isodow":      func(t time.Time) int64 { return int64(t.Weekday()+6)%7 + 1 },
	"doy":         func(t time.Time) int64 { return int64(t.YearDay()) },
	"epoch":       time.Time.Unix,
}

// timeForms are the fields of strftime, as layouts of package time.
var timeForms = map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05",
	'j': "002", 'F': "2006-01-02", 'T': "15:04:05", 'I': "03", 'p': "PM", 'y': "06", 'b': "Jan",
	'B': "January", 'a': "Mon", 'A': "Monday"}

// callStrftime writes a time by a format of C and SQLite: %Y-%m-%d. %f are seconds with three
// places, %s those since 1970, %w is the day of the week from Sunday, 0.
func callStrftime(args []Value) (Value, error) {
	t, err := timeOf(args[1])
	if err != nil {
		return Value{}, err
	}
	var out []byte
	for format := args[0].s; format != ""; format = format[1:] {
		if format[0] != '%' {
			out = append(out, format[0])
			continue
		}
		if format = format[1:]; format == "" {
			return Value{}, fmt.Errorf("the format %s ends after %%", args[0])
		}
		switch c := format[0]; {
		case timeForms[c] != "":
			out = t.AppendFormat(out, timeForms[c])
		case c == '%':
			out = append(out, c)
		case c == 'f':
			out = t.AppendFormat(out, "05.000")
		case c == 's':
			out = strconv.AppendInt(out, t.Unix(), 10)
		case c == 'w':
			out = strconv.AppendInt(out, int64(t.Weekday()), 10)
		default:
			return Value{}, fmt.Errorf("there is no %%%c in the format %s; there are %%Y %%m %%d "+
				"%%H %%M %%S %%f %%j %%w %%s and names: %%a %%A %%b %%B", c, args[0])
		}
	}
	return String(string(out)), nil
}

// durations are the units that always have the same length.
var durations = map[string]time.Duration{"week": 7 * 24 * time.Hour, "day": 24 * time.Hour,
	"hour": time.Hour, "minute": time.Minute, "second": time.Second,
	"millisecond": time.Millisecond, "microsecond": time.Microsecond}

// monthsOf are the lengths of the other units.
var monthsOf = map[string]int64{"year": 12, "quarter": 3, "month": 1}

// interval is a period: months are counted separately, since their lengths differ.
type interval struct {
	months int64
	rest   time.Duration
}

// maxInterval bounds an interval in years.
const maxInterval = 10_000

// Interval returns an interval as date_add takes it: numbers and units, '1 day' or '2 months -3
// hours'. With back it is the opposite.
func Interval(text string, back bool) (string, error) {
	if _, err := parseInterval(text); err != nil || !back {
		return text, err
	}
	words := strings.Fields(text)
	for i := 0; i < len(words); i += 2 {
		if rest, negative := strings.CutPrefix(words[i], "-"); negative {
			words[i] = rest
		} else {
			words[i] = "-" + strings.TrimPrefix(words[i], "+")
		}
	}
	return strings.Join(words, " "), nil
}

// WholeDays reports whether an interval, or a unit of date_trunc, leaves a date a date.
func WholeDays(v Value) bool {
	in, err := parseInterval(v.s)
	return err != nil || in.rest%(24*time.Hour) == 0
}

func parseInterval(text string) (out interval, err error) {
	bad := func() (interval, error) {
		return interval{}, fmt.Errorf("%s is not an interval; one looks like '1 day' or "+
			"'2 months 3 hours'", quote(text))
	}
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 || len(words)%2 != 0 {
		return bad()
	}
	for i := 0; i < len(words); i += 2 {
		n, err := strconv.ParseInt(words[i], 10, 64)
		unit := strings.TrimSuffix(words[i+1], "s")
		step, exact := durations[unit]
		months := monthsOf[unit]
		switch {
		case err != nil || !exact && months == 0:
			return bad()
		case exact && (n > int64(maxDuration/step) || n < -int64(maxDuration/step)),
			!exact && (n > 12*maxInterval || n < -12*maxInterval):
			return out, fmt.Errorf("%w: the interval %s", ErrRange, quote(text))
		}
		add := time.Duration(n) * step
		if add > 0 && out.rest > maxDuration-add || add < 0 && out.rest < -maxDuration-add {
			return out, fmt.Errorf("%w: the interval %s", ErrRange, quote(text))
		}
		out.months, out.rest = out.months+n*months, out.rest+add
	}
	return out, nil
}

// maxDuration is 200 years.
const maxDuration = 200 * 365 * 24 * time.Hour

// callDateAdd adds an interval. Months end where the month does: a month after January 31st is
// the last day of February.
func callDateAdd(args []Value) (Value, error) {
	t, err := timeOf(args[0])
	if err != nil {
		return Value{}, err
	}
	in, err := parseInterval(args[1].s)
	if err != nil {
		return Value{}, err
	}
	if in.months != 0 {
		first := time.Date(t.Year(), t.Month()+time.Month(in.months), 1, 0, 0, 0, 0, time.UTC)
		last := first.AddDate(0, 1, -1).Day()
		clock := t.Sub(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC))
		t = first.AddDate(0, 0, min(t.Day(), last)-1).Add(clock)
	}
	return Time(t.Add(in.rest)), nil
}
