package ship

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// Moment is a state that a database was in: that after a commit, which was the newest at a time.
type Moment struct {
	Version uint64 // of the commit
	Time    time.Time
}

// String implements fmt.Stringer.
func (m Moment) String() string {
	return fmt.Sprintf("version %d (%s)", m.Version,
		m.Time.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// Range is the moments that can be restored without a gap: each commit from First to Last.
type Range struct{ First, Last Moment }

// String implements fmt.Stringer.
func (r Range) String() string { return fmt.Sprintf("%s to %s", r.First, r.Last) }

// Contents is what a destination has.
type Contents struct {
	Ranges []Range  // by version; at least one
	Bases  []Moment // the full copies among them, by version
	// Objects and Bytes are those of the log.
	Objects int
	Bytes   int64
	// Damage says which objects are missing or damaged, if any, and so why moments are.
	Damage []error
}

// List returns what can be restored from a destination. The error matches ErrEmpty if that is
// nothing.
func List(ctx context.Context, d Destination) (Contents, error) {
	s, err := look(ctx, d, nil)
	if err != nil {
		return Contents{}, err
	}
	return s.contents()
}

// logObject is an object of the log, in the chain of them.
type logObject struct {
	header
	name string
	// follows says that it continues the object before.
	follows bool
}

type baseObject struct {
	header
	name string
}

// survey is what a destination has, by its names and headers.
type survey struct {
	dest   Destination
	id     header // of the destination
	listed []Info // bases, also those that are damaged
	bases  []baseObject
	chain  []logObject
	slot   uint64 // above all slots that are taken
	logs   []span
	stray  []stray
	damage []error
	// doubts are objects of the log that are not there any more, or lack the one before, and the
	// last base if no object has its last commit.
	doubts []string
}

// span is the name of a log object.
type span struct {
	slot, last uint64
	info       Info
}

// stray is a log object that another one covers.
//
// Why void objects stay until the log around them goes: a put of an attempt that failed long ago
// may still arrive, and finds the name taken.
type stray struct{ name, by string }

// headers remembers headers of objects, which never change.
type headers map[string]header

// forget forgets the headers of objects that are not there any more, if they are many. Why: a
// follower sees one object a second, and merges remove them.
func (h headers) forget(s *survey) {
	if len(h) <= 2*(len(s.listed)+len(s.logs)) {
		return
	}
	there := map[string]bool{}
	for i := range s.listed {
		there[s.listed[i].Name] = true
	}
	for i := range s.logs {
		there[s.logs[i].info.Name] = true
	}
	maps.DeleteFunc(h, func(name string, _ header) bool { return !there[name] })
}

// look surveys a destination. What is known of headers is not read again.
//
// Why again until what does not fit stays so: shippers merge and remove objects while others
// list and read them. What has gone meanwhile, with what it was merged into, is in no list, and the
// chain seems to break, or to end: see overtaken. That no object leads on from the last base may
// mean that the next one was made since bases were listed, and the log before it removed.
func look(ctx context.Context, d Destination, known headers) (s *survey, err error) {
	if known == nil {
		known = headers{}
	}
	var doubts []string
	first := len(known) == 0 // the next look of the same caller finds what one has missed
	for range maxLooks {
		if s, err = lookOnce(ctx, d, known); err != nil {
			return nil, err
		}
		if n := len(s.bases); n > 0 && len(s.reach(&s.bases[n-1])) == 0 {
			s.doubts = append(s.doubts, s.bases[n-1].name)
		}
		again := !slices.Equal(s.doubts, doubts)
		if doubts = s.doubts; !again && first {
			again, err = s.overtaken(ctx)
		}
		if err != nil {
			return nil, err
		}
		if !again {
			break
		}
	}
	return s, nil
}

func lookOnce(ctx context.Context, d Destination, known headers) (*survey, error) {
	s := &survey{dest: d, slot: 1}
	var err error
	if s.id, _, err = get(ctx, d, destinationName, kindDestination); err != nil {
		if errors.Is(err, errNotExist) {
			err = ErrEmpty
		}
		return nil, err
	}
	bases, err := d.List(ctx, basePrefix)
	if err != nil {
		return nil, err
	}
	s.listed = bases
	for _, info := range bases {
		h, err := s.headerOf(ctx, known, info, kindBase)
		if isDamage(err) {
			s.damage = append(s.damage, err)
		} else if err != nil && !errors.Is(err, errNotExist) {
			return nil, err
		} else if err == nil {
			s.bases = append(s.bases, baseObject{h, info.Name})
			s.slot = max(s.slot, h.slot) // those before may be removed
		}
	}
	slices.SortFunc(s.bases, func(a, b baseObject) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.slot, b.slot))
	})
	err = s.link(ctx, known)
	known.forget(s)
	return s, err
}

// isDamage reports whether an error is damage of an object. An object of a later version is whole:
// nothing may take its place, and what it needs may not be removed.
func isDamage(err error) bool {
	return errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, corrupt.ErrVersion)
}

// headerOf returns the header of an object that is whole by its size.
func (s *survey) headerOf(ctx context.Context, known headers, info Info, kind objectKind,
) (h header, err error) {
	h, ok := known[info.Name]
	if !ok {
		if h, err = getHeader(ctx, s.dest, info.Name); err != nil {
			return h, err
		}
	}
	switch {
	case h.kind != kind || h.dbid != s.id.dbid:
		return h, corrupt.New(info.Name, 12, "shipped object",
			fmt.Sprintf("kind %d of database %x", kind, s.id.dbid),
			fmt.Sprintf("%d of %x", h.kind, h.dbid))
	case info.SizeBytes != headerBytes+h.bodyBytes:
		return h, corrupt.New(info.Name, info.SizeBytes, "shipped object",
			fmt.Sprintf("%d bytes", headerBytes+h.bodyBytes), info.SizeBytes)
	}
	known[info.Name] = h
	return h, nil
}

