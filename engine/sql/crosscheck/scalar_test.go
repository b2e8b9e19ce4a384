package crosscheck

import (
	"fmt"
	"regexp"
	"strings"
)

// scalar returns an expression with the same value in both dialects: a number or a text.
func (g *generator) scalar(from []source, text bool, depth int) string {
	if depth == 0 || g.chance(25) {
		return g.leaf(from, text)
	}
	if g.chance(35) {
		return g.choice(from, text, depth-1)
	}
	if text {
		return g.textCall(from, depth-1)
	}
	return g.numberCall(from, depth-1)
}

// leaf returns a column or a literal.
func (g *generator) leaf(from []source, text bool) string {
	if g.chance(60) {
		for range 10 {
			name, c := from[g.rng.IntN(len(from))].column(g)
			if c.text == text && !c.float && !c.time && !c.nocase {
				return name
			}
		}
	}
	if text {
		return g.oneOf("''", "'a'", "'São'", "'it''s'", "' x '", "'100%'", "'a_b'")
	}
	return fmt.Sprint(g.rng.IntN(30) - 5)
}

// choice returns a CASE, or a function that returns one of its arguments.
func (g *generator) choice(from []source, text bool, depth int) string {
	x := func() string { return g.scalar(from, text, depth) }
	switch g.rng.IntN(6) {
	case 0:
		return "coalesce(" + x() + ", " + x() + ")"
	case 1:
		return "nullif(" + x() + ", " + x() + ")"
	case 2:
		return g.oneOf("min", "max") + "(" + x() + ", " + x() + ")"
	case 3:
		other := g.chance(50)
		out := "CASE " + g.scalar(from, other, depth)
		for range 1 + g.rng.IntN(2) {
			out += " WHEN " + g.leaf(from, other) + " THEN " + x()
		}
		return out + g.oneOf(" END", " ELSE "+x()+" END")
	}
	out := "CASE"
	for range 1 + g.rng.IntN(2) {
		out += " WHEN " + g.condition(from, 1) + " THEN " + x()
	}
	return out + g.oneOf(" END", " ELSE "+x()+" END")
}

func (g *generator) textCall(from []source, depth int) string {
	x := func() string { return g.scalar(from, true, depth) }
	n := fmt.Sprint(g.rng.IntN(9) - 3)
	switch g.rng.IntN(7) {
	case 0:
		return g.oneOf("trim", "ltrim", "rtrim") + "(" + x() + g.oneOf("", ", 'aeS '") + ")"
	case 1:
		return "replace(" + x() + ", " + g.oneOf("'a'", "'San'", "' '", "'é'") + ", " + x() + ")"
	case 2:
		return "substr(" + x() + ", " + n + g.oneOf("", ", "+fmt.Sprint(g.rng.IntN(5))) + ")"
	case 3:
		return "CAST(" + g.scalar(from, false, depth) + " AS TEXT)"
	case 4:
		return "hex(coalesce(" + x() + ", ''))" // SQLite's hex(NULL) is a text
	}
	return "(" + x() + " || " + g.oneOf(x(), g.scalar(from, false, depth)) + ")"
}

func (g *generator) numberCall(from []source, depth int) string {
	x := func() string { return g.scalar(from, false, depth) }
	switch g.rng.IntN(10) {
	case 7:
		return g.part(from)
	case 8:
		return "CAST(round(" + g.oneOf("sqrt", "ln") + "(" + x() + ") * 100) AS INTEGER)"
	case 9:
		return g.oneOf("ifnull("+x()+", "+x()+")", "octet_length("+g.scalar(from, true, depth)+")")
	case 0:
		return "length(" + g.scalar(from, true, depth) + ")"
	case 1:
		return "instr(" + g.scalar(from, true, depth) + ", " + g.leaf(from, true) + ")"
	case 2:
		return g.oneOf("abs", "sign", "floor", "ceil") + "(" + x() + ")"
	case 3:
		return "CAST(CAST(" + x() + " AS TEXT) AS INTEGER)"
	case 4:
		return "CAST(round(round(" + x() + " / 8.0, 1) * 10) AS INTEGER)"
	}
	return "(" + x() + g.oneOf(" + ", " - ", " * ", " / ", " % ") + g.leaf(from, false) + ")"
}

// part returns a part of a time, of a column that has times, or else of a literal.
func (g *generator) part(from []source) string {
	return "extract(" + g.oneOf("year", "month", "day", "hour", "minute", "second", "dow", "doy",
		"epoch") + " FROM " + g.instant(from) + ")"
}

