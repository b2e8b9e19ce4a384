package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker in a release: -X …/internal/cli.version=v1.2.3.
var version string

// formatVersions are the versions of the file formats that this program writes.
const formatVersions = "log 1, data file 1 or 2, value file 1, manifest 1 or 2, cursor 1, segment 1"

// Version describes the program: its version and commit, how it was built, and the formats.
func Version() string { return Build() + "\nfile formats: " + formatVersions + "\n" }

// Build is the first line of Version.
func Build() string {
	v, commit, changed := version, "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value[:min(len(s.Value), 12)]
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = " with changes"
			}
		}
	}
	if v == "" || v == "(devel)" {
		v = "development"
	}
	return fmt.Sprintf("%s %s (commit %s%s, %s, %s/%s)", Program, v, commit, changed,
		runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
