package ship

import "time"

// Metrics is a picture of a shipper at work. Counters begin at zero with Start.
type Metrics struct {
	Consumer string // name among the consumers of the database
	Epoch    uint64
	// Restorable is the last commit that can be restored; 0 until there is a base. Newest is that
	// of the database.
	Restorable, Newest uint64
	// LastSuccess is when the last attempt began that left nothing to ship. Lag is the time since
	// then if there is something to ship.
	LastSuccess time.Time
	Lag         time.Duration
	Bases       bool // whether there is a base
	BasesMade   int  // by this shipper, as what follows
	SSTs        int  // put for bases
	SSTBytes    int64
	// SharedBytes is the size of the SSTs of bases that were there already, BaseBytes that of the
	// bases without SSTs.
	SharedBytes, BaseBytes int64
	LogObjects             int
	LogBytes               int64
	Merges                 int
	MergedBytes            int64
	Removed                int   // objects
	Failures               int   // attempts
	Err                    error // see Shipper.Err
}

// Metrics returns the present figures.
func (s *Shipper) Metrics() Metrics {
	err := s.Err()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.m
	m.Err, m.Epoch, m.Newest = err, s.epoch, uint64(s.src.Log.LastSeq())
	if !m.Bases {
		m.Restorable = 0
	}
	if since := m.LastSuccess; m.Restorable < m.Newest {
		if since.IsZero() {
			since = s.begin
		}
		m.Lag = now().Sub(since)
	}
	return m
}
