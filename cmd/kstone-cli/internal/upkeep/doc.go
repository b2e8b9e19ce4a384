// Package upkeep has the commands that look into a database, maintain it and rescue it.
package upkeep
