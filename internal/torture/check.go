package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine"
)

// check opens the database in dir, verifies its structure, and finds the state of every
// worker: the one after a step that is at least floor (all acknowledged ones) and not
// before base. It returns these states. Any other content is an error. Ready: a child has
// said that the accounts are there. The copy, if it is not nil, is brought up to date by the
// changes since the last time, which makes it what the database is.
func check(ctx context.Context, dir string, o *engine.Options, seed uint64, base []progress,
	floor []int, ready bool, copy *replica,
) (found []progress, err error) {
	o.MustExist = true
	db, err := engine.Open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	found, err = examine(ctx, db, seed, base, floor, ready)
	if err == nil && copy != nil {
		err = copy.follow(ctx, db)
	}
	if cerr := db.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	return found, err
}

func examine(ctx context.Context, db *engine.DB, seed uint64, base []progress, floor []int,
	ready bool,
) ([]progress, error) {
	if _, err := db.Verify(ctx, nil); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	items := make([]map[string]string, len(base))
	counters := make([]int, len(base))
	for w := range items {
		items[w] = map[string]string{}
	}
	sum, opened := 0, 0
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		if err != nil {
			return nil, fmt.Errorf("scan: %w", err)
		}
		name := string(it.Key.PK)
		if strings.HasPrefix(name, "account") {
			n, err := strconv.Atoi(string(it.Value))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", it.Key, err)
			}
			sum, opened = sum+n, opened+1
			continue
		}
		w, own, err := owner(name, len(base))
		if err != nil {
			return nil, err
		}
		if own {
			items[w][mapKey(it.Key)] = string(it.Value)
		} else if counters[w], err = strconv.Atoi(string(it.Value)); err != nil {
			return nil, fmt.Errorf("%s: %w", it.Key, err)
		}
	}
	found := make([]progress, len(base))
	for w := range base {
		p, err := locate(seed, &base[w], floor[w], counters[w], items[w])
		if err != nil {
			return nil, fmt.Errorf("worker %d: %w", w, err)
		}
		found[w] = p
		// They came first, and what is there is a prefix.
		ready = ready || counters[w] > 0 || len(items[w]) > 0
	}
	if ready && opened == 0 {
		return nil, errors.New("all accounts are gone")
	}
	if opened != 0 && (opened != accounts || sum != accounts*startAmount) {
		return nil, fmt.Errorf("%d accounts hold %d, want %d with %d: a transaction in part",
			opened, sum, accounts, accounts*startAmount)
	}
	return found, nil
}

// owner parses a worker's partition: wN for its counter, wN/M for its items.
func owner(pk string, workers int) (worker int, own bool, err error) {
	name, _, own := strings.Cut(pk, "/")
	digits, ok := strings.CutPrefix(name, "w")
	worker, err = strconv.Atoi(digits)
	if !ok || err != nil || worker < 0 || worker >= workers {
		return 0, false, fmt.Errorf("a partition %q that nobody has written", pk)
	}
	return worker, own, nil
}

// locate finds the step after which a worker has exactly these items and this counter.
func locate(seed uint64, base *progress, floor, counter int, items map[string]string,
) (progress, error) {
	p := base.clone()
	if counter < p.count {
		return p, fmt.Errorf("its counter went back from step %d to %d", p.count, counter)
	}
	for p.num < counter {
		s := stepOf(seed, p.worker, p.num+1)
		p.apply(&s)
	}
	if p.count != counter {
		return p, fmt.Errorf("its counter is %d, which no step writes", counter)
	}
	// Steps without the counter may follow it.
	var hit *progress
	first := p.clone()
	for {
		if maps.Equal(p.items, items) {
			c := p.clone()
			hit = &c
		}
		s := stepOf(seed, p.worker, p.num+1)
		if s.counts() {
			break
		}
		p.apply(&s)
	}
	if hit == nil {
		return p, fmt.Errorf("no state from step %d to %d has these items: %s",
			first.num, p.num, difference(first.items, items))
	}
	if hit.num < floor {
		return p, fmt.Errorf("it is at step %d, but step %d was acknowledged", hit.num, floor)
	}
	return *hit, nil
}

// difference describes up to three differences.
func difference(want, got map[string]string) string {
	var words []string
	for k, v := range want {
		if w, ok := got[k]; !ok {
			words = append(words, fmt.Sprintf("%q is missing", k))
		} else if v != w {
			words = append(words, fmt.Sprintf("%q is %.40q, not %.40q", k, w, v))
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			words = append(words, fmt.Sprintf("%q is too many", k))
		}
	}
	if len(words) > 3 {
		words = append(words[:3], fmt.Sprintf("and %d more", len(words)-3))
	}
	return strings.Join(words, "; ")
}

func dbDir(dir string) string { return filepath.Join(dir, "db") }
