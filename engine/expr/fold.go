package expr

import (
	"cmp"
	"unicode/utf8"

	"github.com/kstonedb/kstone/keycodec"
)

// CompareFolded compares the folded forms of two texts, as keycodec.Collation.Fold makes
// them, without making them.
func CompareFolded(a, b string, c keycodec.Collation) int {
	x, y := folder{text: a, collation: c}, folder{text: b, collation: c}
	for {
		p, more := x.next()
		q, yMore := y.next()
		switch {
		case !more || !yMore:
			return cmp.Compare(bit(more), bit(yMore))
		case p != q:
			return cmp.Compare(p, q)
		}
	}
}

// hasFoldedPrefix reports whether the folded form of s begins with that of prefix.
func hasFoldedPrefix(s, prefix string, c keycodec.Collation) bool {
	x, y := folder{text: s, collation: c}, folder{text: prefix, collation: c}
	for {
		q, more := y.next()
		if !more {
			return true
		}
		if p, more := x.next(); !more || p != q {
			return false
		}
	}
}

// folder reads the folded form of a text byte by byte.
type folder struct {
	text      string
	collation keycodec.Collation
	buf       [utf8.UTFMax]byte
	at, end   int // what is left of buf
}

func (f *folder) next() (b byte, ok bool) {
	if f.at < f.end {
		f.at++
		return f.buf[f.at-1], true
	}
	if f.text == "" {
		return 0, false
	}
	b = f.text[0]
	switch {
	case f.collation == keycodec.CollateBytes:
	case 'A' <= b && b <= 'Z':
		b += 'a' - 'A'
	case b >= utf8.RuneSelf && f.collation == keycodec.CollateUnicode:
		_, n := utf8.DecodeRuneInString(f.text)
		f.at, f.end = 1, len(f.collation.AppendFolded(f.buf[:0], f.text[:n]))
		f.text = f.text[n:]
		return f.buf[0], true
	}
	f.text = f.text[1:]
	return b, true
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
