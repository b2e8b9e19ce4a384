// Package command implements the commands of kstone-cli on items and tables, and the shell;
// root.go puts them together with those of packages bulk, keytool and upkeep. One file holds one
// command, or a few that belong together.
//
// The same commands serve the shell, where the database is open already and is not
// named as an argument.
package command
