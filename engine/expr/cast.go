package expr

import (
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kstonedb/kstone/keycodec"
)

// CastType is the type that CAST converts to. NULL stays NULL, and a value of the kind stays
// as it is, within the limits below. The pairs of kinds are
//
//	to text      everything but lists; bytes if they are UTF-8
//	to a number  numbers; bools as 1 and 0; texts that are a number, blanks around it left out
//	to a bool    numbers that are not 0; texts: true, t, 1, false, f, 0
//	to bytes     texts
//	to a time, UUID, address or prefix: texts
//
// Integers cut off what follows the point, decimals of some places round half away from zero.
type CastType struct {
	Kind Kind
	// Bits of an integer, 8 to 64, or float, 32 or 64.
	Bits int
	// Places are those after the point: of a decimal, -1 for any number, and of the seconds of
	// a time, 0, 3, 6 or 9, or PlacesOfDate.
	Places int
}

// PlacesOfDate is for a time that is cut off to its day.
const PlacesOfDate = -5

// castNames are the types of CAST that have a name of their own.
var castNames = []struct {
	name string
	to   CastType
}{
	{"BOOL", CastType{Kind: KindBool}}, {"TEXT", CastType{Kind: KindString}},
	{"BYTES", CastType{Kind: KindBytes}}, {"UUID", CastType{Kind: KindUUID}},
	{"IP", CastType{Kind: KindIP}}, {"IPPREFIX", CastType{Kind: KindIPPrefix}},
	{"INT", CastType{Kind: KindInt, Bits: 64}}, {"INT32", CastType{Kind: KindInt, Bits: 32}},
	{"INT16", CastType{Kind: KindInt, Bits: 16}}, {"INT8", CastType{Kind: KindInt, Bits: 8}},
	{"UINT64", CastType{Kind: KindUint, Bits: 64}},
	{"UINT32", CastType{Kind: KindUint, Bits: 32}},
	{"UINT16", CastType{Kind: KindUint, Bits: 16}},
	{"UINT8", CastType{Kind: KindUint, Bits: 8}},
	{"FLOAT", CastType{Kind: KindFloat, Bits: 64}},
	{"FLOAT32", CastType{Kind: KindFloat, Bits: 32}},
	{"TIMESTAMP(s)", CastType{Kind: KindTime}}, {"TIMESTAMP(ms)", CastType{KindTime, 0, 3}},
	{"TIMESTAMP(us)", CastType{KindTime, 0, 6}}, {"TIMESTAMP(ns)", CastType{KindTime, 0, 9}},
	{"DATE", CastType{KindTime, 0, PlacesOfDate}},
	{"DECIMAL", CastType{Kind: KindDecimal, Places: -1}},
}

// Format: the type of a stored CAST is its name, DECIMAL(18, s) for s places.

// String returns the type in the words of CREATE TABLE.
func (t CastType) String() string {
	for _, n := range castNames {
		if n.to == t {
			return n.name
		}
	}
	return fmt.Sprintf("DECIMAL(%d, %d)", keycodec.MaxScale, t.Places)
}

// ParseCastType reads what String returns.
func ParseCastType(name string) (CastType, error) {
	for _, n := range castNames {
		if n.name == name {
			return n.to, nil
		}
	}
	for places := range keycodec.MaxScale + 1 {
		if t := (CastType{Kind: KindDecimal, Places: places}); t.String() == name {
			return t, nil
		}
	}
	return CastType{}, fmt.Errorf("expr: there is no type %q", name)
}

// castSources are the kinds that are converted to a kind, beside itself; KindInt stands for all
// numbers.
var castSources = map[Kind][]Kind{
	KindString: {KindBool, KindInt, KindBytes, KindTime, KindUUID, KindIP, KindIPPrefix},
	KindInt:    {KindBool, KindString},
	KindBool:   {KindInt, KindString},
	KindBytes:  {KindString}, KindTime: {KindString}, KindUUID: {KindString},
	KindIP: {KindString}, KindIPPrefix: {KindString},
}

// takes reports whether values of a kind are converted.
func (t CastType) takes(k Kind) bool {
	return mayCompare(t.Kind, k) || slices.Contains(castSources[t.Kind.class()], k.class())
}

