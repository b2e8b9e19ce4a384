package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
)

// MaxConsumers and MaxConsumerName bound the consumers of a database and their names in bytes.
const (
	MaxConsumers    = 64
	MaxConsumerName = 64
)

// consumer is a named reader of changes. What it has not acknowledged is retained for it.
type consumer struct {
	stored Position // durable
	acked  Position
}

// ConsumerInfo describes a consumer.
type ConsumerInfo struct {
	Name string
	// Position is the next change that it wants. It survives a crash, up to a second of it.
	Position Position
	// Behind is the number of commits from there to the newest.
	Behind uint64
}

// ErrUnknownConsumer is returned for a name that no consumer has.
var ErrUnknownConsumer = errors.New("no such consumer")

// Consumers describes all consumers, by name.
func (h *History) Consumers() (all []ConsumerInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := uint64(h.env.Log.LastSeq()) + 1
	for _, name := range slices.Sorted(maps.Keys(h.consumers)) {
		p := h.consumers[name].acked
		all = append(all, ConsumerInfo{name, p, next - min(p.Version, next)})
	}
	return all
}

// Join returns the position of a consumer, which is made at the given one, durably, if there is
// none of the name.
func (h *History) Join(name string, at Position) (Position, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, err := h.joinLocked(name, at)
	if err != nil {
		return at, err
	}
	return c.acked, nil
}

func (h *History) joinLocked(name string, at Position) (*consumer, error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	if c := h.consumers[name]; c != nil {
		return c, nil
	}
	if len(h.consumers) >= MaxConsumers {
		return nil, fmt.Errorf("%w: a database has at most %d consumers", kv.ErrInvalid,
			MaxConsumers)
	}
	c := &consumer{stored: Position{Index: -1}, acked: at} // to be stored
	h.consumers[name] = c
	err := h.storeLocked()
	if err != nil {
		delete(h.consumers, name)
	}
	return c, err
}

// Ack moves a consumer: what comes before the position is not retained for it any more. It is
// durable within a second, and with Close.
func (h *History) Ack(name string, p Position) error {
	if err := p.check(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.consumers[name]
	switch {
	case h.closed:
		return kv.ErrClosed
	case c == nil:
		return ErrUnknownConsumer
	}
	c.acked = p
	return nil
}

// Drop removes a consumer, durably.
func (h *History) Drop(name string) error {
	h.mu.Lock()
	if h.consumers[name] == nil {
		h.mu.Unlock()
		return ErrUnknownConsumer
	}
	err := h.env.Store(map[string]string{name: ""})
	if err == nil {
		delete(h.consumers, name)
	}
	h.mu.Unlock()
	if err == nil {
		h.Trim()
	}
	return err
}

// storeLocked makes the positions durable that have changed. Why over the edit: what is known is
// stored in the same order.
func (h *History) storeLocked() error {
	changed := map[string]string{}
	for name, c := range h.consumers {
		if c.acked != c.stored {
			changed[name] = c.acked.String()
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := h.env.Store(changed); err != nil {
		return err
	}
	for name := range changed {
		h.consumers[name].stored = h.consumers[name].acked
	}
	return nil
}

// slowestLocked returns the first commit that a consumer may ask for after a crash.
func (h *History) slowestLocked() (seq base.SeqNum, any bool) {
	if name := h.slowestNameLocked(); name != "" {
		return base.SeqNum(h.consumers[name].stored.Version), true
	}
	return 0, false
}

func (h *History) slowestNameLocked() (slowest string) {
	for name, c := range h.consumers {
		if slowest == "" || c.stored.before(h.consumers[slowest].stored) {
			slowest = name
		}
	}
	return slowest
}

// Move is Join of a consumer that goes on at the position in any case, durably.
func (h *History) Move(name string, at Position) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, err := h.joinLocked(name, at)
	if err != nil {
		return err
	}
	c.acked = at
	return h.storeLocked()
}
