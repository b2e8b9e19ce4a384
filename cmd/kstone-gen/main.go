// Command kstone-gen writes the variables of a table and of its columns, which package
// engine/table/typed works with, for structs of a Go file:
//
//	//go:generate go run github.com/kstonedb/kstone/cmd/kstone-gen
//
//	//kstone:table cities
//	type City struct {
//		Country string `kstone:"country,pk"`
//		Name    string `kstone:"city,sk"`
//	}
//
// In the file city.go this makes city_kstone.go, with the variables Cities, CityCountry and
// CityName. After the name of the table, var=X names its variable and prefix=X what the names
// of the columns begin with; prefix= is nothing. Files are those of the arguments, or the one
// that go generate names. With -check nothing is written: the command fails if a file is not
// what it would write.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Getenv("GOFILE"), os.Stderr)) }

// run is the command: goFile is used without arguments. It returns the exit code.
func run(args []string, goFile string, stderr io.Writer) int {
	flags := flag.NewFlagSet("kstone-gen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	check := flags.Bool("check", false, "fail if a file is out of date, and write none")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	files := flags.Args()
	if len(files) == 0 && goFile != "" {
		files = []string{goFile}
	}
	if len(files) == 0 {
		fmt.Fprintln(stderr, "kstone-gen: no file: name one, or run it by go generate")
		return 2
	}
	code := 0
	for _, name := range files {
		if err := generateFile(name, *check); err != nil {
			fmt.Fprintln(stderr, err)
			code = 1
		}
	}
	return code
}

// generateFile writes or checks what is generated of a file.
func generateFile(name string, check bool) error {
	source, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	want, err := generate(name, source)
	if err != nil {
		return err
	}
	out := outputName(name)
	if !check {
		return os.WriteFile(out, want, 0o666)
	}
	if have, err := os.ReadFile(out); err != nil || !bytes.Equal(have, want) {
		return fmt.Errorf("%s:%d: %s is out of date: run go generate", name, firstTable(source),
			filepath.Base(out))
	}
	return nil
}

// firstTable returns the line of the first directive.
func firstTable(source []byte) int {
	before, _, _ := bytes.Cut(source, []byte("\n"+directive))
	return bytes.Count(before, []byte("\n")) + 2
}

// outputName returns city_kstone.go for city.go, and city_kstone_test.go for city_test.go.
func outputName(name string) string {
	base, test := strings.CutSuffix(strings.TrimSuffix(name, ".go"), "_test")
	if test {
		return base + "_kstone_test.go"
	}
	return base + "_kstone.go"
}
