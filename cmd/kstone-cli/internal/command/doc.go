// Package command implements the commands of kstone-cli. One file holds one command,
// or a few that belong together; app.go what they share, exit.go the exit codes and
// the advice that goes with errors.
//
// The same commands serve the shell, where the database is open already and is not
// named as an argument.
package command
