package mapping

import (
	"fmt"
	"os"
)

// Open maps the file for reading and returns its bytes and what ends the mapping. The
// bytes must not be touched afterwards.
func Open(name string) (data []byte, unmap func(), err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	size := info.Size()
	if size == 0 {
		return nil, func() {}, nil
	}
	if int64(int(size)) != size {
		return nil, nil, fmt.Errorf("map %s: %d bytes are too many", name, size)
	}
	if data, unmap, err = mapFile(f, int(size)); err != nil {
		return nil, nil, &os.PathError{Op: "map", Path: name, Err: err}
	}
	return data, unmap, nil
}