func typeOfCast(e Cast, arg typed) (Type, error) {
	if !e.To.takes(arg.Kind) {
		return Type{}, mistyped(e, "%s is %s, which is never %s", arg, arg.Kind.Phrase(), e.To)
	}
	return Type{Kind: e.To.Kind}, nil
}

func compileCast(e Cast) (valueFn, error) {
	value, err := compileValue(e.X)
	if err != nil {
		return nil, err
	}
	return func(m env) (Value, error) {
		v, err := value(m)
		if err != nil {
			return Value{}, err
		}
		v, err = e.To.Convert(v)
		return v, placed(e.Pos, err)
	}, nil
}

// Convert returns a value as CAST does. It fails with ErrType for kinds that are not converted,
// and for values that the type cannot hold.
func (t CastType) Convert(v Value) (Value, error) {
	var out Value
	ok := true
	switch {
	case v.kind == KindNull:
		return v, nil
	case !t.takes(v.kind):
		return Value{}, fmt.Errorf("%w: %s cannot be converted to %s", ErrType, v, t)
	case t.Kind == KindString:
		out, ok = textOf(v)
	case t.Kind == KindBool:
		out, ok = boolOf(v)
	case t.Kind.Numeric():
		out, ok = t.number(v)
	case t.Kind == KindTime:
		out, ok = t.time(v)
	case v.kind == t.Kind:
		return v, nil
	default:
		out, ok = parseAs(t.Kind, v.s)
	}
	if !ok {
		return Value{}, fmt.Errorf("expr: %s is no %s", v, t)
	}
	return out, nil
}

// textOf returns the text of any value but a list: without quotes, true and false for bools.
func textOf(v Value) (Value, bool) {
	switch v.kind {
	case KindString:
		return v, true
	case KindBytes:
		return String(v.s), utf8.ValidString(v.s)
	case KindTime:
		return String(timeText(v)), true
	case KindFloat:
		return String(strconv.FormatFloat(floatOf(v), 'g', -1, 64)), true
	case KindList:
		return Value{}, false
	}
	return String(fmt.Sprint(v.Any())), true
}

func boolOf(v Value) (Value, bool) {
	switch v.kind {
	case KindBool:
		return v, true
	case KindString:
		switch strings.ToLower(strings.TrimSpace(v.s)) {
		case "true", "t", "1":
			return Bool(true), true
		case "false", "f", "0":
			return Bool(false), true
		}
		return Value{}, false
	}
	c, _ := Compare(v, Int(0))
	return Bool(c != 0), true
}

// ParseNumber reads a number: an integer, a decimal if it has a point or too many digits, a
// float if it has an exponent.
func ParseNumber(text string) (Value, error) {
	if strings.ContainsAny(text, "_xX") { // as in Go's literals
		return Value{}, fmt.Errorf("expr: %q is not a number", text)
	}
	if strings.ContainsAny(text, "eEnN") { // also inf and nan
		f, err := strconv.ParseFloat(text, 64)
		return Float(f), err
	}
	if strings.IndexByte(text, '.') < 0 {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Int(i), nil
		}
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return Uint(u), nil
		}
	}
	d, err := keycodec.ParseDecimal(text)
	return Decimal(d), err
}

// ParseExact is ParseNumber that takes a number with an exponent for a decimal.
func ParseExact(text string) (Value, error) {
	if !strings.ContainsAny(text, "eE") {
		return ParseNumber(text)
	}
	d, err := keycodec.ParseDecimal(text)
	return Decimal(d), err
}

// number converts to a type of numbers.
func (t CastType) number(v Value) (Value, bool) {
	switch v.kind {
	case KindBool:
		v = Int(int64(v.n))
	case KindString:
		parse := ParseExact
		if t.Kind == KindFloat {
			parse = ParseNumber
		}
		var err error
		if v, err = parse(strings.TrimSpace(v.s)); err != nil {
			return Value{}, false
		}
	}
	switch t.Kind {
	case KindFloat:
		f, _ := v.AsFloat()
		if t.Bits == 32 {
			f = float64(float32(f))
		}
		return Float(f), !math.IsInf(f, 0) || v == Float(f)
	case KindDecimal:
		out, ok := roundTo(v, t.Places)
		if ok && t.Places >= 0 {
			_, ok = out.AsScaled(int32(t.Places))
		}
		return out, ok
	}
	v, ok := truncated(v)
	if t.Kind == KindUint {
		u, fits := v.AsUint()
		return Uint(u), ok && fits && u <= math.MaxUint64>>(64-t.Bits)
	}
	i, fits := v.AsInt()
	most := int64(math.MaxInt64) >> (64 - t.Bits)
	return Int(i), ok && fits && i <= most && i >= -most-1
}

