//go:build wrong_sqlc

package compare

import "github.com/kstonedb/kstone/engine/table/typed/compare/testdata/sqlc/gen"

// A misspelt column and one of another table are errors of the generator where they are compared
// with a parameter: "WHERE usr_id = ?", "WHERE city = ?". It passes a join ON u.city = o.user_id.
func wrongSqlc(row gen.CitiesRow) {
	_ = gen.LatestParams{UserID: "1"} // error
	_ = cityRow{City: row.Cents}      // error
}
