package expr

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// Format: a value in JSON is null, true, false, or an object with the name of its kind
// and its text, for example {"int":"-5"}, {"time":"2026-01-02T03:04:05Z"}. Bytes, and
// texts that are not UTF-8 (kind "text64"), are in base64. A list is {"list":[…]}.

// MarshalJSON implements json.Marshaler. The form is stable: equal values give equal
// bytes in every version.
func (v Value) MarshalJSON() ([]byte, error) {
	name, text := v.kind.String(), ""
	switch v.kind {
	case KindNull:
		return []byte("null"), nil
	case KindBool:
		return strconv.AppendBool(nil, v.n != 0), nil
	case KindList:
		return json.Marshal(map[string][]Value{name: slices.AppendSeq([]Value{}, v.Elements())})
	case KindString:
		text = v.s
		if !utf8.ValidString(v.s) {
			name, text = "text64", base64.StdEncoding.EncodeToString([]byte(v.s))
		}
	case KindBytes:
		text = base64.StdEncoding.EncodeToString([]byte(v.s))
	case KindTime:
		text = timeText(v)
	case KindFloat:
		text = strconv.FormatFloat(floatOf(v), 'g', -1, 64)
	case KindInt:
		text = strconv.FormatInt(int64(v.n), 10)
	case KindUint:
		text = strconv.FormatUint(v.n, 10)
	default:
		text = fmt.Sprint(v.Any())
	}
	return json.Marshal(map[string]string{name: text})
}

// UnmarshalJSON implements json.Unmarshaler. Beside what MarshalJSON writes it accepts
// what people write: a JSON string for a text, a JSON number for an integer or decimal,
// and an array for a list.
func (v *Value) UnmarshalJSON(data []byte) error {
	read, err := readValueJSON(data)
	if err == nil {
		*v = read
	}
	return err
}

func readValueJSON(data []byte) (Value, error) {
	switch data = bytes.TrimSpace(data); {
	case len(data) == 0:
		return Value{}, io.ErrUnexpectedEOF
	case data[0] == '{':
		return readTagged(data)
	case data[0] == '[':
		return readListJSON(data)
	case data[0] == '"':
		var s string
		err := json.Unmarshal(data, &s)
		return String(s), err
	}
	switch text := string(data); text {
	case "null":
		return Value{}, nil
	case "true", "false":
		return Bool(text == "true"), nil
	default:
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Int(i), nil
		}
		return parseKind("decimal", text)
	}
}

func readTagged(data []byte) (Value, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return Value{}, err
	}
	if len(members) != 1 {
		return Value{}, fmt.Errorf("expr: a value in JSON has one member, not %d", len(members))
	}
	for name, raw := range members {
		if name == "list" {
			return readListJSON(raw)
		}
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return Value{}, err
		}
		return parseKind(name, s)
	}
	return Value{}, nil
}

func readListJSON(data []byte) (Value, error) {
	var elements []Value
	if err := json.Unmarshal(data, &elements); err != nil {
		return Value{}, err
	}
	for _, e := range elements {
		if e.kind == KindList {
			return Value{}, errors.New("expr: a list of lists cannot be stored in a column")
		}
	}
	return List(elements), nil
}

// parseKind reads the text of a value of the named kind.
func parseKind(name, s string) (Value, error) {
	bad := func() (Value, error) {
		return Value{}, fmt.Errorf("expr: %q is not a value of type %q", s, name)
	}
	switch name {
	case "int":
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return Int(i), nil
		}
	case "uint":
		if u, err := strconv.ParseUint(s, 10, 64); err == nil {
			return Uint(u), nil
		}
	case "float":
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return Float(f), nil
		}
	case "string":
		return String(s), nil
	case "bytes", "text64":
		if b, err := base64.StdEncoding.DecodeString(s); err == nil && name == "bytes" {
			return Bytes(b), nil
		} else if err == nil {
			return String(string(b)), nil
		}
	case "time":
		return parseTimeText(s)
	case "decimal":
		if d, err := keycodec.ParseDecimal(s); err == nil {
			return Decimal(d), nil
		}
	case "uuid", "ip", "ipprefix":
		if v, ok := parseAs(Kind(slices.Index(kindNames[:], name)), s); ok {
			return v, nil
		}
	}
	return bad()
}

