package schema_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// mixed has columns of all kinds of encodings, in keys, in rows and in entries.
const mixed = `{"id":258,"name":"mixed","version":300,"columns":[
	{"name":"s","type":"string"},{"name":"n","type":"int16"},{"name":"f","type":"float64"},
	{"name":"d","type":"decimal"},{"name":"full","type":"time","unit":"full"},
	{"name":"flag","type":"bool","nullable":true},{"name":"at","type":"time","unit":"s"},
	{"name":"fold","type":"string","collate":"ascii","nullable":true},
	{"name":"net","type":"ipprefix","nullable":true},{"name":"list","type":"int8","list":true},
	{"name":"late","type":"int32","default":7,"added":300}],
	"primary_key":["s",{"column":"n","desc":true}],"sort_key":["f",{"column":"d","desc":true}],
	"indexes":[
	{"name":"plain","columns":["at","net"]},
	{"name":"unique","columns":[{"column":"flag","nulls":"last"},{"column":"d","desc":true}],
	 "unique":true,"include":["late"]},
	{"name":"each","columns":[{"column":"list","each":true,"desc":true},"fold"],
	 "include":["fold"],"local":true}]}`

func mixedRow() []expr.Value {
	return []expr.Value{expr.String("s\x00"), expr.Int(-2), expr.Float(0.5),
		expr.Scaled(-125, 1), expr.UnixTime(-1, 999_999_999), expr.Bool(true),
		expr.UnixTime(60, 0), expr.String("Fold"), expr.Prefix(netip.MustParsePrefix("10.0.0.0/8")),
		expr.List([]expr.Value{expr.Int(3), expr.Int(-3)}), expr.Int(9)}
}

// TestDamageOfEveryByte cuts a row and its entries at every byte, changes every byte, and
// adds one. The script has what is said about which of these; what is taken gives a row that
// can be written.
func TestDamageOfEveryByte(t *testing.T) {
	damageOfEveryByte(t, "testdata/damage", parse(t, mixed), mixedRow())
	row := []expr.Value{expr.Scaled(5, 0), expr.Float(0.5), expr.Bool(true),
		expr.IP(netip.MustParseAddr("1.2.3.4")), expr.Prefix(netip.MustParsePrefix("10.0.0.0/8")),
		expr.UnixTime(0, 1), expr.Scaled(25, 1), expr.IP(netip.MustParseAddr("1.2.3.4")),
		expr.Null()}
	damageOfEveryByte(t, "testdata/damage_ascending", parse(t, ascending), row)
}

// ascending has the types that are not ascending in the keys of mixed.
const ascending = `{"name":"ascending","columns":[{"name":"d","type":"decimal"},
	{"name":"f","type":"float32"},{"name":"b","type":"bool"},{"name":"ip","type":"ip"},
	{"name":"net","type":"ipprefix"},{"name":"full","type":"time","unit":"full"},
	{"name":"d2","type":"decimal"},{"name":"ip2","type":"ip"},
	{"name":"no","type":"int16","nullable":true}],
	"primary_key":["d","f","b"],"sort_key":["ip","net","full"]}`

func damageOfEveryByte(t *testing.T, script string, table *schema.Table, row []expr.Value) {
	key, value := keyOf(t, table, row), valueOf(t, table, row)
	datadriven.RunTest(t, script, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "row" {
			return damages(map[string][]byte{"pk": key.PK, "sk": key.SK, "value": value}[d.Input],
				func(b []byte) error {
					k, v := key, value
					*map[string]*[]byte{"pk": &k.PK, "sk": &k.SK, "value": &v}[d.Input] = b
					got := table.Row()
					err := table.Decode(got, k, v, nil)
					if err == nil {
						_, err = table.AppendRow(nil, got)
					}
					return err
				})
		}
		name, part, _ := strings.Cut(d.Input, " ")
		x := table.Index(name)
		e := entriesOf(t, x, row)[0]
		return damages(map[string][]byte{"sk": e.SK, "value": e.Value}[part],
			func(b []byte) error {
				sk, v := e.SK, e.Value
				*map[string]*[]byte{"sk": &sk, "value": &v}[part] = b
				return readEntry(t, x, sk, v)
			})
	})
}

// readEntry reads an entry in all three ways. The whole entry has to be refused if a part of
// it is.
func readEntry(t *testing.T, x *schema.Index, sk, value []byte) error {
	t.Helper()
	buf := []byte("buf")
	key, buf2, err := x.DecodeEntry(x.Table().Row(), buf, sk, value, nil)
	own := x.OwnColumns()
	ownErr := x.DecodeOwn(x.Table().Row(), sk, value, &own)
	rowKey, buf3, rowErr := x.RowKey(buf, sk, value)
	for _, err := range []error{err, ownErr, rowErr} {
		if err != nil && !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%s: %x %x: %v is no damage", x.Name, sk, value, err)
		}
	}
	if err == nil && (ownErr != nil || rowErr != nil || rowKey.Compare(key) != 0) {
		t.Errorf("%s: %x %x is taken as a whole: %v, %v", x.Name, sk, value, ownErr, rowErr)
	}
	if err != nil && (string(buf2) != "buf" || key.PK != nil || key.SK != nil) ||
		rowErr != nil && (string(buf3) != "buf" || rowKey.PK != nil || rowKey.SK != nil) {
		t.Errorf("%s: %x %x is refused, but gives %s, %s", x.Name, sk, value, key, rowKey)
	}
	if same := errText(err); same == errText(ownErr) && same == errText(rowErr) {
		return orTaken(err)
	}
	return errors.New("entry " + errText(err) + "; own columns " + errText(ownErr) +
		"; key of the row " + errText(rowErr))
}

var errTaken = errors.New("taken")

func orTaken(err error) error {
	if err == nil {
		return errTaken
	}
	return err
}

// errText leaves out what was found, which varies.
func errText(err error) string {
	return found.ReplaceAllString(orTaken(err).Error(), "")
}

var found = regexp.MustCompile(`^schema: (table|index) "\w+": |, got .*`)

// damages tries all damages of b and lists them by what is said about them: -3 is a cut
// after 3 bytes, 3=ff a changed byte, + one more.
func damages(b []byte, try func([]byte) error) string {
	said := map[string][]string{}
	note := func(name string, damaged []byte) {
		err := errText(try(damaged))
		said[err] = append(said[err], name)
	}
	for i := range b {
		note(fmt.Sprintf("-%d", i), b[:i:i])
		for _, c := range []byte{0, 1, 2, 0x80, 0xff, b[i] ^ 1} {
			changed := bytes.Clone(b)
			if changed[i] = c; c != b[i] {
				note(fmt.Sprintf("%d=%02x", i, c), changed)
			}
		}
	}
	note("+", append(bytes.Clone(b), 0))
	var lines []string
	for err, list := range said {
		slices.Sort(list)
		list = slices.Compact(list)
		lines = append(lines, err+"\n  "+wrapped(list))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func wrapped(words []string) string {
	var out strings.Builder
	width := 0
	for i, w := range words {
		switch {
		case width+len(w) > 90:
			out.WriteString("\n  ")
			width = 0
		case i > 0:
			out.WriteByte(' ')
		}
		out.WriteString(w)
		width += len(w) + 1
	}
	return out.String()
}
