package sql_test

import (
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/keycodec"
)

// kind is what the values of a column are like.
type kind string

// stored are the values that columns of a kind are given: the ends of their ranges, numbers
// that floats cannot tell apart, texts that are equal under a collation or begin each other.
var stored = map[kind][]string{
	"int": {"0", "1", "-1", "2", "3", "9223372036854775807", "-9223372036854775808",
		"9007199254740993", "9007199254740992", "5", "7", "100"},
	"int8": {"0", "1", "-1", "127", "-128", "5", "7", "2", "3"},
	"uint": {"0", "1", "2", "18446744073709551615", "9223372036854775808",
		"9223372036854775807", "9007199254740993", "5", "7"},
	"float": {"0e0", "-0e0", "1e0", "-1e0", "2.5e0", "9.223372036854775807e18",
		"9007199254740992e0", "1e308", "-1e308", "5e-324", "FLOAT 'NaN'", "FLOAT 'Inf'",
		"FLOAT '-Inf'", "1e-1", "4.1e0", "-9.223372036854775808e18", "1.8446744073709552e19"},
	"float32": {"0e0", "1e0", "2.5e0", "1e-1", "4.1e0", "FLOAT 'NaN'", "FLOAT 'Inf'",
		"FLOAT '-Inf'", "-1e0", "16777217e0"},
	"decimal": {"0", "1", "-1", "2.5", "0.1", "0.10", "9223372036854775807",
		"9223372036854775808", "123456789012345678901234567890.5", "5", "7",
		"-123456789012345678901234567890.5", "-0.00000000000000000000001",
		"0.1000000000000000055511151231257827021181583404541015625"},
	"scaled": {"0", "1", "-1.25", "2.50", "0.1", "99999999.99", "5", "7"},
	"text": {"''", "'a'", "'A'", "'b'", "'ab'", "'aB'", "'B'", "'é'", "'É'", "'ß'", "'z%'",
		"'z_'", "'zz'", "'\U0010ffff'", "'\U0010ffffa'", "'a\x00'", "'a\x00b'", "'k'",
		"'a\xffé'", "'\u212a'", "'i'", "'\u0130'"},
	"bytes": {"X''", "X'00'", "X'ff'", "X'ffff'", "X'ff00'", "X'61'", "X'6162'", "X'fe'",
		"X'feff'", "X'00ff'"},
	"time": {"TIMESTAMP '2026-01-17T08:00:00Z'", "TIMESTAMP '2026-01-17T09:00:00+01:00'",
		"TIMESTAMP '1969-12-31T23:59:59.999Z'", "TIMESTAMP '1970-01-01T00:00:00Z'",
		"TIMESTAMP '2026-01-17T08:00:00.001Z'", "TIMESTAMP '1600-01-01T00:00:00Z'",
		"TIMESTAMP '2200-01-01T00:00:00.5Z'", "TIMESTAMP '9999-12-31T23:59:59Z'"},
	"bool": {"TRUE", "FALSE"},
	"id":   {"1", "2", "3", "5", "8", "13", "21"}, // seldom: see operandText
	"ip":   {"'1.2.3.4'", "'::1'", "'255.255.255.255'", "'::'", "'10.0.0.1'"},
	"tags": {"[]", "['a']", "['a', 'a', 'b']", "['b', 'A', '']", "['ab', 'a', 'b', 'z']",
		"['']", "['k', 'i']"},
	"numbers": {"[]", "[1]", "[1, 1, 2]", "[-1, 9223372036854775807]",
		"[-9223372036854775808, 0, 5]", "[2, 3, 5, 7]"},
}

