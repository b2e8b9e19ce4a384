package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kstonedb/kstone/keycodec"
)

// LikePrefix returns what every text that matches the pattern begins with. exact means
// that only this text matches, begins that all texts with this prefix do; otherwise the
// pattern has to be matched as well, as one that is not UTF-8: its bytes stand for no part of a
// character. escape is 0 without one. Under a collation the prefix is a folded text.
func LikePrefix(pattern string, escape rune) (prefix string, exact, begins bool) {
	var b strings.Builder
	valid := utf8.ValidString(pattern)
	for pattern != "" {
		r, n := utf8.DecodeRuneInString(pattern)
		switch {
		case isEscape(r, n, escape) && n == len(pattern):
			return b.String(), false, false
		case isEscape(r, n, escape):
			pattern = pattern[n:]
			_, n = utf8.DecodeRuneInString(pattern)
		case r == '%':
			return b.String(), false, valid && strings.Trim(pattern, "%") == ""
		case r == '_':
			return b.String(), false, false
		}
		b.WriteString(pattern[:n])
		pattern = pattern[n:]
	}
	return b.String(), valid, false
}

// isEscape is false for bytes that are not UTF-8: they all decode to one rune.
func isEscape(r rune, n int, escape rune) bool {
	return escape != 0 && r == escape && (r != utf8.RuneError || n > 1)
}

// matchLike reports whether a text matches a pattern. Its time is at most the product of
// the lengths: after a mismatch only the last % takes one character more.
func matchLike(text, pattern string, escape rune, c keycodec.Collation) bool {
	restText, restPattern, starred := "", "", false
	for {
		if pattern != "" && pattern[0] == '%' && escape != '%' {
			pattern = pattern[1:]
			restText, restPattern, starred = text, pattern, true
			continue
		}
		if pattern == "" && text == "" {
			return true
		}
		if n, m := likeStep(text, pattern, escape, c); n > 0 {
			text, pattern = text[n:], pattern[m:]
			continue
		}
		if !starred || restText == "" {
			return false
		}
		_, n := utf8.DecodeRuneInString(restText)
		restText = restText[n:]
		text, pattern = restText, restPattern
	}
}

// likeStep matches one character and returns how much of text and pattern it took, 0 if it
// does not match.
func likeStep(text, pattern string, escape rune, c keycodec.Collation) (n, m int) {
	if text == "" || pattern == "" {
		return 0, 0
	}
	_, n = utf8.DecodeRuneInString(text)
	r, m := utf8.DecodeRuneInString(pattern)
	skip := 0
	switch {
	case isEscape(r, m, escape) && m == len(pattern): // it stands for no character
		return 0, 0
	case isEscape(r, m, escape):
		skip = m
		_, m = utf8.DecodeRuneInString(pattern[skip:])
	case r == '_':
		return n, m
	}
	if CompareFolded(text[:n], pattern[skip:skip+m], c) != 0 {
		return 0, 0
	}
	return n, skip + m
}

func compileLike(e Like) (testFn, error) {
	collation := CollationOf(e.X)
	if e.Fold {
		collation = keycodec.CollateUnicode
	}
	text, pattern, err := compilePair(e.X, e.Pattern)
	if err != nil {
		return nil, err
	}
	test := func(m env) (Truth, error) {
		v, p, err := evalPair(m, text, pattern)
		switch {
		case err != nil || v.kind == KindNull || p.kind == KindNull:
			return Unknown, err
		case v.kind != KindString || p.kind != KindString:
			return Unknown, fmt.Errorf("%w: %s LIKE %s", ErrType, v, p)
		}
		return truthOf(matchLike(v.s, p.s, e.Escape, collation)), nil
	}
	return negated(test, e.Not), nil
}

func compileBeginsWith(e BeginsWith) (testFn, error) {
	collation := CollationOfPair(e.X, e.Prefix)
	text, prefix, err := compilePair(e.X, e.Prefix)
	if err != nil {
		return nil, err
	}
	return func(m env) (Truth, error) {
		v, p, err := evalPair(m, text, prefix)
		switch {
		case err != nil || v.kind == KindNull || p.kind == KindNull:
			return Unknown, err
		case v.kind != p.kind || (v.kind != KindString && v.kind != KindBytes):
			return Unknown, fmt.Errorf("%w: %s cannot begin with %s", ErrType, v, p)
		case v.kind == KindString && collation != keycodec.CollateBytes:
			return truthOf(hasFoldedPrefix(v.s, p.s, collation)), nil
		}
		return truthOf(strings.HasPrefix(v.s, p.s)), nil
	}, nil
}
