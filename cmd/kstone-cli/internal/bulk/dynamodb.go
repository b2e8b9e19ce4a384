package bulk

import (
	"bufio"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/internal/figure"
)

// An export of DynamoDB to S3 is a directory:
//
//	manifest-summary.json  one object: the format, the number of items
//	manifest-files.json    a line for each data file: its name, number of items, MD5
//	data/….json.gz         lines of items
const (
	summaryName  = "manifest-summary.json"
	manifestName = "manifest-files.json"
)

// dynamoExport is an export whose data files are all there.
type dynamoExport struct {
	files []dynamoFile
	bytes int64

	next int // for Read: the file after
	open *os.File
}

// dynamoFile is a data file. Its path is below the directory of the manifest, whatever
// directory of S3 the manifest names.
type dynamoFile struct {
	Key   string `json:"dataFileS3Key"`
	Items int64  `json:"itemCount"`
	MD5   string `json:"md5Checksum"`

	path string
}

// findManifest returns the manifest of an export that is named by a directory, at most two levels
// above, or by one of its manifests; "" if the name is that of another file.
func findManifest(name string) (string, error) {
	info, err := os.Stat(name)
	switch base := filepath.Base(name); {
	case err != nil:
		return "", nil // its opening reports it
	case base == manifestName || base == summaryName:
		return filepath.Join(filepath.Dir(name), manifestName), nil
	case !info.IsDir():
		return "", nil
	}
	var found []string
	for _, below := range []string{"", "*", filepath.Join("*", "*")} {
		some, err := filepath.Glob(filepath.Join(name, below, manifestName))
		if err != nil {
			return "", err
		}
		found = append(found, some...)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", cli.Usage("%s has no %s", name, manifestName).
			WithHint("name the directory of an export to S3, or one file of lines")
	}
	return "", cli.Usage("%s has several exports: %s", name, strings.Join(found, ", ")).
		WithHint("name one of these manifests")
}

// openExport opens the export with a manifest.
func openExport(manifest string) (*dynamoExport, error) {
	e := &dynamoExport{}
	want, err := readSummary(filepath.Join(filepath.Dir(manifest), summaryName))
	if err != nil {
		return nil, err
	}
	items, err := e.readManifest(manifest)
	if err != nil {
		return nil, err
	}
	if want >= 0 && items != want {
		return nil, cli.Advise(fmt.Errorf("%s lists %s, and %s says %s", manifest,
			figure.Plural(items, "item"), summaryName, figure.Count(want)),
			"one of them is not complete; copy the export again")
	}
	var missing []string
	for i := range e.files {
		f := &e.files[i]
		info, err := os.Stat(f.path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			missing = append(missing, f.path)
			continue
		case err != nil:
			return nil, err
		}
		e.bytes += info.Size()
	}
	if n := len(missing); n > 0 {
		return nil, cli.Advise(fmt.Errorf("%s of %d missing: %s",
			figure.Plural(int64(n), "data file"), len(e.files),
			strings.Join(missing[:min(n, 5)], ", ")),
			"copy the whole export: aws s3 cp --recursive s3://BUCKET/AWSDynamoDB/EXPORT DIR")
	}
	return e, nil
}

// readSummary checks what an export is. It returns the number of its items, -1 if there is no
// summary.
func readSummary(name string) (items int64, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return -1, nil
	}
	s := struct {
		Format string `json:"outputFormat"`
		Type   string `json:"exportType"`
		Items  int64  `json:"itemCount"`
	}{Items: -1}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", name, err)
	case s.Format != "" && s.Format != "DYNAMODB_JSON":
		return 0, cli.Usage("%s: the export is in the format %s", name, s.Format).
			WithHint("export again with the format DYNAMODB_JSON")
	case s.Type != "" && s.Type != "FULL_EXPORT":
		return 0, cli.Usage("%s: the export is a %s, of changes", name, s.Type).
			WithHint("make a full export")
	}
	return s.Items, nil
}

// maxManifestLine bounds a line of a manifest.
const maxManifestLine = 1 << 20

// readManifest reads the list of data files, and returns how many items they have.
func (e *dynamoExport) readManifest(name string) (items int64, err error) {
	in, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxManifestLine)
	for n := 1; lines.Scan(); n++ {
		var f dynamoFile
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil || f.Key == "" {
			return 0, cli.Advise(fmt.Errorf("%s:%d: not the line of a data file", name, n),
				"copy the export again")
		}
		base := path.Base(f.Key)
		f.path = filepath.Join(filepath.Dir(name), "data", base)
		if beside := filepath.Join(filepath.Dir(name), base); !exists(f.path) && exists(beside) {
			f.path = beside
		}
		e.files = append(e.files, f)
		items += f.Items
	}
	return items, lines.Err()
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// Read reads all files as one: what comes first is the sample for a new table.
func (e *dynamoExport) Read(b []byte) (int, error) {
	for {
		if e.open == nil {
			if e.next == len(e.files) {
				return 0, io.EOF
			}
			f, err := os.Open(e.files[e.next].path)
			if err != nil {
				return 0, err
			}
			e.open, e.next = f, e.next+1
		}
		n, err := e.open.Read(b)
		if n > 0 || err != io.EOF {
			return n, err
		}
		if err := e.Close(); err != nil {
			return 0, err
		}
	}
}

// Close implements io.Closer.
func (e *dynamoExport) Close() (err error) {
	if e.open != nil {
		err, e.open = e.open.Close(), nil
	}
	return err
}

// parts returns the inputs that an import reads: the files of an export, each checked against its
// MD5, or what is given.
func (f *ImportFlags) parts(name string, from io.Reader) iter.Seq2[string, io.Reader] {
	return func(yield func(string, io.Reader) bool) {
		if f.export == nil {
			yield(name, from)
			return
		}
		for i := range f.export.files {
			p := &f.export.files[i]
			r := &checkedFile{dynamoFile: p, sum: md5.New()}
			more := yield(p.path, r)
			r.close()
			if !more {
				return
			}
		}
	}
}

// checkedFile reads a file. At its end it fails if the content is not that of the manifest.
type checkedFile struct {
	*dynamoFile
	f   *os.File
	sum hash.Hash
}

// Read implements io.Reader.
func (c *checkedFile) Read(b []byte) (n int, err error) {
	if c.f == nil {
		if c.f, err = os.Open(c.path); err != nil {
			return 0, err
		}
	}
	n, err = c.f.Read(b)
	c.sum.Write(b[:n])
	if err == io.EOF && c.MD5 != "" {
		if have := base64.StdEncoding.EncodeToString(c.sum.Sum(nil)); have != c.MD5 {
			return n, fmt.Errorf("its MD5 is %s, and that of the manifest %s: copy it again", have,
				c.MD5)
		}
	}
	return n, err
}

func (c *checkedFile) close() {
	if c.f != nil {
		_ = c.f.Close() // it was only read
	}
}
