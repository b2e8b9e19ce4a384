package report

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The generated part of a page is between two comments.
const (
	pageBegin = "<!-- measurements: kstone-bench report -page replaces what follows -->"
	pageEnd   = "<!-- end of measurements -->"
)

// UpdatePage replaces the generated part of a page. A page that does not exist is made;
// one without the two comments is an error.
func UpdatePage(file string, generated []byte) error {
	old, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = []byte("# Measurements\n\n" + pageBegin + "\n" + pageEnd + "\n")
	case err != nil:
		return err
	}
	before, rest, ok1 := bytes.Cut(old, []byte(pageBegin))
	_, after, ok2 := bytes.Cut(rest, []byte(pageEnd))
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q", file, pageBegin, pageEnd)
	}
	text := bytes.Join([][]byte{
		before, []byte(pageBegin + "\n\n"), bytes.TrimSpace(generated),
		[]byte("\n\n" + pageEnd), after,
	}, nil)
	return os.WriteFile(file, text, 0o644)
}

// Links returns the path of the charts' folder as a page refers to it, with slashes.
func Links(page, charts string) (string, error) {
	if charts == "" {
		return "", nil
	}
	from, err := filepath.Abs(filepath.Dir(page))
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(charts)
	if err != nil {
		return "", err
	}
	link, err := filepath.Rel(from, to)
	return filepath.ToSlash(link), err
}
