package typed

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
)

// Arg is a parameter of a prepared query, of type V. Parameters of one name are one
// parameter:
//
//	who := typed.Arg[string]{Name: "who"}
//	byUser := Orders.Where(UserID.EqArg(who)).Prepare()
//	for o, err := range byUser.All(ctx, db, who.Is("USR_1")) { … }
type Arg[V any] struct {
	Name  string
	field *field // of Column.Arg; nil: the value is what expr.From makes of it
}

// Arg returns a parameter that takes values of the column. It costs less than one made
// otherwise, and is the one that an int64 with decimal places needs.
func (c Column[T, V]) Arg(name string) Arg[V] { return Arg[V]{name, c.field} }

// Binding is the value of a parameter.
type Binding struct {
	name  string
	value expr.Value
	err   error
}

// Is gives the parameter a value.
func (a Arg[V]) Is(v V) Binding {
	if a.field != nil {
		return Binding{name: a.Name, value: a.field.constant(unsafe.Pointer(&v))}
	}
	value, err := expr.From(v)
	return Binding{a.Name, value, err}
}

// param is the parameter in an expression, which its column is compared with.
func (a Arg[V]) param(f *field) expr.Expr {
	if f.kind == kindCoefficient && a.field == nil {
		panic("typed: a parameter for column " + f.column.Name + " is made by its method Arg")
	}
	return expr.Param{Index: unnumbered, Name: a.Name}
}

// unnumbered is the position of a parameter before a query is bound to a database.
const unnumbered = -1

// arguments are the names of the parameters of a query, in the order of their positions.
type arguments []string

// number returns the position of a parameter.
func (a *arguments) number(name string) int {
	for i, known := range *a {
		if known == name {
			return i
		}
	}
	*a = append(*a, name)
	return len(*a) - 1
}

// values appends the values of the parameters to dst: those of bindings, and of constants.
func (a arguments) values(dst []expr.Value, bindings []Binding, constants []expr.Value) (
	[]expr.Value, error) {
	for i := range bindings {
		if err := bindings[i].err; err != nil {
			return dst, err
		}
	}
	for _, name := range a {
		if i, ok := constantOf(name); ok {
			dst = append(dst, constants[i])
			continue
		}
		b := bindingOf(bindings, name)
		if b == nil {
			named := slices.DeleteFunc(slices.Clone(a), func(name string) bool {
				_, constant := constantOf(name)
				return constant
			})
			return dst, invalid("the parameter %s has no value; the query has %s", name,
				strings.Join(named, ", "))
		}
		dst = append(dst, b.value)
	}
	return dst, nil
}
