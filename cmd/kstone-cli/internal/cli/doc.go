// Package cli is what the commands of kstone-cli share: the run of the program with its database,
// its tables and its output, flags that several commands have, exit codes, and the advice that
// goes with errors.
package cli