// Format: an expression in JSON is an object. "op" says what it is: "const", "param",
// "column", "slot", "agg", a comparison ("=", "<>", …), "in", "between", "begins",
// "like", "ilike", "isnull", "distinct", "and", "or", "not", "row", "contains", an arithmetic
// operator, "func", "cast" (whose name is the type), "case" or, with a value that is compared,
// "caseof". "args" are its operands in the order of Children.

type exprJSON struct {
	Op      string      `json:"op"`
	Name    string      `json:"name,omitempty"`
	Table   string      `json:"table,omitempty"`
	Source  int         `json:"source,omitempty"`
	At      int         `json:"at,omitempty"` // ordinal, slot, index
	Collate string      `json:"collate,omitempty"`
	Escape  string      `json:"escape,omitempty"`
	Not     bool        `json:"not,omitempty"`
	Value   *Value      `json:"value,omitempty"`
	Args    []*exprJSON `json:"args,omitempty"`
}

// MarshalExpr returns the JSON form of an expression. The form is stable. It fails for
// subqueries.
func MarshalExpr(e Expr) ([]byte, error) {
	if err := checkDepth(e, MaxDepth); err != nil {
		return nil, err
	}
	out, err := toJSON(e)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// UnmarshalExpr reads the JSON form of an expression. It fails for members and operators
// it does not know, and for what cannot be compiled.
func UnmarshalExpr(data []byte) (Expr, error) {
	var in *exprJSON
	if err := base.UnmarshalStrict(data, &in); err != nil {
		return nil, fmt.Errorf("expr: reading an expression: %w", err)
	}
	e, err := fromJSON(in, MaxDepth)
	if err != nil {
		return nil, err
	}
	if _, row := e.(Row); row {
		return e, nil
	}
	_, err = Compile(e)
	return e, err
}

func toJSON(e Expr) (*exprJSON, error) {
	out := &exprJSON{}
	switch e := e.(type) {
	case Const:
		out.Op, out.Value = "const", &e.Value
		if e.IsNull() {
			out.Value = nil
		}
	case Param:
		out.Op, out.Name, out.At = "param", e.Name, e.Index
	case Column:
		*out = exprJSON{Op: "column", Name: e.Name, Table: e.Table, Source: e.Source,
			At: e.Ordinal, Collate: e.Collation.String()}
	case Slot:
		*out = exprJSON{Op: "slot", Name: e.Name, At: e.I, Collate: e.Collation.String()}
	case Agg:
		*out = exprJSON{Op: "agg", Name: e.Name, At: e.Index}
	case Cmp:
		out.Op = e.Op.String()
	case In:
		out.Op, out.Not = "in", e.Not
	case Between:
		out.Op, out.Not = "between", e.Not
	case BeginsWith:
		out.Op = "begins"
	case Like:
		out.Op, out.Not = "like", e.Not
		if e.Fold {
			out.Op = "ilike"
		}
		if e.Escape != 0 {
			out.Escape = string(e.Escape)
		}
	case IsNull:
		out.Op, out.Not = "isnull", e.Not
	case And:
		out.Op = "and"
	case Or:
		out.Op = "or"
	case Not:
		out.Op = "not"
	case Row:
		out.Op = "row"
	case Contains:
		out.Op = "contains"
	case IsDistinct:
		out.Op, out.Not = "distinct", e.Not
	default:
		if err := out.calculation(e); err != nil {
			return nil, err
		}
	}
	for _, child := range Children(e) {
		arg, err := toJSON(child)
		if err != nil {
			return nil, err
		}
		out.Args = append(out.Args, arg)
	}
	return out, nil
}

// calculation fills in expressions that compute values.
func (out *exprJSON) calculation(e Expr) error {
	switch e := e.(type) {
	case Arith:
		if int(e.Op) >= len(arithNames) {
			return fmt.Errorf("expr: unknown %s", e.Op)
		}
		out.Op = arithNames[e.Op]
	case Func:
		out.Op, out.Name = "func", e.Name
	case Cast:
		out.Op, out.Name = "cast", e.To.String()
	case Case:
		if out.Op = "case"; e.X != nil {
			out.Op = "caseof"
		}
	default:
		return fmt.Errorf("expr: %s has no JSON form", e)
	}
	return nil
}

// arity is the number of operands of operators that have a fixed one.
var arity = map[string]int{"between": 3, "begins": 2, "like": 2, "ilike": 2, "isnull": 1,
	"distinct": 2, "cast": 1, "not": 1, "contains": 2, "neg": 1,
	"const": 0, "param": 0, "column": 0, "slot": 0, "agg": 0}

func fromJSON(in *exprJSON, left int) (Expr, error) {
	if in == nil || left == 0 {
		return nil, errors.New("expr: reading an expression: an operand is missing or too deep")
	}
	args := make([]Expr, len(in.Args))
	for i, arg := range in.Args {
		var err error
		if args[i], err = fromJSON(arg, left-1); err != nil {
			return nil, err
		}
	}
	op, arith := slices.Index(opNames[:], in.Op), slices.Index(arithNames[:], in.Op)
	want, fixed := arity[in.Op]
	if !fixed && (op >= 0 || arith >= 0) {
		want, fixed = 2, true
	}
	switch {
	case fixed && len(args) != want, in.Op == "in" && len(args) == 0, in.At < 0, in.Source < 0,
		in.At > math.MaxInt32, in.Op == "case" && (len(args) < 3 || len(args)%2 == 0),
		in.Op == "caseof" && (len(args) < 4 || len(args)%2 == 1):
		return nil, fmt.Errorf("expr: reading an expression: %q is not complete", in.Op)
	case op >= 0:
		return Cmp{Op(op), args[0], args[1]}, nil
	case arith >= 0:
		return withChildren(Arith{Op: ArithOp(arith)}, args), nil
	}
	return fromJSONNode(in, args)
}

func fromJSONNode(in *exprJSON, args []Expr) (Expr, error) {
	collation := keycodec.CollateBytes
	for collation.String() != in.Collate {
		if collation++; collation > keycodec.CollateUnicode {
			return nil, fmt.Errorf("expr: unknown collation %q", in.Collate)
		}
	}
	switch in.Op {
	case "const":
		if in.Value == nil {
			return Const{}, nil
		}
		return Const{*in.Value}, nil
	case "param":
		return Param{Index: in.At, Name: in.Name}, nil
	case "column":
		return Column{in.Source, in.At, in.Table, in.Name, collation}, nil
	case "slot":
		return Slot{in.At, in.Name, collation}, nil
	case "agg":
		return Agg{in.At, in.Name}, nil
	case "in":
		return In{args[0], args[1:], in.Not}, nil
	case "between":
		return Between{args[0], args[1], args[2], in.Not}, nil
	case "begins":
		return BeginsWith{args[0], args[1]}, nil
	case "like", "ilike":
		escape, n := utf8.DecodeRuneInString(in.Escape)
		if n != len(in.Escape) {
			return nil, fmt.Errorf("expr: %q is not one character", in.Escape)
		}
		if n == 0 {
			escape = 0
		}
		return Like{args[0], args[1], escape, in.Op == "ilike", in.Not}, nil
	case "isnull":
		return IsNull{args[0], in.Not}, nil
	case "and":
		return And{args}, nil
	case "or":
		return Or{args}, nil
	case "not":
		return Not{args[0]}, nil
	case "row":
		return Row{args}, nil
	case "contains":
		return Contains{args[0], args[1]}, nil
	case "func":
		return Func{Name: in.Name, Args: args}, nil
	case "distinct":
		return IsDistinct{args[0], args[1], in.Not}, nil
	case "cast":
		to, err := ParseCastType(in.Name)
		return Cast{X: args[0], To: to}, err
	case "case", "caseof":
		return caseOf(args, in.Op == "caseof"), nil
	}
	return nil, fmt.Errorf("expr: reading an expression: unknown %q", in.Op)
}
