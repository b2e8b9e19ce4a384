package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// String returns the value as a literal in SQL: NULL, TRUE, 5, 2.50, 1.5e0 (a float),
// 'text' (with quotes in it doubled), X'00ff', TIMESTAMP '2026-01-02T03:04:05Z',
// ARRAY[1, 2]. UUIDs, addresses and prefixes are texts. A decimal without places is
// written with one, 5.0, or as DECIMAL '1E+30'; NaN and infinities are FLOAT 'NaN'.
func (v Value) String() string {
	switch v.kind {
	case KindBool:
		return strings.ToUpper(strconv.FormatBool(v.n != 0))
	case KindInt:
		return strconv.FormatInt(int64(v.n), 10)
	case KindUint:
		return strconv.FormatUint(v.n, 10)
	case KindFloat:
		f := floatOf(v)
		if f != f || math.IsInf(f, 0) {
			return "FLOAT '" + strconv.FormatFloat(f, 'g', -1, 64) + "'"
		}
		if f == 0 || math.Abs(f) >= 1e-5 && math.Abs(f) < 1e15 { // as people write it
			return strconv.FormatFloat(f, 'f', -1, 64) + "e0"
		}
		return strconv.FormatFloat(f, 'e', -1, 64)
	case KindString:
		return quote(v.s)
	case KindBytes:
		return fmt.Sprintf("X'%x'", v.s)
	case KindTime:
		return "TIMESTAMP '" + timeText(v) + "'"
	case KindUUID:
		u, _ := v.AsUUID()
		return "'" + u.String() + "'"
	case KindDecimal:
		text := v.decimal().String()
		switch {
		case strings.Contains(text, "E"):
			return "DECIMAL '" + text + "'"
		case !strings.Contains(text, "."):
			return text + ".0"
		}
		return text
	case KindIP:
		return "'" + v.addr().String() + "'"
	case KindIPPrefix:
		p, _ := v.AsPrefix()
		return "'" + p.String() + "'"
	case KindList:
		parts := make([]string, 0, min(v.n, 1<<10))
		for e := range v.Elements() {
			parts = append(parts, e.String())
		}
		return "ARRAY[" + strings.Join(parts, ", ") + "]"
	}
	return "NULL"
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// timeText returns an instant in RFC 3339; years that it cannot express as the seconds
// since 1970 with nine places.
func timeText(v Value) string {
	if s := int64(v.n); s < minTextSecond || s > maxTextSecond {
		return fmt.Sprintf("@%d.%09d", s, v.m)
	}
	t, _ := v.AsTime()
	return t.Format(time.RFC3339Nano)
}

// The seconds of the years 0 to 9999.
const (
	minTextSecond = -62167219200
	maxTextSecond = 253402300799
)

// parseTimeText reads what timeText writes, and RFC 3339 with any zone.
func parseTimeText(s string) (Value, error) {
	if rest, ok := strings.CutPrefix(s, "@"); ok {
		whole, places, _ := strings.Cut(rest, ".")
		seconds, err := strconv.ParseInt(whole, 10, 64)
		nanos, nanosErr := strconv.ParseUint(places, 10, 32)
		if err != nil || nanosErr != nil || len(places) != 9 {
			return Value{}, fmt.Errorf("expr: %q is not a time", s)
		}
		return UnixTime(seconds, uint32(nanos)), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return Value{}, fmt.Errorf("expr: %q is not a time", s)
	}
	return Time(t), nil
}

// The precedences of operators, weakest first.
const (
	precOr = iota
	precAnd
	precNot
	precCmp
	precAdd
	precMul
	precNeg
	precAtom
)

func precedence(e Expr) int {
	switch e := e.(type) {
	case Or:
		return termPrecedence(e.Terms, precOr)
	case And:
		return termPrecedence(e.Terms, precAnd)
	case Not:
		return precNot
	case Cmp, In, Between, Like, IsNull, IsDistinct:
		return precCmp
	case Arith:
		switch e.Op {
		case Add, Sub:
			return precAdd
		case Neg:
			return precNeg
		}
		return precMul
	case Const:
		if e.kind.Numeric() {
			if c, _ := Compare(e.Value, Int(0)); c < 0 {
				return precNeg
			}
		}
	}
	return precAtom
}

// termPrecedence is the precedence of AND and OR, which are not written for fewer than two terms.
func termPrecedence(terms []Expr, own int) int {
	switch len(terms) {
	case 0:
		return precAtom
	case 1:
		return precedence(terms[0])
	}
	return own
}

// text returns the text of an operand, in parentheses if it binds weaker than level.
func text(e Expr, level int) string {
	if e == nil {
		return "?"
	}
	if precedence(e) < level {
		return "(" + e.String() + ")"
	}
	return e.String()
}

// texts returns a list of operands.
func texts(list []Expr, level int, separator string) string {
	parts := make([]string, len(list))
	for i, e := range list {
		parts[i] = text(e, level)
	}
	return strings.Join(parts, separator)
}

// String returns ":name", or "?1" for the first parameter that has no name.
func (e Param) String() string {
	if e.Name != "" {
		return ":" + e.Name
	}
	return "?" + strconv.Itoa(e.Index+1)
}

// String returns the name, after that of the table if there is one.
func (e Column) String() string {
	name := ident(e.Name)
	if e.Name == "" {
		name = fmt.Sprintf("column%d", e.Ordinal)
	}
	if e.Table != "" {
		return ident(e.Table) + "." + name
	}
	return name
}

// String returns the name of what the slot holds.
func (e Slot) String() string {
	if e.Name != "" {
		return e.Name
	}
	return "slot" + strconv.Itoa(e.I)
}

// String returns the name of the aggregate.
func (e Agg) String() string {
	if e.Name != "" {
		return e.Name
	}
	return "aggregate" + strconv.Itoa(e.Index)
}

// String implements Expr.
func (e Cmp) String() string {
	return text(e.L, precAdd) + " " + e.Op.String() + " " + text(e.R, precAdd)
}

// String implements Expr.
func (e In) String() string {
	if len(e.List) == 1 {
		switch q := e.List[0].(type) {
		case Subquery, Apply:
			return text(e.X, precAdd) + not(e.Not) + " IN " + q.String()
		}
	}
	return text(e.X, precAdd) + not(e.Not) + " IN (" + texts(e.List, precOr, ", ") + ")"
}

// String implements Expr.
func (e Between) String() string {
	return text(e.X, precAdd) + not(e.Not) + " BETWEEN " + text(e.Lo, precAdd) + " AND " +
		text(e.Hi, precAdd)
}

// String implements Expr.
func (e BeginsWith) String() string {
	return "begins_with(" + text(e.X, precOr) + ", " + text(e.Prefix, precOr) + ")"
}

// String implements Expr.
func (e Like) String() string {
	op := " LIKE "
	if e.Fold {
		op = " ILIKE "
	}
	s := text(e.X, precAdd) + not(e.Not) + op + text(e.Pattern, precAdd)
	if e.Escape != 0 {
		s += " ESCAPE " + quote(string(e.Escape))
	}
	return s
}

// String implements Expr.
func (e IsNull) String() string { return text(e.X, precAdd) + " IS" + not(e.Not) + " NULL" }

// String implements Expr.
func (e And) String() string {
	if len(e.Terms) == 0 {
		return "TRUE"
	}
	if len(e.Terms) == 1 {
		return text(e.Terms[0], precOr)
	}
	return texts(e.Terms, precAnd+1, " AND ")
}

// String implements Expr.
func (e Or) String() string {
	if len(e.Terms) == 0 {
		return "FALSE"
	}
	if len(e.Terms) == 1 {
		return text(e.Terms[0], precOr)
	}
	return texts(e.Terms, precOr+1, " OR ")
}

// String implements Expr.
func (e Not) String() string { return "NOT " + text(e.X, precNot) }

// String implements Expr.
func (e Row) String() string { return "(" + texts(e.Items, precOr, ", ") + ")" }

// String implements Expr.
func (e Contains) String() string {
	return "contains(" + text(e.X, precOr) + ", " + text(e.Item, precOr) + ")"
}

// String implements Expr.
func (e Arith) String() string {
	switch e.Op {
	case Neg:
		return "-" + text(e.L, precAtom)
	case Add, Sub:
		return text(e.L, precAdd) + " " + e.Op.String() + " " + text(e.R, precMul)
	}
	return text(e.L, precMul) + " " + e.Op.String() + " " + text(e.R, precNeg)
}

// String implements Expr.
func (e Func) String() string { return e.Name + "(" + texts(e.Args, precOr, ", ") + ")" }

// String implements Expr.
func (e IsDistinct) String() string {
	return text(e.L, precAdd) + " IS" + not(e.Not) + " DISTINCT FROM " + text(e.R, precAdd)
}

// String implements Expr.
func (e Cast) String() string { return "CAST(" + text(e.X, precOr) + " AS " + e.To.String() + ")" }

// String implements Expr.
func (e Case) String() string {
	var b strings.Builder
	b.WriteString("CASE")
	if e.X != nil {
		b.WriteString(" " + text(e.X, precOr))
	}
	for _, w := range e.Whens {
		b.WriteString(" WHEN " + text(w.If, precOr) + " THEN " + text(w.Then, precOr))
	}
	if c, ok := e.Else.(Const); !ok || !c.IsNull() {
		b.WriteString(" ELSE " + text(e.Else, precOr))
	}
	return b.String() + " END"
}

// String implements Expr.
func (e Subquery) String() string {
	prefix := ""
	if e.Kind == Exists {
		prefix = "EXISTS "
	}
	if q, ok := e.Query.(fmt.Stringer); ok {
		return prefix + "(" + q.String() + ")"
	}
	return prefix + "(SELECT …)"
}

// String implements Expr.
func (e Apply) String() string { return Subquery{Query: e.Query, Kind: e.Kind}.String() }

func not(not bool) string {
	if not {
		return " NOT"
	}
	return ""
}

// ident returns a name as SQL wants it: as it is if it consists of letters, digits and
// underscores and is not a keyword, otherwise in double quotes.
func ident(name string) string {
	var upper [maxKeyword]byte
	plain := name != ""
	for i := range len(name) {
		c := name[i]
		if i < len(upper) {
			upper[i] = c &^ 0x20
		}
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		plain = plain && (letter || (i > 0 && '0' <= c && c <= '9'))
	}
	if plain && (len(name) > len(upper) || !keywords[string(upper[:len(name)])]) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// maxKeyword is the length of the longest keyword.
const maxKeyword = len("TIMESTAMP")

var keywords = func() map[string]bool {
	m := map[string]bool{}
	for _, word := range strings.Fields(`ALL ANALYZE AND ARRAY AS ASC BETWEEN BY CASE CREATE
		CROSS DECIMAL DELETE DESC DISTINCT DROP ESCAPE EXISTS EXPLAIN FALSE FIRST FLOAT FROM
		GROUP HAVING IN INDEX INNER INSERT INTO IS JOIN KEY LAST LEFT LIKE LIMIT NOT NULL
		NULLS OFFSET ON OR ORDER OUTER PRIMARY RIGHT SELECT SET SHARD TABLE TIMESTAMP TRUE
		UNION UNIQUE UPDATE USING VALUES WHERE WITH X`) {
		m[word] = true
	}
	return m
}()
