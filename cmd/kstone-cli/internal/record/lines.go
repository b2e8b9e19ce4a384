package record

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errTooLong is returned for a line beyond the limit; it has been skipped.
var errTooLong = errors.New("line too long")

// lines splits an input into lines without their line feeds, in bounded memory.
type lines struct {
	r    *bufio.Reader
	n    int // lines returned so far
	long []byte
}

func newLines(r io.Reader) *lines {
	return &lines{r: bufio.NewReaderSize(r, 256<<10)}
}

// next returns the next line, valid until the next call. The last line needs no line
// feed. A line cut off by a read error is not returned: it looks
// like a whole one.
func (l *lines) next() ([]byte, error) {
	part, err := l.r.ReadSlice('\n')
	if err == nil {
		return l.line(part[:len(part)-1])
	}
	l.long = l.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(l.long)+len(part) > MaxRecordBytes {
			return l.skip()
		}
		l.long = append(l.long, part...)
		part, err = l.r.ReadSlice('\n')
	}
	l.long = append(l.long, part...)
	switch {
	case err == nil:
		return l.line(l.long[:len(l.long)-1])
	case !errors.Is(err, io.EOF):
		return nil, err
	case len(l.long) == 0:
		return nil, io.EOF
	}
	return l.line(l.long)
}

// into is next for a reader of records: it notes the line in row, and a line that is too long
// is a *Reject.
func (l *lines) into(row *Row) ([]byte, error) {
	line, err := l.next()
	row.Line = l.n
	if errors.Is(err, errTooLong) {
		err = reject(row.Line, "longer than %d MiB", MaxRecordBytes>>20)
	}
	return line, err
}

func (l *lines) line(b []byte) ([]byte, error) {
	l.n++
	if len(b) > MaxRecordBytes {
		return nil, errTooLong
	}
	if l.n > 1 {
		return b, nil
	}
	b, err := cutBOM(b)
	if err == nil && bytes.HasPrefix(b, []byte("PK\x03\x04")) {
		err = errors.New("the input is a zip archive; unpack it first")
	}
	return b, err
}

// skip reads to the end of the line and drops it.
func (l *lines) skip() ([]byte, error) {
	l.n++
	for {
		_, err := l.r.ReadSlice('\n')
		switch {
		case err == nil || errors.Is(err, io.EOF):
			return nil, errTooLong
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
