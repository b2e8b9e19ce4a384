package sql

import (
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
)

// absentFunctions are functions of other languages, and what to write instead.
var absentFunctions = map[string]string{
	"version":           "version(); kstone-cli --version shows it",
	"random":            "random numbers in queries",
	"rand":              "random numbers in queries",
	"database":          "database(); each database is a directory",
	"last_insert_rowid": "last_insert_rowid(); write INSERT … RETURNING",
	"last_insert_id":    "last_insert_id(); write INSERT … RETURNING",
	"printf":            "printf; write concat or lpad",
	"format":            "format; write concat or lpad",
	"date_format":       "date_format; write strftime(format, time)",
	"to_char":           "to_char; write strftime(format, time) or CAST(x AS TEXT)",
	"to_date":           "to_date; write CAST(x AS DATE)",
	"date":              "date(); write CAST(x AS DATE)",
	"datediff":          "datediff; subtract extract(epoch FROM x), or dates",
	"timestampdiff":     "timestampdiff; subtract extract(epoch FROM x)",
	"julianday":         "julianday; write extract(epoch FROM x)",
	"curdate":           "curdate(); write current_date",
	"sysdate":           "sysdate(); write now()",
	"getdate":           "getdate(); write now()",
	"datetime":          "datetime(); write CAST(x AS TIMESTAMP)",
	"year":              extracted("year", "year"),
	"month":             extracted("month", "month"),
	"day":               extracted("day", "day"),
	"hour":              extracted("hour", "hour"),
	"minute":            extracted("minute", "minute"),
	"second":            extracted("second", "second"),
	"week":              extracted("week", "week"),
	"unix_timestamp":    extracted("unix_timestamp", "epoch"),
	"quarter":           extracted("quarter", "quarter"),
	"dayofweek":         extracted("dayofweek", "dow"),
	"weekday":           extracted("weekday", "isodow"),
	"to_timestamp":      "to_timestamp; write CAST(x AS TIMESTAMP)",
	"from_unixtime": "from_unixtime; write date_add(TIMESTAMP '1970-01-01T00:00:00Z', " +
		"x || ' seconds')",
	"age":             "age(); subtract dates, or extract(epoch FROM x)",
	"nvl":             "nvl; write coalesce",
	"isnull":          "isnull(); write x IS NULL, or coalesce",
	"len":             "len; write length",
	"charindex":       "charindex; write instr",
	"uuid":            "uuid() but in DEFAULT; the program makes others",
	"initcap":         inProgram("initcap"),
	"gen_random_uuid": "gen_random_uuid() but uuid() in DEFAULT",
	"ascii":           inProgram("ascii"),
	"chr":             inProgram("chr"),
	"char":            "char(); write '…' with the character",
	"sha1":            inProgram("sha1"),
	"sha256":          inProgram("sha256"),
	"soundex":         inProgram("soundex"),
	"to_json":         inProgram("to_json"),
	"variance":        "variance; compute it from sum(x * x), sum(x) and count(x)",
	"bool_and":        "bool_and; write min(CASE WHEN x THEN 1 ELSE 0 END) = 1",
	"every":           "every; write min(CASE WHEN x THEN 1 ELSE 0 END) = 1",
	"bool_or":         "bool_or; write max(CASE WHEN x THEN 1 ELSE 0 END) = 1",
	"ntile":           windows,
	"dense_rank":      windows,
	"first_value":     windows,
	"last_value":      windows,
	"array_agg":       "array_agg; write group_concat",
	"if":              "if(); write CASE WHEN … THEN … ELSE … END",
	"iif":             "iif(); write CASE WHEN … THEN … ELSE … END",
	"log":             "log; write ln or log10",
	"stddev":          "stddev; compute it from sum(x * x), sum(x) and count(x)",
	"median":          "median; write ORDER BY with LIMIT 1 OFFSET n",
	"md5":             "md5; compute it in the program",
	"typeof":          "typeof; a column has one type",
	"regexp_replace":  "regular expressions; write replace, or do it in the program",
	"split_part":      "split_part; write substr and instr",
	"row_number":      windows,
	"rank":            windows,
	"lag":             windows,
	"lead":            windows,
}

const windows = "window functions; number or compare rows in the program"

func extracted(name, field string) string {
	return name + "(); write extract(" + field + " FROM x)"
}

func inProgram(name string) string { return name + "; compute it in the program" }

// noFunction fails for a name that there is no function of.
func (sc *scope) noFunction(e *syntax.Call) {
	switch {
	case strings.HasPrefix(e.Name, "json"):
		sc.b.fail(e.Pos, "kstone has no JSON; keep a text, and take it apart in the program")
	case e.Name == "rollup" || e.Name == "cube":
		sc.b.fail(e.Pos, "kstone has no %s; write UNION ALL of a query for each grouping",
			strings.ToUpper(e.Name))
	}
	if other := absentFunctions[e.Name]; other != "" {
		sc.b.fail(e.Pos, "kstone has no %s", other)
	}
	names := append(expr.Functions(), "mod", "now")
	for name := range aggregateNames {
		names = append(names, name)
	}
	for name := range functionNames {
		names = append(names, name)
	}
	sc.b.fail(e.Pos, "there is no function %s%s", e.Name, hint(e.Name, names))
}
