package record_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/internal/testutil"
)

// asIs is the form of a line that is the key.
func asIs(line []byte) ([]byte, error) { return line, nil }

func TestKeyLines(t *testing.T) {
	odd := func(line []byte) ([]byte, error) {
		if string(line) == "bad" {
			return nil, errors.New("no key")
		}
		return append([]byte("\xff"), line...), nil
	}
	for _, c := range []struct {
		text   string
		decode func([]byte) ([]byte, error)
		want   string
	}{
		{"a\nb c\r\n\n\"d\"", asIs, `1 k="a" | 2 k="b c" | 4 k="\"d\""`},
		{"\ufeffa\n", asIs, `1 k="a"`},
		{"a\nbad\nb", odd, `1 k={"$b64":"/2E="} | 2 no key | 3 k={"$b64":"/2I="}`},
		{"", asIs, ""},
	} {
		r := record.NewKeyLines(strings.NewReader(c.text), "k", c.decode)
		var got []string
		var row record.Row
		for {
			err := r.Next(&row)
			if err == io.EOF {
				break
			}
			var reject *record.Reject
			if errors.As(err, &reject) {
				got = append(got, strings.Replace(err.Error(), "line 2:", "2", 1))
			} else if err != nil || len(row.Fields) != 1 {
				t.Fatalf("%q: %v, %d fields", c.text, err, len(row.Fields))
			} else {
				f := row.Fields[0]
				got = append(got, string('0'+rune(row.Line))+" "+string(f.Name)+"="+string(f.JSON))
			}
		}
		if text := strings.Join(got, " | "); text != c.want {
			t.Errorf("%q: %s, want %s", c.text, text, c.want)
		}
	}
}

// Every line that is no blank is a key of just its bytes.
func FuzzKeyLines(f *testing.F) {
	for _, text := range []string{"", "a\n", "a\r\n\r\n\x00\xff\nb", `{"$b64":"AA=="}`, "\\ \x1f"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		defer testutil.Watch(text)()
		var want [][]byte
		for _, line := range bytes.Split(bytes.TrimPrefix(text, []byte("\ufeff")), []byte("\n")) {
			if line = bytes.TrimSuffix(line, []byte("\r")); len(line) > 0 {
				want = append(want, line)
			}
		}
		r := record.NewKeyLines(bytes.NewReader(text), "k", asIs)
		var row record.Row
		for i := 0; ; i++ {
			err := r.Next(&row)
			if i == len(want) && err == io.EOF {
				return
			}
			if err != nil {
				if i == 0 { // UTF-16 or an archive
					return
				}
				t.Fatalf("line %d of %q: %v", i, text, err)
			}
			got, err := record.Unquote(nil, row.Fields[0].JSON)
			if err != nil || !bytes.Equal(got, want[i]) {
				t.Fatalf("key %d of %q is %q, %v, want %q", i, text, got, err, want[i])
			}
		}
	})
}
