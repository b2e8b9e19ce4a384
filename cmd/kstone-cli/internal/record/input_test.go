package record_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

func TestJSONL(t *testing.T) {
	in := "\ufeff{\"a\":1}\r\n\n  \n{\"a\":\n{\"a\":2}\n{\"a\":\"\xff\"}\n{\"a\":3}"
	want := `1: a=1
! line 4: column 6: the line ends where a value is expected
5: a=2
! line 6: column 7: byte 0xff is not valid UTF-8
7: a=3
`
	if got := dump(t, record.NewJSONL(strings.NewReader(in))); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestJSONArray reads arrays of every layout, through every size of reads.
func TestJSONArray(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                               "",
		`[{"a":1},{"a":"],[\"{"},{"a":3}]`: "1: a=1\n2: a=\"],[\\\"{\"\n3: a=3\n",
		"\ufeff\n[\n{\"a\":1},\n {\"a\":[\n2,\n\n3]}\n,{\"a\":4}\n]\n": "3: a=1\n4: a=[2,3]\n" +
			"8: a=4\n",
		"[{\"a\":1}, 2, [3]]": "1: a=1\n! line 2: column 1: '2' where an object {…} is expected\n" +
			"! line 3: column 1: '[' where an object {…} is expected\n",
		`[{"a":1}] {"a":2}`: "! line 1: column 11: '{' where the end of the line is expected\n",
		`[{"a":1},{"a":`:    "1: a=1\nstop: unexpected EOF\n",
		`[{"a":1}`:          "stop: unexpected EOF\n",
	} {
		slow := iotest.OneByteReader(strings.NewReader(in))
		for _, r := range []io.Reader{strings.NewReader(in), slow} {
			if got := dump(t, record.NewJSONL(r)); got != want {
				t.Errorf("%s\ngot\n%swant\n%s", in, got, want)
			}
		}
	}
}

func TestDecompressBySight(t *testing.T) {
	plain := []byte("{\"a\":1}\n{\"a\":2}\n")
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	g.Write(plain)
	g.Close()
	z, _ := zstd.NewWriter(&zs)
	z.Write(plain)
	z.Close()
	for name, in := range map[string][]byte{"plain": plain, "gzip": gz.Bytes(), "zstd": zs.Bytes(),
		"empty": nil, "short": []byte("x")} {
		r, err := record.Decompress(bytes.NewReader(in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(r)
		want := plain
		if len(in) < 4 {
			want = in
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		r.Close()
	}
}

// A line that a truncated file ends in must not be taken for a whole one: CSV could
// not tell.
func TestTruncatedGzipStopsBeforeTheTornLine(t *testing.T) {
	var gz bytes.Buffer
	g := gzip.NewWriter(&gz)
	g.Write([]byte("a,b\n1,2\n3,"))
	g.Flush()
	g.Write([]byte("400\n"))
	whole := gz.Len()
	g.Close()
	in, err := record.Decompress(bytes.NewReader(gz.Bytes()[:whole]))
	ok(t, err)
	r, err := record.NewCSV(in, ',')
	ok(t, err)
	want := "2: a=\"1\" b=\"2\"\nstop: unexpected EOF\n"
	if got := dump(t, r); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// endless is a line without an end, up to a length.
type endless struct{ left int }

func (e *endless) Read(b []byte) (int, error) {
	n := min(len(b), e.left)
	for i := range b[:n] {
		b[i] = 'x'
	}
	e.left -= n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestLongLineIsSkippedInBoundedMemory(t *testing.T) {
	const size = 3 * record.MaxRecordBytes
	in := io.MultiReader(strings.NewReader("{\"a\":1}\n"), &endless{size},
		strings.NewReader("\n{\"a\":2}\n"))
	want := "1: a=1\n! line 2: longer than 96 MiB\n3: a=2\n"
	if got := dump(t, record.NewJSONL(in)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapInuse > 3*record.MaxRecordBytes {
		t.Errorf("%d MiB of heap in use afterwards", m.HeapInuse>>20)
	}
}