// link makes the chain of the log objects. Of objects that cover the same slots the widest good
// one counts. What is damaged and not covered by another is void if the object after it says so.
func (s *survey) link(ctx context.Context, known headers) error {
	infos, err := s.dest.List(ctx, logPrefix)
	if err != nil {
		return err
	}
	var spans []span
	for _, info := range infos {
		if slot, last, ok := parseLogName(info.Name); ok {
			spans = append(spans, span{slot, last, info})
			s.slot = max(s.slot, last+1)
		}
	}
	s.logs = spans
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(b.last, a.last))
	})
	var bad []error                   // since the last good object
	end, lost := uint64(0), uint64(0) // slots: the last of the chain, and of a damaged object
	for _, sp := range spans {
		if sp.last <= end {
			s.stray = append(s.stray, stray{sp.info.Name, s.chain[len(s.chain)-1].name})
			continue
		}
		h, err := s.headerOf(ctx, known, sp.info, kindLog)
		if err == nil && (h.slot != sp.slot || h.lastSlot != sp.last) {
			err = corrupt.New(sp.info.Name, 40, "slots", "those of the name", h.slot)
		}
		switch {
		case isDamage(err):
			bad, lost = append(bad, err), sp.last
			continue
		case errors.Is(err, errNotExist):
			s.doubts = append(s.doubts, sp.info.Name)
			continue
		case err != nil:
			return err
		}
		o := logObject{header: h, name: sp.info.Name}
		if n := len(s.chain); n > 0 {
			before := &s.chain[n-1]
			if h.slot <= end { // two merges that overlap: both have what is in both
				o.follows = h.from <= before.seq
			} else if h.prev != before.lastSlot {
				s.doubts = append(s.doubts, sp.info.Name)
				s.damage = append(s.damage, append(bad, corrupt.New(sp.info.Name, 56,
					"log object before", fmt.Sprintf("slot %d", h.prev),
					fmt.Sprintf("slot %d", before.lastSlot)))...)
			} else {
				o.follows = h.from == before.seq && h.fromHistory == before.history
			}
		} else if lost > 0 && h.prev == lost {
			s.damage = append(s.damage, bad...)
		} else if slices.ContainsFunc(s.bases, func(b baseObject) bool {
			return b.slot <= h.prev
		}) {
			s.doubts = append(s.doubts, sp.info.Name)
			s.damage = append(s.damage, append(bad, corrupt.New(sp.info.Name, 56,
				"log object before", fmt.Sprintf("slot %d", h.prev), "none"))...)
		}
		s.chain, bad, end = append(s.chain, o), nil, sp.last
	}
	s.damage = append(s.damage, bad...)
	return nil
}

// overtaken reports whether the end of the chain may have been merged while objects were listed, so
// that the list has neither the objects nor what they were merged into.
func (s *survey) overtaken(ctx context.Context) (bool, error) {
	infos, err := s.dest.List(ctx, logPrefix)
	return slices.ContainsFunc(infos, func(info Info) bool {
		slot, last, ok := parseLogName(info.Name)
		return ok && slot < last && slot <= s.slot && s.slot <= last
	}), err
}

// reach returns the log objects that lead on from a base without a gap.
func (s *survey) reach(b *baseObject) []logObject {
	i := slices.IndexFunc(s.chain, func(o logObject) bool {
		return o.lastSlot >= b.slot && o.seq >= b.seq
	})
	if i < 0 || s.chain[i].from > b.seq ||
		s.chain[i].from == b.seq && s.chain[i].fromHistory != b.history ||
		s.chain[i].seq == b.seq && s.chain[i].history != b.history {
		return nil
	}
	n := i + 1
	for n < len(s.chain) && s.chain[n].follows {
		n++
	}
	return s.chain[i:n]
}

// newest returns the last commit in the log objects, whether a base leads to it or not.
func (s *survey) newest() uint64 { return uint64(s.end().seq) }

// end returns the header of the last log object, or a zero one.
func (s *survey) end() *header {
	if n := len(s.chain); n > 0 {
		return &s.chain[n-1].header
	}
	return &header{}
}

func moment(h *header) Moment {
	return Moment{Version: uint64(h.seq), Time: time.UnixMilli(h.ms)}
}

// last returns the last moment that can be restored from a base.
func (s *survey) last(b *baseObject) Moment {
	end := &b.header
	if r := s.reach(b); len(r) > 0 {
		end = &r[len(r)-1].header
	}
	return moment(end)
}

func (s *survey) contents() (c Contents, err error) {
	for i := range s.bases {
		b := &s.bases[i]
		r := Range{moment(&b.header), s.last(b)}
		c.Bases = append(c.Bases, r.First)
		if n := len(c.Ranges); n > 0 && c.Ranges[n-1].Last.Version >= r.First.Version {
			if r.Last.Version > c.Ranges[n-1].Last.Version {
				c.Ranges[n-1].Last = r.Last
			}
			continue
		}
		c.Ranges = append(c.Ranges, r)
	}
	for i := range s.chain {
		c.Objects++
		c.Bytes += headerBytes + s.chain[i].bodyBytes
	}
	c.Damage = s.damage
	if len(c.Bases) == 0 {
		return c, errors.Join(append([]error{ErrEmpty}, s.damage...)...)
	}
	return c, nil
}
