package keycodec

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// Errors of Key.Validate, matched with errors.Is.
var (
	ErrEmptyPK     = errors.New("keycodec: partition key is empty")
	ErrEmptySK     = errors.New("keycodec: sort key is empty; use nil for no sort key")
	ErrKeyTooLarge = fmt.Errorf("keycodec: key part is longer than %d bytes", MaxKeyBytes)
)

// damaged returns the error for bytes at offset that no encoder writes.
func damaged(what string, offset int, want, got any) error {
	return corrupt.New("", int64(offset), what, want, got)
}

// truncated returns the error for a value that ends too early.
func truncated(what string, want, got int) error {
	return corrupt.New("", int64(got), what,
		fmt.Sprintf("%d bytes", want), fmt.Sprintf("%d bytes", got))
}

// shifted moves the offset of a corruption error by n: from a position in a field
// to a position in the key that holds the field.
func shifted(err error, n int) error {
	var c *corrupt.Error
	if !errors.As(err, &c) {
		return err
	}
	moved := *c
	moved.Offset += int64(n)
	return &moved
}

// hexByte renders one byte for error messages.
func hexByte(b byte) string { return fmt.Sprintf("%02x", b) }
