package planregret_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// query is a text with %s for the hint of orders and ? for each value.
type query struct {
	text   string
	values []any
}

// literal returns the text with its values spelled out.
func (q query) literal() string {
	text := q.text
	for _, v := range q.values {
		var s string
		switch v := v.(type) {
		case string:
			s = "'" + v + "'"
		case []int:
			s = strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ", "), "[]")
		default:
			s = fmt.Sprint(v)
		}
		text = strings.Replace(text, "?", s, 1)
	}
	return text
}

// generator draws conditions and queries.
type generator struct {
	*rand.Rand
	rows int
}

// condition is a condition on a column, with its values.
type condition struct {
	text   string
	values []any
}

func (g *generator) pick(list ...any) any { return list[g.IntN(len(list))] }

// span draws a range of a column with values in [0, most): from a few values to all of them.
func (g *generator) span(column string, most int) condition {
	width := 1 + most>>g.IntN(18)
	lo := g.IntN(most)
	switch g.IntN(4) {
	case 0:
		return condition{column + " < ?", []any{width}}
	case 1:
		return condition{column + " >= ?", []any{most - width}}
	}
	return condition{column + " BETWEEN ? AND ?", []any{lo, lo + width}}
}

// customer draws a frequent, a usual, or a missing one.
func (g *generator) customer() any {
	return g.pick(0, 1, g.IntN(20), g.IntN(g.rows/10), g.IntN(g.rows/10), 7*g.rows)
}

func (g *generator) condition() condition {
	switch g.IntN(14) {
	case 0, 1:
		return condition{"status = ?", []any{g.pick("done", "open", "err", "none")}}
	case 2:
		return condition{"vip = ?", []any{g.pick(0, 1, 2)}}
	case 3, 4:
		return condition{"cust = ?", []any{g.customer()}}
	case 5:
		list := make([]int, 1+1<<g.IntN(10))
		for i := range list {
			list[i] = g.IntN(g.rows / 10)
		}
		return condition{"cust IN (?)", []any{list}}
	case 6:
		return condition{"region = ?", []any{g.IntN(41)}}
	case 7:
		cust := g.IntN(g.rows / 10)
		return condition{"region = ? AND cust = ?", []any{cust % 40, cust}}
	case 8, 9:
		return g.span("created", 10*g.rows)
	case 10:
		return g.span("amount", 10_000)
	case 11:
		return g.span("day", 1+g.rows/500)
	case 12:
		return g.span("id", g.rows)
	}
	lo := g.IntN(10 * g.rows)
	return condition{"code BETWEEN ? AND ?", []any{lo, lo + g.IntN(40)}}
}

func (g *generator) where(alias string) condition {
	all := condition{}
	joint := " AND "
	if g.IntN(8) == 0 {
		joint = " OR "
	}
	for i := range 1 + g.IntN(3) {
		c := g.condition()
		if i > 0 {
			all.text += joint
		}
		text := c.text
		if alias != "" {
			text = strings.ReplaceAll(alias+"."+text, " AND cust", " AND "+alias+".cust")
		}
		if strings.Contains(text, " AND ") {
			text = "(" + text + ")"
		}
		all.text += text
		all.values = append(all.values, c.values...)
	}
	return all
}

const joined = "SELECT o.note, p.name FROM orders o%s JOIN people p ON o.cust = p.cust WHERE "

// query draws a query: plain, with an order and a limit, aggregated, or a join.
func (g *generator) query() query {
	order := g.pick("created", "created DESC", "amount", "id DESC", "cust", "cust, amount",
		"status DESC, created", "region, vip", "day DESC, amount")
	limit := g.pick(1, 10, 100)
	switch g.IntN(12) {
	case 9:
		return g.grouped()
	case 10, 11:
		return g.subquery()
	case 0, 1, 2:
		w := g.where("")
		return query{"SELECT note FROM orders%s WHERE " + w.text, w.values}
	case 3, 4:
		w := g.where("")
		return query{fmt.Sprintf("SELECT note FROM orders%%s WHERE %s ORDER BY %s LIMIT %d",
			w.text, order, limit), w.values}
	case 5:
		w := g.where("")
		return query{fmt.Sprintf("SELECT note FROM orders%%s WHERE %s LIMIT %d", w.text, limit),
			w.values}
	case 6:
		w := g.where("")
		what := g.pick("count(*)", "sum(amount)", "max(created)", "min(amount)")
		return query{fmt.Sprintf("SELECT %s FROM orders%%s WHERE %s", what, w.text), w.values}
	case 7:
		w := g.where("o")
		return query{joined + w.text, w.values}
	}
	w := g.where("o")
	c := condition{"p.grade = ?", []any{g.pick(0, 1)}}
	return query{joined + "(" + w.text + ") AND " + c.text, append(w.values, c.values...)}
}

// grouped draws a query with groups, or different values.
func (g *generator) grouped() query {
	w := g.where("")
	if by := g.pick("status", "cust", "region", "day"); g.IntN(2) == 0 {
		return query{fmt.Sprintf("SELECT %s, count(*) FROM orders%%s WHERE %s GROUP BY %[1]s", by,
			w.text), w.values}
	}
	by := g.pick("region", "cust", "day")
	return query{fmt.Sprintf("SELECT DISTINCT %s FROM orders%%s WHERE %s", by, w.text), w.values}
}

// subquery draws a query with IN or EXISTS, alone or beside other conditions.
func (g *generator) subquery() query {
	in := "cust IN (SELECT p.cust FROM people p WHERE "
	if g.IntN(3) == 0 {
		in = "EXISTS (SELECT 1 FROM people p WHERE p.cust = orders.cust AND "
	}
	inner := condition{"p.region = ? AND p.grade = ?", []any{g.IntN(40), g.pick(0, 1)}}
	switch g.IntN(3) {
	case 0:
		inner = condition{"p.cust BETWEEN ? AND ?", []any{g.rows / 20, g.rows/20 + 1<<g.IntN(12)}}
	case 1:
		inner = condition{"p.grade = ?", []any{1}}
	}
	c := g.condition()
	joint := g.pick("AND", "AND", "OR")
	if strings.HasPrefix(in, "EXISTS") {
		joint = "AND"
	}
	text := fmt.Sprintf("SELECT note FROM orders%%s WHERE (%s) %s %s%s)", c.text, joint, in,
		inner.text)
	if g.IntN(3) == 0 {
		text += " ORDER BY created LIMIT 10"
	}
	return query{text, append(c.values, inner.values...)}
}
