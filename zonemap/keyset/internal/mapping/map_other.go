//go:build !unix && !windows

package mapping

import (
	"errors"
	"os"
)

func mapFile(*os.File, int) (data []byte, unmap func(), err error) {
	return nil, nil, errors.ErrUnsupported
}

func syncDir(string) error { return errors.ErrUnsupported }
