// Package vfstest has file systems for tests: CrashFS knows what a power cut would leave
// (PowerCut), NewFault asks a hook before every operation, and FailPlan is such a hook. ReadFile
// and WriteFile are those of package os for any file system.
package vfstest
