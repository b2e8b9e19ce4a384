package measure

import (
	"errors"
	"testing"
	"time"
)

// TestSettleFails with the flush, and with a process that does not come to rest in time.
func TestSettleFails(t *testing.T) {
	failed := errors.New("failed")
	if err := Settle(func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	defer func(limit time.Duration) { settleLimit = limit }(settleLimit)
	settleLimit = -1
	if Settle(func() error { return nil }) == nil {
		t.Error("a busy process is at rest")
	}
}
