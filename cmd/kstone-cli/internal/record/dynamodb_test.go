package record_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/internal/testutil"
)

// plainOf reads one line of DynamoDB's export format.
func plainOf(line string, lists bool) (string, error) {
	var row record.Row
	if err := record.NewDynamoDB(strings.NewReader(line), lists).Next(&row); err != nil {
		return "", err
	}
	out := []byte{'{'}
	for i, f := range row.Fields {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(record.AppendString(out, f.Name), ':'), f.JSON...)
	}
	return string(append(out, '}')), nil
}

func exported(plain string) string {
	return string(append(record.AppendDynamoItem([]byte(`{"Item":`), []byte(plain)), '}'))
}

// Each type of DynamoDB has a plain form, from which the same text is made again.
//
// Promise (manners): DynamoDB's export format is read and written without a loss: every type, every
// digit of a number, the order of attributes and elements.
func TestDynamoDBTypes(t *testing.T) {
	digits := "12345678901234567890123456789012345678"
	for _, c := range []struct{ typed, plain string }{
		{`{"S":"a\"ü"}`, `"a\"ü"`},
		{`{"S":""}`, `""`},
		{`{"N":"1.50"}`, `1.50`},
		{`{"N":"-` + digits + `"}`, `-` + digits},
		{`{"N":"1E+125"}`, `1E+125`},
		{`{"N":"+1"}`, `{"$n":"+1"}`},
		{`{"N":"007"}`, `{"$n":"007"}`},
		{`{"N":".5"}`, `{"$n":".5"}`},
		{`{"B":"AP8="}`, `{"$b64":"AP8="}`},
		{`{"B":""}`, `{"$b64":""}`},
		{`{"B":"YWJj"}`, `{"$b64":"YWJj"}`}, // text as bytes stays bytes
		{`{"BOOL":false}`, `false`},
		{`{"NULL":true}`, `null`},
		{`{"L":[{"N":"1"},{"L":[]},{"S":"x"}]}`, `[1,[],"x"]`},
		{`{"M":{"b":{"N":"1"},"a":{"M":{}}}}`, `{"b":1,"a":{}}`},
		{`{"SS":["y","x"]}`, `{"$ss":["y","x"]}`},
		{`{"NS":["1.0","007","1E3"]}`, `{"$ns":["1.0","007","1E3"]}`},
		{`{"BS":["AP8=",""]}`, `{"$bs":["AP8=",""]}`},
		{`{"M":{"$b64":{"S":"AP8="}}}`, `{"$m":{"$b64":"AP8="}}`},
		{`{"M":{"$b64":{"S":"no"}}}`, `{"$b64":"no"}`},
		{`{"M":{"$ss":{"L":[{"S":"a"}]}}}`, `{"$m":{"$ss":["a"]}}`},
		{`{"M":{"$m":{"M":{"$n":{"S":"007"}}}}}`, `{"$m":{"$m":{"$m":{"$n":"007"}}}}`},
		{`{"M":{"$m":{"M":{"x":{"N":"1"}}}}}`, `{"$m":{"x":1}}`},
		{`{"M":{"$ns":{"SS":["a"]}}}`, `{"$ns":{"$ss":["a"]}}`},
	} {
		line := `{"Item":{"v":` + c.typed + `}}`
		plain, err := plainOf(line, false)
		if err != nil || plain != `{"v":`+c.plain+`}` {
			t.Errorf("%s: %s, %v, want %s", c.typed, plain, err, c.plain)
		} else if again := exported(plain); again != line {
			t.Errorf("%s becomes %s, and then %s", c.typed, plain, again)
		}
	}
	plain, err := plainOf(`{"Item":{"s":{"SS":["a"]},"n":{"NS":["1","007"]},"b":{"BS":["AA=="]}}}`,
		true)
	if plain != `{"s":["a"],"n":[1,{"$n":"007"}],"b":[{"$b64":"AA=="}]}` || err != nil {
		t.Errorf("sets as lists: %s, %v", plain, err)
	}
}