// beside are further values that columns of a kind are compared with: of other kinds, beyond
// their ranges, between their values.
var beside = map[kind][]string{
	"int": {"2.5", "1e0", "2.5e0", "9.3e18", "9223372036854775808", "9007199254740993.0",
		"9007199254740992e0", "-9223372036854775809", "1e300", "FLOAT 'NaN'", "FLOAT 'Inf'",
		"FLOAT '-Inf'", "0.0", "18446744073709551616"},
	"int8": {"128", "-129", "1000", "2.5", "126.5e0", "FLOAT 'NaN'", "FLOAT 'Inf'", "-128.5",
		"FLOAT '-Inf'"},
	"uint": {"-1", "18446744073709551616", "1.8446744073709552e19", "0.5", "-0.5",
		"FLOAT 'NaN'", "FLOAT 'Inf'", "FLOAT '-Inf'", "-1e0"},
	"float": {"1", "2.5", "0.1", "9223372036854775807", "9223372036854775808",
		"9007199254740993", "18446744073709551615"},
	"float32": {"0.1", "4.1", "4.1e0", "1", "16777217", "16777216", "1e300", "-1e300"},
	"decimal": {"1e-1", "2.5e0", "FLOAT 'NaN'", "FLOAT 'Inf'", "FLOAT '-Inf'",
		"18446744073709551615", "1e300"},
	"scaled": {"0.105", "1e-1", "2.505", "FLOAT 'NaN'", "FLOAT 'Inf'", "1e30", "-1e30",
		"1000000000000000000000", "92233720368547758.07", "92233720368547758.08"},
	"text":  {"'aa'", "'AB'", "'Z'", "'éa'", "'K'", "'SS'", "'ss'"},
	"bytes": {"X'fffe'", "X'ffffff'", "X'6161'"},
	"time": {"TIMESTAMP '2026-01-17T08:00:00.0005Z'", "'2026-01-17T08:00:00.000999Z'",
		"TIMESTAMP '0001-01-01T00:00:00Z'", "TIMESTAMP '9999-01-01T00:00:00Z'",
		"TIMESTAMP '1969-12-31T23:59:59.9995Z'"},
	"ip": {"'1.2.3.5'", "'ffff::'"},
}

// field is a column of the tables.
type field struct {
	name     string
	kind     kind
	ddl      string
	null     bool
	collated bool
}

// element is the kind of a list's elements, empty of no list.
func (c field) element() kind {
	switch c.kind {
	case "tags":
		return "text"
	case "numbers":
		return "int"
	}
	return ""
}

// ddlType is the type of a column, as CAST takes it.
func (c field) ddlType() string {
	for _, word := range []string{" NULL", " COLLATE", " DEFAULT"} {
		c.ddl, _, _ = strings.Cut(c.ddl, word)
	}
	return c.ddl
}

// folded writes what texts that are equal under the collation of a column share.
func (c field) folded(text string) string {
	switch {
	case strings.Contains(c.ddl, "NOCASE"):
		return "casefold(" + text + ", 'ascii')"
	case strings.Contains(c.ddl, "UNICODE"):
		return "casefold(" + text + ")"
	}
	return text
}

// oddNames are names that columns have in some programs: they need their quotes wherever a text of
// the catalogue is read again.
var oddNames = map[string]string{"k1": `"not"`, "k9": `"true"`, "i": `"localtimestamp"`,
	"d": `"date"`, "s": `"current_date"`, "sn": `"Sn"`, "su": `"collate"`, "b": `"x"`,
	"yes": `"exists"`, "f": `"a""b"`, "ai": `"case"`, "asx": `"interval"`}

// renamed gives columns such names.
func renamed(rng *rand.Rand, columns []field) []field {
	columns = slices.Clone(columns)
	for i := range columns {
		if name, ok := oddNames[columns[i].name]; ok && rng.IntN(2) == 0 {
			columns[i].name = name
		}
	}
	return columns
}

// constants are expressions of DEFAULT, and their values.
var constants = strings.NewReplacer("(2 + 3)", "5", "('a' || 'b')", "'ab'", "(CAST('2.5' AS "+
	"DECIMAL))", "2.5", "(NOT FALSE)", "TRUE")

// alike reports whether two columns of these kinds may be compared.
func alike(a, b kind) bool {
	number := func(k kind) bool {
		switch k {
		case "int", "id", "int8", "uint", "float", "float32", "decimal", "scaled":
			return true
		}
		return false
	}
	return a == b || number(a) && number(b)
}

