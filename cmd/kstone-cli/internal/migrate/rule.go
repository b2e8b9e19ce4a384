package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
)

// rule chooses the key of a pair. Different pairs get different keys, whatever the rule: a bucket's
// path never has the two slashes that follow it, and a key that does not divide into two parts that
// are not empty is a PK as a whole.
type rule struct {
	name string
	text string // for people
	// divide returns the two parts of a key; sk is nil for no SK.
	divide func(key []byte) (pk, sk []byte)
	bucket bool // the PK is the bucket, the SK the key
}

const bucketEnd = "//"

// BucketPath returns the path of a nested bucket: names with slashes between them; in names a slash
// is %2F, and a percent sign %25.
func BucketPath(names ...[]byte) string {
	escape := strings.NewReplacer("%", "%25", "/", "%2F")
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = escape.Replace(string(name))
	}
	return strings.Join(parts, "/")
}

const ruleHelp = "`RULE` for keys: bucket, key, prefix=TEXT, split=TEXT,\nfirst=N or one=NAME"

// parseRule reads --rule. Without one, buckets become partitions, and other keys partition keys.
func parseRule(text string, buckets bool) (*rule, error) {
	if text == "" {
		text = "key"
		if buckets {
			text = "bucket"
		}
	}
	name, arg, _ := strings.Cut(text, "=")
	r := &rule{name: text}
	switch {
	case text == "bucket" && buckets:
		r.bucket, r.text = true, "a bucket becomes a partition: PK = bucket, SK = key"
	case text == "key":
		r.text = "a key becomes a PK without SK: every key is a partition of its own"
		r.divide = func(key []byte) (pk, sk []byte) { return key, nil }
	case name == "split" && arg != "":
		sep, err := strconv.Unquote(`"` + strings.ReplaceAll(arg, `"`, `\"`) + `"`)
		if err != nil {
			return nil, cli.Usage("--rule %q has a bad escape", text).
				WithHint(`escapes are those of Go strings: \n, \x00, \u00e9, \\`)
		}
		r.text = fmt.Sprintf("a key is divided at the first %q: PK before it, SK after it", sep)
		r.divide = func(key []byte) (pk, sk []byte) { return bytesCut(key, []byte(sep)) }
	case name == "first":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 {
			return nil, cli.Usage("--rule %q: want a number of bytes, as in first=8", text)
		}
		r.text = fmt.Sprintf("a key is divided after its first %d bytes: these are the PK", n)
		r.divide = func(key []byte) (pk, sk []byte) {
			if len(key) <= n {
				return key, nil
			}
			return key[:n], key[n:]
		}
	case name == "one" && arg != "" && !buckets:
		r.text = fmt.Sprintf("all keys are SKs of the partition %q, which keeps their order", arg)
		r.divide = func(key []byte) (pk, sk []byte) {
			if len(key) == 0 {
				return []byte(arg), nil
			}
			return []byte(arg), key
		}
	case name == "prefix" && arg != "":
		r.text = fmt.Sprintf("a key becomes a PK without SK, after %q", arg)
		r.divide = func(key []byte) (pk, sk []byte) { return append([]byte(arg), key...), nil }
	default:
		return nil, badRule(text, buckets)
	}
	if r.divide != nil && buckets {
		r.text += "; the bucket and // come before it"
	}
	return r, nil
}

func badRule(text string, buckets bool) error {
	have := "key, prefix=TEXT, split=TEXT, first=N or one=NAME"
	if buckets {
		have = "bucket, key, prefix=TEXT, split=TEXT or first=N"
	}
	return cli.Usage("--rule %q is not one for this source", text).WithHint("rules are %s", have)
}

// bytesCut divides a key at sep if both parts are not empty then.
func bytesCut(key, sep []byte) (pk, sk []byte) {
	pk, sk, found := bytes.Cut(key, sep)
	if !found || len(pk) == 0 || len(sk) == 0 {
		return key, nil
	}
	return pk, sk
}

var errEmptyKey = errors.New("the key is empty, and a database has no such key")

// key returns the key of a pair, in memory that the pair may have.
func (r *rule) key(p *Pair) (engine.Key, error) {
	var key engine.Key
	if r.bucket {
		key = engine.Key{PK: []byte(p.Bucket), SK: p.Key}
	} else {
		key.PK, key.SK = r.divide(p.Key)
		if p.Bucket != "" {
			key.PK = append([]byte(p.Bucket+bucketEnd), key.PK...)
		}
	}
	err := key.Validate()
	if err != nil && len(p.Key) == 0 {
		err = errEmptyKey
	}
	return key, err
}

// shown returns a pair as a line: its key, and the key that it gets.
func (r *rule) shown(p *Pair) string {
	from := short(p.Key)
	if p.Bucket != "" {
		from = short([]byte(p.Bucket)) + "  " + from
	}
	key, err := r.key(p)
	if err != nil {
		return fmt.Sprintf("  %s → not copied: %s", from, cli.PlainText(err))
	}
	to := "PK " + short(key.PK)
	if key.SK != nil {
		to += ", SK " + short(key.SK)
	}
	return fmt.Sprintf("  %s → %s", from, to)
}

// maxShown bounds what a message shows of a key, in bytes.
const maxShown = 40

// short returns a key for people, in the escapes that -i escaped reads.
func short(key []byte) string {
	if len(key) > maxShown {
		return fmt.Sprintf("%s… (%d bytes)", layout.Show(key[:maxShown]), len(key))
	}
	return layout.Show(key)
}