// instant returns a time.
func (g *generator) instant(from []source) string {
	at := "TIMESTAMP '2024-02-28T23:59:58Z'"
	for _, s := range from {
		for _, c := range s.columns {
			if c.time && g.chance(70) {
				at = s.alias + "." + c.name
			}
		}
	}
	switch g.rng.IntN(4) {
	case 0:
		unit := g.oneOf("year", "month", "day", "hour", "minute")
		return fmt.Sprintf("date_trunc('%s', %s)", unit, at)
	case 1:
		return fmt.Sprintf("(%s + INTERVAL '%d days %d hours')", at, g.rng.IntN(90)-45,
			g.rng.IntN(90)-45)
	}
	return at
}

// translated writes in SQLite's words what the generator writes in those of kstone.
func translated(text string) string {
	text = ilike.ReplaceAllString(text, "lower($1) $2 LIKE $3")
	text = foldedLike.ReplaceAllString(text, "lower($1) $2 LIKE lower($3)")
	text = timestamp.ReplaceAllString(text, "$1")
	text = date.ReplaceAllString(text, "'${1}T00:00:00Z'")
	text = trunc.ReplaceAllStringFunc(text, func(call string) string {
		m := trunc.FindStringSubmatch(call)
		return "strftime('" + truncated[m[1]] + "', " + m[2] + ")"
	})
	text = shifted.ReplaceAllString(text,
		"strftime('%Y-%m-%dT%H:%M:%SZ', $1, '$2 days', '$3 hours')")
	return extracted.ReplaceAllStringFunc(text, func(call string) string {
		m := extracted.FindStringSubmatch(call)
		return "CAST(strftime('" + fields[m[1]] + "', " + m[2] + ") AS INTEGER)"
	})
}

const instants = `([a-cx-z]\.(?:at|day)|'[0-9TZ:-]+')`

var (
	ilike      = regexp.MustCompile(`([a-cx-z]\.\w+) (NOT )?ILIKE ('[^']*')`)
	foldedLike = regexp.MustCompile(`([a-z]\.kind) (NOT )?LIKE ('[^']*')`)
	date       = regexp.MustCompile(`DATE '([0-9-]+)'`)
	timestamp  = regexp.MustCompile(`TIMESTAMP ('[^']*')`)
	trunc      = regexp.MustCompile(`date_trunc\('(\w+)', ` + instants + `\)`)
	shifted    = regexp.MustCompile(`\(` + instants + ` \+ INTERVAL '(-?\d+) days (-?\d+) hours'\)`)
	extracted  = regexp.MustCompile(`extract\((\w+) FROM ` + `(` + instants +
		`|strftime\('[^']*', ` + instants + `(?:, '[^']*', '[^']*')?\))\)`)
	truncated = map[string]string{"year": "%Y-01-01T00:00:00Z", "month": "%Y-%m-01T00:00:00Z",
		"day": "%Y-%m-%dT00:00:00Z", "hour": "%Y-%m-%dT%H:00:00Z", "minute": "%Y-%m-%dT%H:%M:00Z"}
	fields = map[string]string{"year": "%Y", "month": "%m", "day": "%d", "hour": "%H",
		"minute": "%M", "second": "%S", "dow": "%w", "doy": "%j", "epoch": "%s"}
)

// compared is a condition over calculated values, one that is never unknown among them.
func (g *generator) compared(from []source) string {
	text := g.chance(50)
	x := g.scalar(from, text, 2)
	switch g.rng.IntN(5) {
	case 0:
		return x + " IS " + g.oneOf("", "NOT ") + "DISTINCT FROM " + g.leaf(from, text)
	case 1:
		return "(" + g.atom(from) + ") IS " + g.oneOf("", "NOT ") + g.oneOf("TRUE", "FALSE")
	case 2:
		if text {
			pattern := g.oneOf("'%a!_%'", "'100!%'", "'S%'", "'!!%'", "'_a%'", "'%!'")
			return x + g.oneOf("", " NOT") + " LIKE " + pattern + " ESCAPE '!'"
		}
	}
	return x + g.oneOf(" = ", " < ", " >= ", " <> ") + g.scalar(from, text, 1)
}

// calculated returns a query of calculated columns and conditions, with groups or without.
func (g *generator) calculated() query {
	s := g.table()
	ours, theirs := g.hinted(s)
	from := []source{s}
	where := " WHERE " + g.condition(from, 1)
	if g.chance(70) {
		where += g.oneOf(" AND ", " OR ") + g.compared(from)
	}
	value := g.scalar(from, g.chance(50), 3)
	if g.chance(40) {
		key := g.scalar(from, g.chance(50), 1)
		if !strings.Contains(key, "x.") {
			key = "x.grade" // a number would be the position of a column
		}
		head := "SELECT " + key + ", count(*), sum(CASE WHEN " + g.condition(from, 1) +
			" THEN 1 ELSE 0 END)"
		return query{ours: head + ours + where + " GROUP BY " + key,
			theirs: head + theirs + where + " GROUP BY " + key}
	}
	if g.chance(15) {
		value = g.instant(from)
	}
	head := "SELECT x.id, " + value
	return query{ours: head + ours + where, theirs: head + theirs + where}
}