// keyColumns may be in the primary key beside id; all are NOT NULL.
var keyColumns = []field{
	{name: "k1", kind: "int8", ddl: "INT8"},
	{name: "k2", kind: "text", ddl: "TEXT COLLATE NOCASE", collated: true},
	{name: "k3", kind: "float", ddl: "FLOAT"},
	{name: "k4", kind: "decimal", ddl: "DECIMAL"},
	{name: "k5", kind: "bytes", ddl: "BYTES"},
	{name: "k6", kind: "time", ddl: "TIMESTAMP(ms)"},
	{name: "k7", kind: "text", ddl: "TEXT"},
	{name: "k8", kind: "uint", ddl: "UINT64"},
	{name: "k9", kind: "bool", ddl: "BOOL"},
	{name: "no", kind: "id", ddl: "INT"},
}

var otherColumns = []field{
	{name: "i", kind: "int", ddl: "INT NULL", null: true},
	{name: "i8", kind: "int8", ddl: "INT8 NULL", null: true},
	{name: "u", kind: "uint", ddl: "UINT64 NULL", null: true},
	{name: "f", kind: "float", ddl: "FLOAT NULL", null: true},
	{name: "f32", kind: "float32", ddl: "FLOAT32 NULL", null: true},
	{name: "d", kind: "decimal", ddl: "DECIMAL NULL", null: true},
	{name: "d2", kind: "scaled", ddl: "DECIMAL(10, 2) NULL", null: true},
	{name: "s", kind: "text", ddl: "TEXT NULL", null: true},
	{name: "sn", kind: "text", ddl: "TEXT NULL COLLATE NOCASE", null: true, collated: true},
	{name: "su", kind: "text", ddl: "TEXT NULL COLLATE UNICODE", null: true, collated: true},
	{name: "b", kind: "bytes", ddl: "BYTES NULL", null: true},
	{name: "at", kind: "time", ddl: "TIMESTAMP(s) NULL", null: true},
	{name: "yes", kind: "bool", ddl: "BOOL NULL DEFAULT (NOT FALSE)", null: true},
	{name: "ip", kind: "ip", ddl: "IP NULL", null: true},
	{name: "tags", kind: "tags", ddl: "TEXT[] NULL", null: true},
	{name: "nums", kind: "numbers", ddl: "INT[] NULL", null: true},
}

// addedColumns come by ALTER TABLE, so that rows were written without them.
var addedColumns = []field{
	{name: "ai", kind: "int", ddl: "INT DEFAULT (2 + 3)"},
	{name: "asx", kind: "text", ddl: "TEXT NULL DEFAULT ('a' || 'b')", null: true},
	{name: "af", kind: "float", ddl: "FLOAT NULL", null: true},
	{name: "ad", kind: "decimal", ddl: "DECIMAL NULL DEFAULT (CAST('2.5' AS DECIMAL))", null: true},
}

// argument returns a literal as a value of Go, to be given for a parameter; ok is false of
// lists, which stay in the text.
func argument(text string) (value any, ok bool) {
	word, quoted, _ := strings.Cut(strings.TrimSuffix(text, "'"), "'")
	var err error
	switch {
	case text == "NULL":
		return nil, true
	case text == "TRUE", text == "FALSE":
		return text == "TRUE", true
	case strings.HasPrefix(text, "["):
		return nil, false
	case strings.HasPrefix(text, "'"):
		return quoted, true
	case word == "X":
		value, err = hex.DecodeString(quoted)
	case word == "TIMESTAMP ":
		value, err = time.Parse(time.RFC3339Nano, quoted)
	case word == "FLOAT ":
		value, err = strconv.ParseFloat(quoted, 64)
	case strings.Contains(text, "e"):
		value, err = strconv.ParseFloat(text, 64)
	default:
		value, err = number(text)
	}
	return value, err == nil
}

func number(text string) (any, error) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, nil
	}
	if v, err := strconv.ParseUint(text, 10, 64); err == nil {
		return v, nil
	}
	return keycodec.ParseDecimal(text)
}

func oneOf[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }
