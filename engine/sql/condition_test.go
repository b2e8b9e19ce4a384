package sql_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// TestCondition tests values that belong to no table.
//
// Promise (sql): A condition over named values has the meaning of WHERE, its names are those of
// the values, and what does not fit is refused with its place.
func TestCondition(t *testing.T) {
	at := schema.Column{Name: "at", Type: keycodec.TypeTime, Unit: keycodec.Second}
	values := map[string]expr.Value{"at": expr.UnixTime(1_700_000_000, 0), "n": expr.Int(7),
		"name": expr.String("Pisa"), "a.b": expr.Float(0.5), "tags": expr.List([]expr.Value{
			expr.String("x"), expr.String("y")})}
	for text, want := range map[string]string{
		"n > 5 AND name LIKE 'P%'": "true",
		"n > 7 OR a.b < 1":         "true",
		"N = 7":                    "false", // names have one case only; absent ones are NULL
		"N IS NULL":                "true",
		"n = 7 AND N IS NULL":      "true",
		"at >= '2023-11-14T00:00:00Z' AND at < '2023-11-15T00:00:00Z'": "true",
		"tags CONTAINS 'y'":        "true",
		"upper(name) IN ('PISA')":  "true",
		"name > 5":                 "type mismatch",
		"n / (n - 7) > 1":          "false",
		"n":                        "type",
		"n >":                      `column 4: expected a value`,
		"n > 5 name":               `column 7: expected the end of the expression`,
		"n > ?":                    "neither parameters nor the time",
		"at > now()":               "neither parameters nor the time",
		"n IN (SELECT 1)":          "cannot have subqueries",
		"count(*) > 1":             "cannot use COUNT",
		"at > 5":                   "time",
		"t.* > 5":                  "*",
		strings.Repeat("(", 1<<12): "nested",
	} {
		c, err := sql.ParseCondition(text, at)
		var got string
		if err == nil {
			var row []expr.Value
			for _, name := range c.Names() {
				row = append(row, values[name])
			}
			ok := false
			ok, err = c.Test(row)
			got = map[bool]string{true: "true", false: "false"}[ok]
		} else if e := new(sql.Error); !errors.As(err, &e) {
			t.Errorf("%.40s: error of type %T", text, err)
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%.40s: %s, want %s", text, got, want)
		}
	}
	c, err := sql.ParseCondition("b > 1 AND a.b = 2 AND b < 3", at)
	if want := []string{"at", "b", "a.b"}; err != nil || !slices.Equal(c.Names(), want) {
		t.Errorf("names %q, %v", c.Names(), err)
	}
}

// FuzzCondition checks that no text makes a condition panic.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{"a > 1", "a.b LIKE 'x' OR NOT c", "x IN (1, 'a')",
		"a CONTAINS b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer testutil.Watch(text)()
		c, err := sql.ParseCondition(text)
		if err == nil {
			_, _ = c.Test(make([]expr.Value, len(c.Names())))
		}
	})
}
