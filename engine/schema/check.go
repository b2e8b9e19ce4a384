package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
)

// maxChecks is the largest number of checks of a table.
const maxChecks = 64

// Check is a condition that every row satisfies: it is true or unknown for it, not false.
type Check struct {
	Name      string
	Condition expr.Expr
	// Unverified says that rows from before the check have not all been looked at. Rows that
	// are written satisfy it.
	Unverified bool
}

// CheckError says that a row cannot be written, or is there already, for which a check is false
// or fails. It matches ErrCheck.
type CheckError struct {
	Table, Check string
	Condition    expr.Expr
	// Columns and Values are those that the condition is about.
	Columns []string
	Values  []expr.Value
	Err     error // why the condition failed; nil: it is false
}

// ErrCheck is matched by errors about rows for which a check is false.
var ErrCheck = errors.New("schema: a check is false")

// Error implements error.
func (e *CheckError) Error() string {
	values := make([]string, len(e.Values))
	for i, v := range e.Values {
		values[i] = e.Columns[i] + " = " + v.String()
	}
	what := "is false"
	if e.Err != nil {
		what = "fails"
	}
	text := fmt.Sprintf("schema: table %q: CHECK %q %s for %s: %s", e.Table, e.Check, what,
		strings.Join(values, ", "), e.Condition)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is makes errors.Is(err, ErrCheck) true.
func (e *CheckError) Is(target error) bool { return target == ErrCheck }

// Unwrap returns the cause.
func (e *CheckError) Unwrap() error { return e.Err }

// Check returns the check with that name, or nil.
func (t *Table) Check(name string) *Check {
	for i := range t.Checks {
		if t.Checks[i].Name == name {
			return &t.Checks[i]
		}
	}
	return nil
}

// CheckRow returns a *CheckError for the first check that is false for a row, or fails.
// Requires: the row is one that Convert or Decode has made.
func (t *Table) CheckRow(row []expr.Value) error {
	for i := range t.Checks {
		if err := t.Checks[i].test(t, &t.built.checks[i], row); err != nil {
			return err
		}
	}
	return nil
}

// CheckRowBy is CheckRow of the check with that name alone.
func (t *Table) CheckRowBy(name string, row []expr.Value) error {
	for i := range t.Checks {
		if t.Checks[i].Name == name {
			return t.Checks[i].test(t, &t.built.checks[i], row)
		}
	}
	return nil
}

func (c *Check) test(t *Table, p *expr.Program, row []expr.Value) error {
	truth, err := p.Test(row, nil)
	if err == nil && truth != expr.False {
		return nil
	}
	e := &CheckError{Table: t.Name, Check: c.Name, Condition: c.Condition, Err: err}
	for o := range t.Columns {
		if usesColumn(e.Condition, o) {
			e.Columns = append(e.Columns, t.Columns[o].Name)
			e.Values = append(e.Values, row[o].Clone())
		}
	}
	return e
}

// usesColumn reports whether an expression has a column.
func usesColumn(e expr.Expr, ordinal int) bool {
	for c := range expr.Columns(e) {
		if c.Ordinal == ordinal {
			return true
		}
	}
	return false
}

func (t *Table) validateChecks() error {
	if n := len(t.Checks); n > maxChecks {
		return fmt.Errorf("%d checks, at most %d are possible", n, maxChecks)
	}
	var errs []error
	names := map[string]bool{}
	for _, x := range t.Indexes {
		if x != nil {
			names[strings.ToLower(x.Name)] = true
		}
	}
	for i := range t.Checks {
		c := &t.Checks[i]
		lower := strings.ToLower(c.Name)
		err := checkName("a check", c.Name)
		switch {
		case err != nil:
		case names[lower]:
			err = fmt.Errorf("two checks or indexes are named %q", c.Name)
		case c.Condition == nil:
			err = fmt.Errorf("check %q has no condition", c.Name)
		default:
			if err = t.validateCondition(c.Condition); err != nil {
				err = fmt.Errorf("check %q: %w", c.Name, err)
			}
		}
		names[lower] = true
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// buildChecks gives the columns of conditions their present names, and makes programs of them.
func (t *Table) buildChecks() (programs []expr.Program, err error) {
	for i := range t.Checks {
		c := &t.Checks[i]
		c.Condition = t.resolve(c.Condition)
		p, err := expr.Compile(c.Condition)
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// AddCheck returns the table with one more check. Without Unverified the caller knows that all
// rows satisfy it.
func (t *Table) AddCheck(c Check) (*Table, error) {
	return t.changed(func(t *Table) error {
		t.Checks = append(t.Checks, c)
		return nil
	})
}

// VerifyCheck returns the table with a check that all rows satisfy.
func (t *Table) VerifyCheck(name string) (*Table, error) {
	return t.changed(func(t *Table) error {
		c := t.Check(name)
		if c == nil {
			return fmt.Errorf("there is no check %q", name)
		}
		c.Unverified = false
		return nil
	})
}

// DropCheck returns the table without a check.
func (t *Table) DropCheck(name string) (*Table, error) {
	return t.changed(func(t *Table) error {
		n := len(t.Checks)
		t.Checks = slices.DeleteFunc(t.Checks, func(c Check) bool { return c.Name == name })
		if len(t.Checks) == n {
			return fmt.Errorf("there is no check %q", name)
		}
		return nil
	})
}

// migrateChecks returns the changes that turn the checks of a table into those of another one.
func migrateChecks(have, want *Table) (drops, adds []Change) {
	for i := range have.Checks {
		c := &have.Checks[i]
		other := want.Check(c.Name)
		if other == nil || !have.sameCondition(c.Condition, want, other.Condition) {
			drops = append(drops, Change{text: "drop check " + c.Name,
				Apply: func(t *Table) (*Table, error) { return t.DropCheck(c.Name) }})
		}
	}
	for i := range want.Checks {
		c := want.Checks[i]
		was := have.Check(c.Name)
		if was == nil || !have.sameCondition(was.Condition, want, c.Condition) {
			adds = append(adds, Change{AddCheck: c.Name, text: "add check " + c.Name,
				Apply: func(t *Table) (*Table, error) {
					condition, err := t.moveCondition(c.Condition, want)
					if err != nil {
						return nil, err
					}
					return t.AddCheck(Check{Name: c.Name, Condition: condition, Unverified: true})
				}})
		}
	}
	return drops, adds
}

// sameCondition reports whether a condition of t is one of another table.
func (t *Table) sameCondition(e expr.Expr, other *Table, of expr.Expr) bool {
	moved, err := t.moveCondition(of, other)
	return err == nil && expr.Equal(e, moved)
}

// moveCondition returns a condition over columns of another table as one over those of t.
func (t *Table) moveCondition(e expr.Expr, from *Table) (expr.Expr, error) {
	return expr.Rewrite(e, func(e expr.Expr) (expr.Expr, error) {
		c, ok := e.(expr.Column)
		if !ok {
			return e, nil
		}
		i, err := t.columnNamed(from.Columns[c.Ordinal].Name)
		if err != nil {
			return nil, err
		}
		return t.Ref(0, i), nil
	})
}
