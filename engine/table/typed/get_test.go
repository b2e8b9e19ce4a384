package typed_test

import (
	"errors"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

type place struct {
	Country string `kstone:"country,pk"`
	Region  string `kstone:"region,sk"`
	Name    string `kstone:"name"`
}

// Promise (tables): Get and RowCache.Get take the primary key alone; of anything else the error
// names Query.
func TestGetTakesThePrimaryKeyAlone(t *testing.T) {
	places := typed.NewTable[place]("places")
	country := typed.Col(places, func(p *place) *string { return &p.Country })
	region := typed.Col(places, func(p *place) *string { return &p.Region })
	name := typed.Col(places, func(p *place) *string { return &p.Name })
	db := openTyped(t, places)
	rows := []place{{"CH", "Vaud", "Lausanne"}, {"CH", "Bern", "Bern"}}
	ok(t, second(places.InsertMany(ctx, db, rows)))
	cache, err := typed.NewRowCache(db, places, nil)
	ok(t, err)
	defer cache.Close()
	get := map[string]func(key ...typed.Predicate[place]) (place, error){
		"Get": func(key ...typed.Predicate[place]) (place, error) {
			return places.Get(ctx, db, key...)
		},
		"RowCache.Get": func(key ...typed.Predicate[place]) (place, error) {
			return cache.Get(ctx, key...)
		},
	}
	for call, get := range get {
		if p, err := get(region.Eq("Bern"), country.Eq("CH")); err != nil || p != rows[1] {
			t.Errorf("%s: %+v, %v", call, p, err)
		}
		for what, key := range map[string][]typed.Predicate[place]{
			"nothing":       {},
			"a part":        {country.Eq("CH")},
			"another":       {name.Eq("Bern")},
			"no Eq":         {country.Eq("CH"), region.Ge("Bern")},
			"twice a part":  {country.Eq("CH"), country.Eq("CH")},
			"more":          {country.Eq("CH"), region.Eq("Bern"), name.Eq("Bern")},
			"no condition":  {country.Eq("CH"), region.Eq("Bern"), {}},
			"a disjunction": {typed.Or(country.Eq("CH"), region.Eq("Bern"))},
		} {
			_, err := get(key...)
			if !errors.Is(err, table.ErrInvalid) || !strings.Contains(err.Error(), "Query") ||
				!strings.Contains(err.Error(), "(country, region)") {
				t.Errorf("%s of %s: %v", call, what, err)
			}
		}
	}
}

func TestOffsetArg(t *testing.T) {
	db, trips, _, _ := openRides(t)
	skip, size := typed.Arg[int]{Name: "skip"}, typed.Arg[int]{Name: "size"}
	q := trips.Where(trips.dist.Ge(10)).OrderBy(trips.seq.Asc()).OffsetArg(skip).LimitArg(size)
	prepared := q.Prepare()
	for _, at := range []int{0, 1, 25, 40} {
		want := []int64(nil)
		for i := 10 + at; i < min(12+at, 40); i++ {
			want = append(want, int64(i))
		}
		for name, all := range map[string]func() ([]int64, error){
			"Query": func() ([]int64, error) {
				return seqs(q.All(ctx, db, skip.Is(at), size.Is(2)))
			},
			"Prepared": func() ([]int64, error) {
				return seqs(prepared.All(ctx, db, size.Is(2), skip.Is(at)))
			},
		} {
			if got, err := all(); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s from %d: %v, want %v: %v", name, at, got, want, err)
			}
		}
	}
	paged, next, err := q.Page(ctx, db, skip.Is(20), size.Is(4))
	more, _, err2 := q.After(next).Page(ctx, db, skip.Is(20), size.Is(4))
	got := append(paged, more...)
	if len(got) != 8 || got[0].Seq != 30 || got[7].Seq != 37 {
		t.Errorf("pages from 20 on: %v, %v, %v", got, err, err2)
	}
	if _, err := q.Count(ctx, db, size.Is(2)); !errors.Is(err, table.ErrInvalid) {
		t.Errorf("without the offset: %v", err)
	}
	if _, err := seqs(q.All(ctx, db, skip.Is(-1), size.Is(2))); err == nil {
		t.Error("a negative offset")
	}
}

func seqs(rows iter.Seq2[trip, error]) (list []int64, err error) {
	for o, err := range rows {
		if err != nil {
			return nil, err
		}
		list = append(list, o.Seq)
	}
	return list, nil
}

type host struct {
	IP  netip.Addr   `kstone:"ip,pk"`
	Net netip.Prefix `kstone:"net,null"`
}

// Promise (tables): An address with a zone, or a prefix with bits after its length, is refused: no
// column holds it as it is.
func TestAddressesThatNoColumnHolds(t *testing.T) {
	hosts := typed.NewTable[host]("hosts")
	ip := typed.Col(hosts, func(h *host) *netip.Addr { return &h.IP })
	db := openTyped(t, hosts)
	zoned, prefix := netip.MustParseAddr("fe80::1%eth0"), netip.MustParsePrefix("10.0.0.1/8")
	for _, h := range []host{{IP: zoned}, {IP: prefix.Addr(), Net: prefix}} {
		if err := hosts.Put(ctx, db, &h); !errors.Is(err, schema.ErrType) {
			t.Errorf("%+v: %v", h, err)
		}
	}
	if _, err := hosts.Get(ctx, db, ip.Eq(zoned)); !errors.Is(err, schema.ErrType) {
		t.Errorf("Get: %v", err)
	}
	if _, err := hosts.Where(ip.Gt(zoned)).Count(ctx, db); err == nil {
		t.Error("a condition with a zone is no error")
	}
}
