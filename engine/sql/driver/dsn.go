package driver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/table"
)

// memory is the path of databases in memory.
const memory = ":memory:"

// source is a data source name.
type source struct {
	path   string // absolute, or memory
	engine engine.Options
	table  table.Options
	// text are the options in one form: equal texts are equal options.
	text string
}

// option sets an option. The error says what values are possible.
type option func(s *source, value string) error

var options = map[string]option{
	"mode": func(s *source, value string) error {
		return choose(value, map[string]func(){"create": func() {},
			"rw": func() { s.engine.MustExist = true },
			"ro": func() { s.engine.MustExist, s.engine.ReadOnly = true, true }})
	},
	"durability": func(s *source, value string) error {
		return choose(value, map[string]func(){
			"sync":    func() { s.engine.Durability = engine.Sync },
			"process": func() { s.engine.Durability = engine.Process }})
	},
	"full_scan": func(s *source, value string) error {
		return choose(value, map[string]func(){
			"allow":  func() { s.table.RefuseFullScan = false },
			"refuse": func() { s.table.RefuseFullScan = true }})
	},
	"cache_bytes": func(s *source, value string) error {
		return number(value, &s.engine.CacheBytes)
	},
	"memtable_bytes": func(s *source, value string) error {
		return number(value, &s.engine.MemtableBytes)
	},
	"query_bytes": func(s *source, value string) error {
		return number(value, &s.table.MemoryBytes)
	},
	"retain_versions": func(s *source, value string) error {
		return duration(value, &s.engine.RetainVersions)
	},
	"tx_age": func(s *source, value string) error {
		return duration(value, &s.table.MaxTxAge)
	},
	"workers": func(s *source, value string) error {
		var n int64
		err := number(value, &n)
		s.table.Workers = int(n)
		return err
	},
}

func choose(value string, choices map[string]func()) error {
	set := choices[value]
	if set == nil {
		return fmt.Errorf("is not %s", strings.Join(slices.Sorted(maps.Keys(choices)), ", "))
	}
	set()
	return nil
}

func number(value string, n *int64) (err error) {
	if *n, err = strconv.ParseInt(value, 10, 63); err != nil || *n < 1 {
		return errors.New("is not a number above zero")
	}
	return nil
}

func duration(value string, d *time.Duration) (err error) {
	if *d, err = time.ParseDuration(value); err != nil || *d <= 0 {
		return errors.New("is not a duration like 90s or 10m")
	}
	return nil
}

// resolved returns a path without symbolic links. Its end need not exist: it is the same
// before the database is created and after.
func resolved(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if dir := filepath.Dir(path); err != nil && dir != path {
		return filepath.Join(resolved(dir), filepath.Base(path))
	}
	return cmp.Or(real, path)
}

// parse reads a data source name.
func parse(name string) (*source, error) {
	path, query, _ := strings.Cut(name, "?")
	if path == "" {
		return nil, errors.New("kstone: the data source name has no directory; write " +
			"path?option=value, or :memory: without one")
	}
	s := &source{path: path}
	if s.engine.InMemory = path == memory; !s.engine.InMemory {
		var err error
		if s.path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("kstone: %w", err)
		}
		s.path = resolved(s.path)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("kstone: options of the data source name: %w", err)
	}
	for name, all := range values {
		set := options[name]
		if set == nil {
			return nil, fmt.Errorf("kstone: there is no option %q; there are: %s", name,
				strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		if len(all) > 1 {
			return nil, fmt.Errorf("kstone: option %s is given %d times", name, len(all))
		}
		if err := set(s, all[0]); err != nil {
			return nil, fmt.Errorf("kstone: option %s: %q %w", name, all[0], err)
		}
	}
	s.text = values.Encode()
	return s, nil
}
