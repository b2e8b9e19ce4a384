package ship

import (
	"context"
	"time"

	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/internal/vfs"
)

var (
	RestoreOn     = restoreOn
	RestoreFromOn = restoreFromOn
	FollowOn      = followOn
	DirectoryOn   = func(fsys vfs.FS, dir string) Destination { return directoryOn(fsys, dir) }
)

// Hurry is source.Hurry.
func (o *Options) Hurry(every time.Duration) { source.Hurry(o, every) }

// BasesAfter has bases made after so much log, if that is as long as the database.
func (o *Options) BasesAfter(bytes int64) { o.minBaseLog = bytes }

// Headers returns how many headers of objects are remembered. Requires: the follower is closed.
func (f *Follower) Headers() int { return len(f.headers) }

// Round does a round of upkeep now.
func (s *Shipper) Round(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case s.rounds <- done:
		<-done
	case <-s.ended:
		return s.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upkeepCause
}
