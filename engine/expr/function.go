package expr

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// function is a function that expressions may call. Without all set, it is not called
// with NULLs: a NULL among the arguments gives NULL.
type function struct {
	min, max int // number of arguments; max -1: any
	all      bool
	call     func(args []Value) (Value, error)
}

var functions = map[string]function{
	"lower":    {1, 1, false, ofText(strings.ToLower)},
	"upper":    {1, 1, false, ofText(strings.ToUpper)},
	"trim":     {1, 1, false, ofText(func(s string) string { return strings.Trim(s, " ") })},
	"length":   {1, 1, false, callLength},
	"abs":      {1, 1, false, callAbs},
	"coalesce": {1, -1, true, callCoalesce},
	"nullif":   {2, 2, true, callNullif},
	"substr":   {2, 3, false, callSubstr},
	"concat":   {1, -1, false, callConcat},
	// The bucket of a value under a shard function, and that of tidb:256.
	"shard":      {2, 2, false, callShard},
	"tidb_shard": {1, 1, false, callTidbShard},
}

// Functions returns the names of the functions that expressions may call, sorted: lower,
// upper, trim, length (characters of a text, bytes, elements of a list), abs, coalesce,
// nullif, substr(text, from, count), concat, shard('mix64:16', x) and tidb_shard(x).
func Functions() []string {
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CheckFunc reports whether a call has a known name and a possible number of arguments.
func CheckFunc(name string, args int) error {
	f, ok := functions[name]
	switch {
	case !ok:
		return fmt.Errorf("expr: there is no function %q", name)
	case args < f.min || (f.max >= 0 && args > f.max):
		return fmt.Errorf("expr: %s with %d arguments", name, args)
	}
	return nil
}

func compileFunc(e Func) (valueFn, error) {
	if err := CheckFunc(e.Name, len(e.Args)); err != nil {
		return nil, err
	}
	f := functions[e.Name]
	args := make([]valueFn, len(e.Args))
	for i, arg := range e.Args {
		var err error
		if args[i], err = compileValue(arg); err != nil {
			return nil, err
		}
	}
	return func(m env) (Value, error) {
		values := make([]Value, len(args))
		for i, arg := range args {
			v, err := arg(m)
			if err != nil || (v.kind == KindNull && !f.all) {
				return Value{}, err
			}
			values[i] = v
		}
		v, err := f.call(values)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w", e.Name, err)
		}
		return v, nil
	}, nil
}

func notOf(v Value, want string) error {
	return fmt.Errorf("%w: %s instead of %s", ErrType, v, want)
}

func ofText(f func(string) string) func([]Value) (Value, error) {
	return func(args []Value) (Value, error) {
		if args[0].kind != KindString {
			return Value{}, notOf(args[0], "a text")
		}
		return String(f(args[0].s)), nil
	}
}

func callLength(args []Value) (Value, error) {
	switch v := args[0]; v.kind {
	case KindString:
		return Int(int64(utf8.RuneCountInString(v.s))), nil
	case KindBytes, KindList:
		return Int(int64(v.Len())), nil
	}
	return Value{}, notOf(args[0], "a text, bytes or a list")
}

func callAbs(args []Value) (Value, error) {
	v := args[0]
	if !v.kind.Numeric() {
		return Value{}, notOf(v, "a number")
	}
	if c, _ := Compare(v, Int(0)); c < 0 {
		return negate(v)
	}
	return v, nil
}

func callCoalesce(args []Value) (Value, error) {
	for _, v := range args {
		if v.kind != KindNull {
			return v, nil
		}
	}
	return Value{}, nil
}

func callNullif(args []Value) (Value, error) {
	if c, ok := Compare(args[0], args[1]); ok && c == 0 {
		return Value{}, nil
	}
	return args[0], nil
}

func callConcat(args []Value) (Value, error) {
	var b strings.Builder
	for _, v := range args {
		if v.kind != KindString {
			return Value{}, notOf(v, "a text")
		}
		b.WriteString(v.s)
	}
	return String(b.String()), nil
}

// callSubstr returns the characters from the given one on, which is counted from 1, or
// from the end if negative.
func callSubstr(args []Value) (Value, error) {
	from, ok := args[1].AsInt()
	count := int64(len(args[0].s))
	if len(args) == 3 && ok {
		count, ok = args[2].AsInt()
	}
	switch {
	case args[0].kind != KindString:
		return Value{}, notOf(args[0], "a text")
	case !ok:
		return Value{}, notOf(args[len(args)-1], "an integer")
	case count <= 0:
		return String(""), nil
	}
	runes := []rune(args[0].s)
	n := int64(len(runes))
	switch {
	case from > 0:
		from--
	case from < 0:
		from += n
	}
	if from < 0 { // what lies before the first character counts
		count, from = count+from, 0
	}
	if count <= 0 || from >= n {
		return String(""), nil
	}
	return String(string(runes[from:min(from+min(count, n), n)])), nil
}

func callShard(args []Value) (Value, error) {
	if args[0].kind != KindString {
		return Value{}, notOf(args[0], "a shard function")
	}
	spec, err := shard.ParseSpec(args[0].s)
	if err != nil {
		return Value{}, err
	}
	return Bucket(spec, args[1])
}

func callTidbShard(args []Value) (Value, error) {
	return Bucket(shard.Spec{Function: shard.Tidb, Count: shard.TidbCount}, args[0])
}

// Bucket returns the bucket of one value, an Int: of integers that of their 64 bits, of
// others that of the bytes of their ordered encoding. Times and addresses have none.
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
