package sql_test

import (
	"errors"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/plan"
)

// simplify makes the last check of a program of oracles shorter, and its table narrower.
func (r *reducer) simplify() {
	r.t.Helper()
	plain := r.small
	plain.settings = settings{costs: plan.DefaultCosts}
	r.try(plain)
	r.try(r.small.edited(func(s *step) {
		var d *differenceError
		if s.do == doCheck && errors.As(r.err, &d) {
			c := *s.check
			c.only, s.check = &d.hint, &c
		}
	}))
	for _, of := range []func(*step) *string{
		func(s *step) *string {
			if s.do == doCreateIndex || s.do == doChange {
				return &s.text
			}
			return nil
		},
		func(s *step) *string {
			if s.do != doCheck {
				return nil
			}
			return &s.check.p
		},
		func(s *step) *string {
			if s.do != doCheck {
				return nil
			}
			return &s.check.q
		},
	} {
		r.shorten(of)
	}
	for i := len(r.small.columns) - 1; i > 0; i-- {
		r.try(r.small.withoutColumn(i))
	}
	for i := len(r.small.steps) - 1; i >= 0; i-- {
		_, added, ok := strings.Cut(r.small.steps[i].text, " ADD COLUMN ")
		if ok && r.small.steps[i].do == doAlter {
			name, _, _ := strings.Cut(added, " ")
			without := r.small.withoutValues(name)
			without.steps = slices.Delete(without.steps, i, i+1)
			r.try(without)
		}
	}
}

// edited returns a copy of the program with changed steps.
func (p program) edited(f func(*step)) program {
	p.steps = slices.Clone(p.steps)
	for i := range p.steps {
		if c := p.steps[i].check; c != nil {
			c := *c
			p.steps[i].check = &c
		}
		p.steps[i].steps = program{steps: p.steps[i].steps}.nested(f)
		f(&p.steps[i])
	}
	return p
}

func (p program) nested(f func(*step)) []step {
	if len(p.steps) == 0 {
		return nil
	}
	return p.edited(f).steps
}

// shorten tries shorter forms of a text of each step.
func (r *reducer) shorten(of func(*step) *string) {
	r.t.Helper()
	for again := true; again; {
		again = false
		var texts []string
		r.small.edited(func(s *step) {
			if text := of(s); text != nil && *text != "" && !slices.Contains(texts, *text) {
				texts = append(texts, *text)
			}
		})
		for _, old := range texts {
			for _, shorter := range shorter(old) {
				if r.try(r.small.edited(func(s *step) {
					if text := of(s); text != nil && *text == old {
						*text = shorter
					}
				})) {
					again = true
					break
				}
			}
		}
	}
}

// shorter returns forms of a text in which a group in parentheses becomes one of its parts, a word
// NOT is left out, or an element of a list. Some are no statements.
func shorter(text string) (out []string) {
	for i := range len(text) {
		switch {
		case text[i] == '(':
			end := closing(text, i)
			if end < 0 {
				continue
			}
			for _, word := range []string{" AND ", " OR ", ", "} {
				terms := apart(text[i+1:end], word)
				for j := range terms {
					if len(terms) > 1 {
						rest := strings.Join(slices.Delete(slices.Clone(terms), j, j+1), word)
						out = append(out, text[:i+1]+rest+text[end:])
					}
				}
			}
			out = append(out, text[:i]+text[i+1:end]+text[end+1:])
		case strings.HasPrefix(text[i:], "NOT "):
			out = append(out, text[:i]+text[i+4:])
		case text[i] == ' ' && i > 0:
			for _, word := range []string{" INCLUDE ", " WHERE ", " SHARD ", " LOCAL"} {
				if strings.HasPrefix(text[i:], word) {
					out = append(out, text[:i])
				}
			}
		}
	}
	for _, word := range []string{" AND ", " OR "} {
		terms := apart(text, word)
		for j := range terms {
			if len(terms) > 1 {
				out = append(out, strings.Join(slices.Delete(slices.Clone(terms), j, j+1), word))
			}
		}
	}
	return out
}

// closing returns where the parenthesis at a place is closed, -1 if it is not.
func closing(text string, at int) int {
	depth, quoted := 0, false
	for i := at; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// apart splits a text at a word outside of parentheses and quotes.
func apart(text, word string) []string {
	var out []string
	begin := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '(' || text[i] == '[':
			if end := closing(text, i); end > 0 {
				i = end
			}
		case text[i] == '\'':
			if n := strings.IndexByte(text[i+1:], '\''); n >= 0 {
				i += n + 1
			}
		case strings.HasPrefix(text[i:], word):
			out = append(out, text[begin:i])
			begin = i + len(word)
			i = begin - 1
		}
	}
	return append(out, text[begin:])
}

// withoutColumn leaves out a column of the table and of INSERT. Statements that name it fail.
func (p program) withoutColumn(i int) program {
	name, _, _ := strings.Cut(p.columns[i], " ")
	p.columns = slices.Delete(slices.Clone(p.columns), i, i+1)
	return p.withoutValues(name)
}

// withoutValues leaves a column out of INSERT.
func (p program) withoutValues(name string) program {
	return p.edited(func(s *step) {
		if s.do != doInsert {
			return
		}
		names := strings.Split(s.text, ", ")
		at := slices.Index(names, name)
		if at < 0 {
			return
		}
		s.text = strings.Join(slices.Delete(names, at, at+1), ", ")
		rows := make([][]string, len(s.rows))
		for j, cells := range s.rows {
			rows[j] = slices.Delete(slices.Clone(cells), at, at+1)
		}
		s.rows = rows
	})
}
