// Package statistics reads tables and returns what the planner wants to know of them: all
// rows and entries, or a sample of the rows. It knows a definition and a store, and no DB.
package statistics
