// Package sqlctowns is the code that sqlc generates of schema.sql and query.sql, for a test.
// "sqlc generate" in this folder writes it again.
package sqlctowns
