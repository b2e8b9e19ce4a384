package migrate

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// Different pairs get different keys, whatever the rule. What a rule makes is a valid key unless
// the pair's key is empty or too long.
//
// Promise (manners): No rule of a migration gives two pairs one key.
func TestRulesKeepPairsApart(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "/", "%", "a/", "%2F", "2F", "a//b"})
	keys := rapid.StringOfN(rapid.SampledFrom([]rune("a:/%")), 1, 4, -1)
	testutil.Check(t, func(t *rapid.T) {
		buckets := rapid.Bool().Draw(t, "buckets")
		rules := []string{"key", "split=:", "split=//", "first=2", "prefix=a", "bucket"}
		if !buckets {
			rules[5] = "one=a"
		}
		r, err := parseRule(rapid.SampledFrom(rules).Draw(t, "rule"), buckets)
		testutil.OK(t, err)
		seen := map[string]Pair{}
		for range 30 {
			p := Pair{Key: []byte(keys.Draw(t, "key"))}
			if buckets {
				var path [][]byte
				for _, name := range rapid.SliceOfN(names, 1, 3).Draw(t, "path") {
					path = append(path, []byte(name))
				}
				p.Bucket = BucketPath(path...)
			}
			key, err := r.key(&p)
			if err != nil {
				t.Fatalf("%q: %v", p.Key, err)
			}
			text := string(keycodec.AppendLengthPrefixed(nil, key))
			first, again := seen[text]
			if again && (first.Bucket != p.Bucket || string(first.Key) != string(p.Key)) {
				t.Fatalf("%s: %q %q and %q %q have one key", r.name, first.Bucket, first.Key,
					p.Bucket, p.Key)
			}
			seen[text] = p
		}
	})
}

func TestBadRules(t *testing.T) {
	for _, text := range []string{"x", "split=", "first=0", "first=x", "one=", `split=\x`} {
		if _, err := parseRule(text, false); err == nil {
			t.Errorf("rule %q is taken", text)
		}
	}
	if _, err := parseRule("bucket", false); err == nil {
		t.Error("a source without buckets has the rule bucket")
	}
}

// An empty key is left out only by a rule that adds no bytes to it.
func TestEmptyKey(t *testing.T) {
	for rule, taken := range map[string]bool{"key": false, "split=:": false, "first=2": false,
		"prefix=k": true, "one=all": true} {
		r, err := parseRule(rule, false)
		testutil.OK(t, err)
		if key, err := r.key(&Pair{Key: []byte{}}); (err == nil) != taken {
			t.Errorf("rule %s: %q, %v", rule, key, err)
		}
	}
}