func TestDynamoDBErrors(t *testing.T) {
	attributes := func(text string) string { return `{"Item":{` + text + `}}` }
	for _, c := range [][2]string{
		{attributes(`"a":1`), `column 14: '1' where a typed value such as {"S":"text"}`},
		{attributes(`"a":{"X":1}`), `"X" is not a type; types are S, N`},
		{attributes(`"a":{}`), `a value without a type`},
		{attributes(`"a":{"S":"x","N":"1"}`), `a value has one type`},
		{attributes(`"a":{"N":1}`), `'1' where a number in "quotes" is expected`},
		{attributes(`"a":{"N":"one"}`), `"one" is not a number`},
		{attributes(`"a":{"N":"NaN"}`), `"NaN" is not a number`},
		{attributes(`"a":{"B":"AP8"}`), `not standard base64`},
		{attributes(`"a":{"NULL":false}`), `false is not a value of NULL`},
		{attributes(`"a":{"BOOL":null}`), `null is not a value of BOOL`},
		{attributes(`"a":{"SS":[1]}`), `'1' where a string`},
		{attributes(`"a":{"S":"x"},"a":{"S":"y"}`), `the field "a" appears twice`},
		{attributes(`"a":{"M":{"b":{"S":"x"},"b":{"S":"y"}}}`), `the field "b" appears twice`},
		{attributes(`"a":{"S":"x"`), `the line ends where a comma or }`},
		{`{"Item":{"a":{"S":"x"}},"b":1}`, `the member "b": want {"Item":{…}}`},
		{`{"Keys":{"a":{"S":"x"}}}`, `want {"Item":{…}}, a line of a full export`},
		{`{}`, `want {"Item":{…}}`},
		{`{"Item":` + strings.Repeat(`{"a":{"M":`, 300), `nested more than 200 deep`},
	} {
		line, want := c[0], c[1]
		_, err := plainOf(line, false)
		var rejected *record.Reject
		if !errors.As(err, &rejected) || !strings.Contains(rejected.Reason, want) {
			t.Errorf("%.60s: %v, want %s", line, err, want)
		}
	}
	if _, err := plainOf("\n\n", false); err != io.EOF {
		t.Errorf("no lines: %v", err)
	}
}

// anyJSON draws canonical JSON, often of the forms that stand for other types.
func anyJSON() *rapid.Generator[string] {
	names := rapid.SampledFrom([]string{"$b64", "$n", "$ss", "$ns", "$bs", "$m", "a", ""})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		leaf := rapid.SampledFrom([]string{`"AP8="`, `"007"`, `"1"`, `"x"`, `""`, "1.0", "-0",
			"1e5", "null", "true", "[]", "{}", `["1","AA=="]`, `["007"]`})
		if depth == 0 {
			return leaf
		}
		list := rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(v []string) string {
			return "[" + strings.Join(v, ",") + "]"
		})
		object := rapid.Custom(func(t *rapid.T) string {
			members := rapid.SliceOfNDistinct(names, 0, 2, rapid.ID).Draw(t, "names")
			for i, name := range members {
				members[i] = `"` + name + `":` + value(depth-1).Draw(t, name)
			}
			return "{" + strings.Join(members, ",") + "}"
		})
		return rapid.OneOf(leaf, list, object, object)
	}
	return value(3)
}

// Whatever a plain value is, it is the same after an export and an import.
func TestDynamoDBKeepsPlainValues(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		plain := `{"v":` + anyJSON().Draw(t, "value") + `}`
		typed := exported(plain)
		if again, err := plainOf(typed, false); err != nil || again != plain {
			t.Fatalf("%s is exported as %s, and read as %s, %v", plain, typed, again, err)
		}
	})
}

// What is read is canonical, and is written as it was, apart from spaces and escapes.
func FuzzDynamoDB(f *testing.F) {
	f.Add([]byte(`{"Item":{"a":{"N":"007"},"b":{"M":{"$n":{"S":"007"}}},"c":{"NS":["1"]}}}`))
	f.Add([]byte(`{"Item":{"a":{"B":"AP8="},"b":{"L":[{"NULL":true},{"BOOL":false}]}}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		defer testutil.Watch(line)()
		if bytes.ContainsAny(line, "\n\r") {
			return
		}
		_, _ = plainOf(string(line), true)
		plain, err := plainOf(string(line), false)
		if err != nil {
			return
		}
		canonical, err := record.AppendCanonical(nil, []byte(plain))
		if err != nil || string(canonical) != plain {
			t.Fatalf("%q is read as %s, which is not canonical: %v", line, plain, err)
		}
		typed := exported(plain)
		if want, err := record.AppendCanonical(nil, line); err != nil || string(want) != typed {
			t.Fatalf("%q is written as %s: %v", line, typed, err)
		}
	})
}
