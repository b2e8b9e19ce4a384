package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// function is a function that expressions may call. It has everything about one: its
// spelling, the number and kinds of its arguments, the kind of its result, and what it does.
type function struct {
	// usage is how it is called, for messages.
	usage string
	// args has a letter for each argument, the last one for all that follow if more is set:
	//
	//	t text    n number    i integer    y text or bytes    l text, bytes or list
	//	d time    s all but lists    x all    u a unit of time, f a field of one
	args string
	min  int
	more bool
	// result is the letter of the result: also f float, = the widest of the numbers given,
	// 1 the first argument, and x one of the arguments, which can be compared.
	result byte
	// all says that it is called with NULLs; otherwise a NULL among the arguments gives NULL.
	all  bool
	call func(args []Value) (Value, error) // nil: see comparing
}

// functions are all functions. A test compares them with docs/sql.md.
var functions = map[string]function{
	"lower":     {"lower(text)", "t", 1, false, 't', false, ofText(cased(strings.ToLower))},
	"upper":     {"upper(text)", "t", 1, false, 't', false, ofText(cased(strings.ToUpper))},
	"reverse":   {"reverse(text)", "t", 1, false, 't', false, ofText(reversed)},
	"trim":      {"trim(text[, characters])", "tt", 1, false, 't', false, trim(strings.Trim)},
	"ltrim":     {"ltrim(text[, characters])", "tt", 1, false, 't', false, trim(strings.TrimLeft)},
	"rtrim":     {"rtrim(text[, characters])", "tt", 1, false, 't', false, trim(strings.TrimRight)},
	"length":    {"length(text, bytes or list)", "l", 1, false, 'i', false, callLength},
	"substr":    {"substr(text, from[, count])", "tii", 2, false, 't', false, callSubstr},
	"left":      {"left(text, count)", "ti", 2, false, 't', false, callLeft},
	"right":     {"right(text, count)", "ti", 2, false, 't', false, callRight},
	"lpad":      {"lpad(text, length[, fill])", "tit", 2, false, 't', false, pad(true)},
	"rpad":      {"rpad(text, length[, fill])", "tit", 2, false, 't', false, pad(false)},
	"replace":   {"replace(text, from, to)", "ttt", 3, false, 't', false, callReplace},
	"repeat":    {"repeat(text, count)", "ti", 2, false, 't', false, callRepeat},
	"casefold":  {"casefold(text[, collation])", "tt", 1, false, 't', false, callCasefold},
	"concat_ws": {"concat_ws(separator, value, …)", "ts", 2, true, 't', true, callConcatWs},
	"instr":     {"instr(text, part)", "tt", 2, false, 'i', false, callInstr},
	"concat":    {"concat(value, …)", "s", 1, true, 't', false, callConcat},
	"hex":       {"hex(text or bytes)", "y", 1, false, 't', false, callHex},
	"abs":       {"abs(number)", "n", 1, false, '=', false, callAbs},
	"sign":      {"sign(number)", "n", 1, false, 'i', false, callSign},
	"round":     {"round(number[, places])", "ni", 1, false, '1', false, roundBy(rounded)},
	"floor":     {"floor(number)", "n", 1, false, '1', false, integer(false)},
	"ceil":      {"ceil(number)", "n", 1, false, '1', false, integer(true)},
	"trunc":     {"trunc(number[, places])", "ni", 1, false, '1', false, roundBy(cut)},
	"log10":     {"log10(number)", "n", 1, false, 'f', false, ofFloat(logarithm10)},
	"power":     {"power(number, exponent)", "nn", 2, false, 'f', false, callPower},
	"sqrt":      {"sqrt(number)", "n", 1, false, 'f', false, ofFloat(sqrt)},
	"exp":       {"exp(number)", "n", 1, false, 'f', false, ofFloat(exponential)},
	"ln":        {"ln(number)", "n", 1, false, 'f', false, ofFloat(logarithm)},
	"coalesce":  {"coalesce(value, …)", "x", 1, true, 'x', true, callCoalesce},
	"nullif":    {"nullif(value, value)", "xx", 2, false, '1', true, nil},
	"greatest":  {"greatest(value, …)", "x", 1, true, 'x', false, nil},
	"least":     {"least(value, …)", "x", 1, true, 'x', false, nil},
	// Times are in UTC.
	"date_trunc": {"date_trunc(unit, time)", "ud", 2, false, 'd', false, callDateTrunc},
	"date_part":  {"date_part(field, time)", "fd", 2, false, 'i', false, callDatePart},
	"date_add":   {"date_add(time, interval)", "dt", 2, false, 'd', false, callDateAdd},
	"strftime":   {"strftime(format, time)", "td", 2, false, 't', false, callStrftime},
	"octet_length": {"octet_length(text or bytes)", "y", 1, false, 'i', false,
		callOctetLength},
	// The bucket of a value under a shard function, and that of tidb:256.
	"shard":      {"shard('function:buckets', value)", "tx", 2, false, 'i', false, callShard},
	"tidb_shard": {"tidb_shard(value)", "x", 1, false, 'i', false, callTidbShard},
}

