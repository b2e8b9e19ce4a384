package syntax

import "strings"

// Complete reports whether a text ends with a semicolon that is not inside quotes or a
// comment: the statement that is being typed is done.
func Complete(text string) bool {
	l := lexer{text: text}
	done := false
	for {
		before := l.pos
		tok, err := l.next()
		if err != nil {
			// Text after an open quote or comment is taken to the end; other faults are for
			// the parser to report.
			if l.pos <= before || l.pos == len(text) {
				return done && l.pos == len(text) && before == len(text)
			}
			done = false
			continue
		}
		if tok.kind == tokenEnd {
			return done
		}
		done = tok.kind == tokenOperator && tok.text == ";"
	}
}

// Keywords returns the words of the language, in upper case and sorted, for completion.
func Keywords() []string { return append([]string(nil), keywords...) }

var keywords = strings.Fields(`ADD ALL ALTER ANALYZE AND AS ASC AVG BEGIN BEGINS BETWEEN
	BY CASE CAST COALESCE COLUMN COMMIT CONTAINS COUNT CREATE CROSS CURRENT_DATE
	CURRENT_TIMESTAMP DEFAULT DELETE DESC DESCRIBE DISTINCT DROP EACH ELSE END ESCAPE EXISTS
	EXPLAIN EXTRACT FALSE FROM FULL GROUP HAVING IF IGNORE ILIKE IN INCLUDE INDEX INDEXED INNER
	INSERT INTERVAL INTO IS JOIN KEY LEFT LIKE LIMIT LOCAL MAX MIN NATURAL NOT NULL NULLS OF OFFSET
	ON ONLY OR ORDER OUTER PARTITION PRIMARY READ RELEASE RENAME REPLACE RETURNING RIGHT
	ROLLBACK SAVEPOINT SELECT SET SHARD SHOW SORT SUM TABLE THEN TIMESTAMP TO TRANSACTION TRUE
	TTL UNIQUE UPDATE USING VALUES VIEW WHEN WHERE WITH ZONES`)