// truncated cuts off what follows the point.
func truncated(v Value) (Value, bool) {
	switch v.kind {
	case KindFloat:
		return Float(math.Trunc(floatOf(v))), true
	case KindDecimal:
		x, scale, ok := bigOf(v)
		if !ok {
			return v, false
		}
		out, err := fromBig(x.Quo(x, tenTo(scale)), 0)
		return integral(out), err == nil
	}
	return v, true
}

func tenTo(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// roundTo returns a number as a decimal of at most some places, rounded half away from zero, or
// for -1 of as many as it takes. A float is taken by its shortest decimal text: 0.1 is 0.1.
func roundTo(v Value, places int) (Value, bool) {
	if v.kind == KindFloat {
		d, err := keycodec.ParseDecimal(strconv.FormatFloat(floatOf(v), 'f', -1, 64))
		if err != nil {
			return Value{}, false
		}
		v = Decimal(d)
	}
	if places < 0 {
		d, _ := v.AsDecimal()
		return Decimal(d), true
	}
	return rounded(v, places)
}

// rounded rounds an integer or decimal to some places, negative ones being before the point,
// half away from zero. The result is a decimal.
func rounded(v Value, places int) (Value, bool) { return toPlaces(v, places, true) }

// cut is rounded that cuts off the other places.
func cut(v Value, places int) (Value, bool) { return toPlaces(v, places, false) }

func toPlaces(v Value, places int, round bool) (Value, bool) {
	x, scale, ok := bigOf(v)
	drop := scale - places
	switch {
	case !ok || drop > 2*maxArithDigits:
		return Value{}, false
	case drop <= 0:
		d, ok := v.AsDecimal()
		return Decimal(d), ok
	}
	step := tenTo(drop)
	if half := new(big.Int).Quo(step, big.NewInt(2)); round && x.Sign() < 0 {
		x.Sub(x, half)
	} else if round {
		x.Add(x, half)
	}
	x.Quo(x, step)
	if places < 0 {
		x, places = x.Mul(x, tenTo(-places)), 0
	}
	out, err := fromBig(x, places)
	return out, err == nil
}

// time converts to a time with some places of its seconds, cut off towards the past.
func (t CastType) time(v Value) (Value, bool) {
	if v.kind == KindString {
		var ok bool
		if v, ok = parseAs(KindTime, v.s); !ok {
			return Value{}, false
		}
	}
	if t.Places == PlacesOfDate {
		const day = 24 * 60 * 60
		s := int64(v.n)
		cut := s % day
		if cut < 0 {
			cut += day
		}
		return UnixTime(s-cut, 0), s >= minTextSecond && s <= maxTextSecond
	}
	step := uint32(pow10[9-t.Places])
	nanos := uint32(v.m)
	return UnixTime(int64(v.n), nanos-nanos%step), true
}

// timeLayouts are the texts that are times, beside RFC 3339.
var timeLayouts = [...]string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04",
	"2006-01-02 15:04", "2006-01-02"}

// parseAs reads the text of bytes, a time, UUID, address or prefix.
func parseAs(kind Kind, s string) (Value, bool) {
	switch kind {
	case KindBytes:
		return BytesOf(s), true
	case KindTime:
		for _, layout := range timeLayouts {
			if t, err := time.Parse(layout, s); err == nil {
				return Time(t), true
			}
		}
		if v, err := parseTimeText(s); err == nil { // a year that has no four digits
			return v, true
		}
	case KindUUID:
		u, err := keycodec.ParseUUID(s)
		return UUID(u), err == nil
	case KindIP:
		a, err := netip.ParseAddr(s)
		return IP(a), err == nil && a.Zone() == ""
	case KindIPPrefix:
		p, err := netip.ParsePrefix(s)
		return Prefix(p), err == nil && p == p.Masked()
	}
	return Value{}, false
}