// comparing are the functions that compare their arguments, under the collation among them that
// takes most texts for equal.
var comparing = map[string]func(keycodec.Collation) func(args []Value) (Value, error){
	"nullif": nullif, "greatest": extreme(1), "least": extreme(-1)}

// Functions returns the names of the functions that expressions may call, sorted. FuncUsage
// has their arguments.
func Functions() []string {
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// FuncUsage returns how a function is called, "" if there is none of that name.
func FuncUsage(name string) string { return functions[name].usage }

// Chooses reports whether the result of a function is one of its arguments, so that constants
// among them take the type of the others.
func Chooses(name string) bool { return functions[name].result == 'x' || name == "nullif" }

// CheckFunc reports whether a call has a known name and a possible number of arguments.
func CheckFunc(name string, args int) error {
	f, ok := functions[name]
	switch {
	case !ok:
		return fmt.Errorf("expr: there is no function %q", name)
	case args < f.min || args > len(f.args) && !f.more:
		return fmt.Errorf("expr: %s does not take %d arguments", f.usage, args)
	}
	return nil
}

// letter returns what an argument is: see function.args.
func (f *function) letter(i int) byte { return f.args[min(i, len(f.args)-1)] }

// argument is the meaning of a letter: the kinds, and their text; without kinds all.
type argument struct {
	what  string
	kinds []Kind
	whole bool
}

var arguments = map[byte]*argument{
	't': {what: "a text", kinds: []Kind{KindString}},
	'u': {what: "a text", kinds: []Kind{KindString}},
	'f': {what: "a text", kinds: []Kind{KindString}},
	'n': {what: "a number", kinds: []Kind{KindInt}},
	'i': {what: "a number", kinds: []Kind{KindInt}, whole: true},
	'y': {what: "a text or bytes", kinds: []Kind{KindString, KindBytes}},
	'l': {what: "a text, bytes or a list", kinds: []Kind{KindString, KindBytes, KindList}},
	'd': {what: "a time", kinds: []Kind{KindTime}},
	's': {what: "a single value", kinds: []Kind{KindBool, KindInt, KindString, KindBytes, KindTime,
		KindUUID, KindIP, KindIPPrefix}},
	'x': {},
}

// typeOfCall checks the arguments of a function.
func typeOfCall(e Func, args []typed) (Type, error) {
	if err := CheckFunc(e.Name, len(args)); err != nil {
		return Type{}, err
	}
	f := functions[e.Name]
	for i, a := range args {
		letter := f.letter(i)
		if want := arguments[letter]; want.kinds != nil {
			if err := wantKinds(e, args[i:i+1], want.what, want.kinds...); err != nil {
				return Type{}, err
			}
		}
		if err := checkConstant(e, letter, a); err != nil {
			return Type{}, err
		}
	}
	if e.Name == "nullif" {
		if err := wantComparable(e, args[0], args[1]); err != nil {
			return Type{}, err
		}
	}
	switch f.result {
	case 't':
		return Type{Kind: KindString}, nil
	case 'f':
		return Type{Kind: KindFloat}, nil
	case 'd':
		return Type{Kind: KindTime}, nil
	case '1':
		return args[0].Type, nil
	case '=':
		return widest(args), nil
	case 'x':
		return typeOfCoalesce(e, args)
	}
	if strings.HasSuffix(e.Name, "shard") {
		return Type{Kind: KindInt}, checkShard(e, args)
	}
	return Type{Kind: KindInt}, nil
}

// checkConstant checks what can be known of a constant argument: that an integer is whole, and
// that there is a unit of that name.
func checkConstant(e Func, letter byte, a typed) error {
	c, ok := a.Expr.(Const)
	if !ok || c.IsNull() {
		return nil
	}
	switch letter {
	case 'i':
		if _, whole := c.AsInt(); !whole {
			return mistyped(e, "%s is not an integer", a)
		}
	case 'u', 'f':
		if names := unitNames(letter == 'f'); !slices.Contains(names, strings.ToLower(c.s)) {
			return mistyped(e, "%s is not one of %s", a, strings.Join(names, ", "))
		}
	}
	return nil
}

func compileFunc(e Func) (valueFn, error) {
	if err := CheckFunc(e.Name, len(e.Args)); err != nil {
		return nil, err
	}
	f := functions[e.Name]
	args, wants := make([]valueFn, len(e.Args)), make([]*argument, len(e.Args))
	collation := keycodec.CollateBytes
	for i, arg := range e.Args {
		var err error
		collation = max(collation, CollationOf(arg))
		wants[i] = arguments[f.letter(i)]
		if args[i], err = compileValue(arg); err != nil {
			return nil, err
		}
	}
	if under := comparing[e.Name]; under != nil {
		f.call = under(collation)
	}
	return func(m env) (Value, error) {
		values := make([]Value, len(args))
		for i, arg := range args {
			v, err := arg(m)
			if err != nil || (v.kind == KindNull && !f.all) {
				return Value{}, err
			}
			if err := wants[i].check(v); err != nil {
				return Value{}, placed(e.Pos, fmt.Errorf("%s: %w", e.Name, err))
			}
			values[i] = v
		}
		v, err := f.call(values)
		if err != nil {
			return Value{}, placed(e.Pos, fmt.Errorf("%s: %w", e.Name, err))
		}
		return v, nil
	}, nil
}

// check checks the kind of an argument, which functions rely on.
func (a *argument) check(v Value) error {
	if a.kinds != nil && v.kind != KindNull && !slices.Contains(a.kinds, v.kind.class()) {
		return notOf(v, a.what)
	}
	if _, whole := v.AsInt(); a.whole && !whole {
		return notOf(v, "an integer")
	}
	return nil
}

func notOf(v Value, want string) error {
	return fmt.Errorf("%w: %s instead of %s", ErrType, v, want)
}

func callCoalesce(args []Value) (Value, error) {
	for _, v := range args {
		if v.kind != KindNull {
			return v, nil
		}
	}
	return Value{}, nil
}

func nullif(collation keycodec.Collation) func([]Value) (Value, error) {
	return func(args []Value) (Value, error) {
		if c, ok := compareUnder(args[0], args[1], collation); ok && c == 0 {
			return Value{}, nil
		}
		return args[0], nil
	}
}

// extreme returns the largest argument for 1, the smallest for -1: of equal ones the first.
func extreme(sign int) func(keycodec.Collation) func([]Value) (Value, error) {
	return func(collation keycodec.Collation) func([]Value) (Value, error) {
		return func(args []Value) (Value, error) {
			best := args[0]
			for _, v := range args[1:] {
				c, ok := compareUnder(v, best, collation)
				if !ok {
					return Value{}, incomparable(best, v)
				}
				if c*sign > 0 {
					best = v
				}
			}
			return best, nil
		}
	}
}

func callShard(args []Value) (Value, error) {
	spec, err := shard.ParseSpec(args[0].s)
	if err != nil {
		return Value{}, err
	}
	return Bucket(spec, args[1])
}

func callTidbShard(args []Value) (Value, error) {
	return Bucket(shard.Spec{Function: shard.Tidb, Count: shard.TidbCount}, args[0])
}

// Bucket returns the bucket of one value, an Int. Integers are hashed as 64 bits, other values
// as the bytes of their ordered encoding. Times and addresses have no bucket.
func Bucket(spec shard.Spec, v Value) (Value, error) {
	if err := spec.Validate(); err != nil {
		return Value{}, err
	}
	var b []byte
	switch v.kind {
	case KindNull:
		return v, nil
	case KindInt, KindUint:
		return Int(int64(spec.Int64(int64(v.n)))), nil
	case KindBool:
		b = keycodec.AppendBool(b, v.n != 0)
	case KindFloat:
		b = keycodec.AppendFloat64(b, floatOf(v))
	case KindString, KindBytes:
		b = keycodec.AppendString(b, v.s)
	case KindUUID:
		u, _ := v.AsUUID()
		b = keycodec.AppendUUID(b, u)
	case KindDecimal:
		b = v.appendOrdered(b)
	default:
		return Value{}, notOf(v, "a value of a shard function")
	}
	bucket, err := spec.Bytes(b)
	return Int(int64(bucket)), err
}

// samples are a value of each kind that a shard function may or may not take.
var samples = map[Kind]Value{
	KindBool: Bool(true), KindInt: Int(1), KindUint: Uint(1), KindFloat: Float(1),
	KindString: String("a"), KindBytes: BytesOf("a"), KindTime: UnixTime(0, 0),
	KindUUID: UUID([16]byte{}), KindDecimal: Scaled(15, 1), KindIP: {kind: KindIP, family: 4},
	KindIPPrefix: {kind: KindIPPrefix, family: 4}, KindList: List(nil),
}

// checkShard asks the shard function itself whether it takes values of the kind.
func checkShard(e Func, args []typed) error {
	spec, value := shard.Spec{Function: shard.Tidb, Count: shard.TidbCount}, args[0]
	if e.Name == "shard" {
		value = args[1]
		if err := wantKinds(e, args[:1], "a shard function", KindString); err != nil {
			return err
		}
		text, ok := e.Args[0].(Const)
		if !ok || text.IsNull() {
			return nil
		}
		var err error
		if spec, err = shard.ParseSpec(text.s); err != nil {
			return mistyped(e, "%v", err)
		}
	}
	sample, ok := samples[value.Kind]
	if !ok {
		return nil
	}
	if _, err := Bucket(spec, sample); err != nil {
		return mistyped(e, "%s is %s, which has no bucket", value, value.Kind.Phrase())
	}
	return nil
}
