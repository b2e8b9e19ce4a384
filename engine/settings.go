package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Settings are the options that say how files are written: codecs, filters, sizes. They
// belong to the database, not to the program that has it open. Why: a program that opens it
// without options, or an administrator's tool, would else rewrite a database in the
// defaults at the next merge.
//
// An option that is not zero is chosen. What is chosen is stored: in the first snapshot of
// the manifest when the database is created, in an edit of its own when Open changes it. A
// crash leaves the old settings or the new ones. Open fills options that are zero from what
// is stored, and only then with the defaults. Reading programs write nothing: for them the
// options are those of the database.
//
// Format: the settings are the property without a name, which SetProperty and Property
// refuse. Why a property: programs that know nothing of settings keep it, too. Its value is
// a JSON object of names and values, in the words of settingKinds. Names that this program
// does not know stay as they are; one that begins with requiredMark must be known.

const (
	settingsProperty = ""
	requiredMark     = "!"

	// historyMark begins the names of what the engine notes about the history beside the settings:
	// historySince the first version it is known for, historyConsumer and a name the position
	// of a consumer, historyFloor the oldest version that can be read at.
	historyMark     = "history "
	historySince    = historyMark + "since"
	historyConsumer = historyMark + "consumer "
	historyFloor    = historyMark + "versions"

	noneWord = "none"
)

// Setting is an option that belongs to the database.
type Setting struct {
	Name  string // as Options.Set takes it
	Value string // in use
	// Chosen reports whether Value is stored in the database. If not, it is the default of
	// this version of kstone.
	Chosen bool
	// Lost reports whether Value is in use, but not what the database stores: the disk was full.
	Lost bool
	// Values are the words that Value can be; nil means a number of bytes, such as 4096,
	// 4KiB or 64MiB, or a time such as 24h, or the word none, of retain-bytes and the ages.
	Values  []string
	Meaning string
}

// settingKind is how a setting is read from Options, set and spelt.
type settingKind struct {
	name, meaning string
	words         []settingWord // nil: a number of bytes, or a duration
	unit          settingUnit
	stored        string // name on disk, if another
	note          string // that goes with it when it becomes none
	get           func(*Options) int64
	set           func(*Options, int64)
}

// settingUnit is what a setting without words is a number of.
type settingUnit uint8

const (
	inBytes       settingUnit = iota
	inBytesOrNone             // none is -1, and not stored
	inTimeOrNone              // a duration; none, or 0, is -1, and not stored
)

// settingWord is a value and its name.
type settingWord struct {
	text  string
	value int64
}

var (
	codecWords = []settingWord{
		{"none", int64(NoCompression)}, {"lz4", int64(LZ4)}, {"snappy", int64(Snappy)},
		{"zstd", int64(Zstd)},
	}
	filterWords = []settingWord{{"none", NoFilter}, {"8", 8}, {"16", 16}}
	limitWords  = []settingWord{
		{"drop-consumers", int64(DropConsumers)}, {"wait-for-consumers", int64(WaitForConsumers)},
	}
)

// settingKinds are all settings. On disk: names and words never change their meaning.
var settingKinds = []settingKind{
	settingAt("compression", "codec of data blocks", codecWords,
		func(o *Options) *Compression { return &o.Compression }),
	settingAt("bottom-compression", "codec of old data, written by merges with the oldest run",
		codecWords, func(o *Options) *Compression { return &o.BottomCompression }),
	settingAt("filter-bits", "bits a key of the filters of data files", filterWords,
		func(o *Options) *int { return &o.FilterBits }),
	settingAt("block-bytes", "size of data blocks before compression", nil,
		func(o *Options) *int { return &o.BlockBytes }),
	settingAt("file-bytes", "size at which a merge starts its next data file", nil,
		func(o *Options) *int64 { return &o.FileBytes }),
	largeValueSetting(),
	retainBytesSetting(),
	durationAt("retain-age", "age up to which log that no consumer needs is retained",
		func(o *Options) *time.Duration { return &o.RetainAge }),
	durationAt("consumer-age", "age up to which log is retained for consumers; none is any",
		func(o *Options) *time.Duration { return &o.ConsumerAge }),
	settingAt("retain-limit", "what gives way when consumers need more than retain-bytes",
		limitWords, func(o *Options) *RetainLimit { return &o.RetainLimit }),
	retainVersionsSetting(),
}

func largeValueSetting() settingKind {
	k := settingAt("large-value", "size from which values are kept apart from their keys", nil,
		func(o *Options) *int { return &o.LargeValue })
	k.unit = inBytesOrNone
	return k
}

// retainBytesSetting is stored with the mark that stops programs which do not know it: they
// would remove what is retained.
func retainBytesSetting() settingKind {
	k := settingAt("retain-bytes", "most bytes of log that is retained for change streams", nil,
		func(o *Options) *int64 { return &o.RetainBytes })
	k.unit, k.stored, k.note = inBytesOrNone, requiredMark+k.name, historySince
	return k
}

// retainVersionsSetting has the mark, since other programs would merge without keeping versions.
func retainVersionsSetting() settingKind {
	k := durationAt("retain-versions", "age up to which the database can be read as it was",
		func(o *Options) *time.Duration { return &o.RetainVersions })
	k.stored, k.note = requiredMark+k.name, historyFloor
	return k
}

func durationAt(name, meaning string, at func(*Options) *time.Duration) settingKind {
	k := settingAt(name, meaning, nil, at)
	k.unit = inTimeOrNone
	return k
}

func (k *settingKind) orNone() bool { return k.unit != inBytes }

// onDisk returns the name that the setting is stored by.
func (k *settingKind) onDisk() string { return cmp.Or(k.stored, k.name) }

func settingAt[T ~int | ~int64 | ~uint8](
	name, meaning string, words []settingWord, at func(*Options) *T,
) settingKind {
	return settingKind{
		name: name, meaning: meaning, words: words,
		get: func(o *Options) int64 { return int64(*at(o)) },
		set: func(o *Options, v int64) { *at(o) = T(v) },
	}
}

// parse returns the value that text names. Whether it is in range is checked with the other
// options.
func (k *settingKind) parse(text string) (int64, error) {
	switch {
	case k.orNone() && text == noneWord:
		return NoRetention, nil
	case k.unit == inTimeOrNone:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%q is not a time, such as 90s, 15m or 24h", text)
		}
		if d == 0 {
			return NoRetention, nil
		}
		return int64(d), nil
	case k.words == nil:
		n, ok := parseBytes(text)
		var o Options
		if k.set(&o, n); !ok || k.get(&o) != n { // an int may have 32 bits
			return 0, fmt.Errorf("%q is not a number of bytes, such as 4096, 4KiB or 64MiB", text)
		}
		return n, nil
	}
	for _, w := range k.words {
		if w.text == text {
			return w.value, nil
		}
	}
	return 0, fmt.Errorf("%q is not one of %s", text, strings.Join(k.texts(), ", "))
}

// format is the inverse of parse.
func (k *settingKind) format(v int64) string {
	for _, w := range k.words {
		if w.value == v {
			return w.text
		}
	}
	switch {
	case k.orNone() && v <= 0:
		return noneWord
	case k.unit == inTimeOrNone:
		return time.Duration(v).String()
	}
	return formatBytes(v)
}

func (k *settingKind) texts() (texts []string) {
	for _, w := range k.words {
		texts = append(texts, w.text)
	}
	return texts
}

var byteUnits = []settingWord{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// parseBytes parses a positive number with or without a unit.
func parseBytes(text string) (n int64, ok bool) {
	for _, u := range byteUnits {
		digits, has := strings.CutSuffix(text, u.text)
		if !has {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		in := n * u.value
		return in, err == nil && n > 0 && in/u.value == n
	}
	return 0, false
}

// formatBytes writes n in the largest unit that divides it.
func formatBytes(n int64) string {
	for _, u := range byteUnits {
		if n%u.value == 0 {
			return strconv.FormatInt(n/u.value, 10) + u.text
		}
	}
	return ""
}

// Set changes the option that the named setting is (see DefaultSettings for the names).
// Open checks what is out of range.
func (o *Options) Set(name, value string) error {
	var names []string
	for i := range settingKinds {
		k := &settingKinds[i]
		if k.name != name {
			names = append(names, k.name)
			continue
		}
		v, err := k.parse(value)
		if err != nil {
			return invalid("setting %s: %v", name, err)
		}
		k.set(o, v)
		return nil
	}
	return invalid("setting %q is unknown, there are %s", name, strings.Join(names, ", "))
}

// DefaultSettings returns the settings of a database for which nothing is chosen.
func DefaultSettings() []Setting {
	o, _ := (*Options)(nil).withDefaults() // the defaults are valid
	return settingsOf(&o, nil)
}

// Settings returns the settings of the database: what is in use, and what of it is stored.
func (db *DB) Settings() []Setting {
	chosen := map[string]string{}
	stored := db.upkeep.State().Settings
	if s, err := decodeSettings(stored); err == nil {
		chosen, _ = s.chosen() // Open has read them
	}
	all := settingsOf(&db.opts, chosen)
	if o, _, err := joinSettings(nil, stored); err == nil {
		for i := range settingKinds {
			k := &settingKinds[i]
			all[i].Lost = k.get(&o) != k.get(&db.opts)
		}
	}
	return all
}

func settingsOf(o *Options, chosen map[string]string) (all []Setting) {
	for i := range settingKinds {
		k := &settingKinds[i]
		s := Setting{
			Name: k.name, Value: k.format(k.get(o)), Values: k.texts(), Meaning: k.meaning,
		}
		s.Chosen = chosen[k.onDisk()] == s.Value
		all = append(all, s)
	}
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		if !known(name) && !strings.HasPrefix(name, historyMark) {
			all = append(all, Setting{
				Name: name, Value: chosen[name], Chosen: true, Meaning: "unknown to this version",
			})
		}
	}
	return all
}

func known(name string) bool {
	return slices.ContainsFunc(settingKinds, func(k settingKind) bool {
		return k.onDisk() == name
	})
}

// chosen returns the settings that are stored.
func (s *settings) chosen() (map[string]string, error) {
	chosen := map[string]string{}
	if blob := s.Properties[settingsProperty]; blob != nil {
		if err := json.Unmarshal(blob, &chosen); err != nil {
			return nil, &CorruptionError{
				File: "manifest", Offset: -1, What: "settings", Want: "JSON", Got: err.Error(),
			}
		}
	}
	if chosen == nil { // JSON's null
		chosen = map[string]string{}
	}
	return chosen, nil
}

// joinSettings joins o with what the manifest stores: options that are zero are taken from there.
// It returns the options to work with, and what the manifest has to store, which is stored
// itself if it says the same already. Requires: o is valid.
func joinSettings(o *Options, stored []byte) (opts Options, store []byte, err error) {
	if o != nil {
		opts = *o
	}
	all, err := decodeSettings(stored)
	if err != nil {
		return opts, nil, err
	}
	chosen, err := all.chosen()
	if err != nil {
		return opts, nil, err
	}
	changed := false
	for i := range settingKinds {
		k := &settingKinds[i]
		name := k.onDisk()
		old, there := chosen[name]
		if v := k.get(&opts); v != 0 && !opts.ReadOnly {
			if v == NoRetention && k.orNone() {
				delete(chosen, name)
				delete(chosen, k.note)
			} else {
				chosen[name] = k.format(v)
			}
			changed = changed || chosen[name] != old
			continue
		}
		k.set(&opts, 0)
		if !there {
			continue
		}
		v, err := k.parse(old)
		if err != nil {
			return opts, nil, laterSetting(k.name, err.Error())
		}
		k.set(&opts, v)
	}
	for name := range chosen {
		if strings.HasPrefix(name, requiredMark) && !known(name) {
			return opts, nil, laterSetting(name, chosen[name])
		}
	}
	if opts, err = opts.withDefaults(); err != nil {
		return opts, nil, laterSetting("out of range", err.Error())
	}
	if changed {
		stored, err = all.withChosen(chosen)
	}
	return opts, stored, err
}

// takeSettings makes the options of an open database those of o and state, and returns the
// settings to be stored.
func (db *DB) takeSettings(o *Options, state *manifest.State) (store []byte, err error) {
	opts, store, err := joinSettings(o, state.Settings)
	if err != nil {
		return nil, fmt.Errorf("engine: open: %w", err)
	}
	db.opts = opts
	return store, nil
}

// laterSetting reports a stored setting that this version cannot use.
func laterSetting(name, got string) error {
	return &CorruptionError{
		File: "manifest", Offset: -1, What: "setting " + name,
		Want: "what this version knows; another value can be chosen with Options", Got: got,
		Version: true,
	}
}

// withChosen returns s with other settings, as the manifest stores it.
func (s *settings) withChosen(chosen map[string]string) ([]byte, error) {
	value, err := json.Marshal(chosen)
	if err != nil {
		return nil, fmt.Errorf("engine: settings: %w", err)
	}
	next := s.with(settingsProperty, value)
	return next.encode()
}

// storeSettings makes the settings durable if they are not what is stored. On a full disk
// they are in force but not stored: the next Open tries again. Why not so if the past is kept from
// now on, or no more: merges would drop versions, and a later Open would read the past from the
// stored floor on.
func (db *DB) storeSettings(store []byte) error {
	stored := db.upkeep.State().Settings
	if string(store) == string(stored) {
		return nil
	}
	err := db.upkeep.Edit(func(*manifest.State) *manifest.Edit {
		return &manifest.Edit{Settings: store}
	})
	before, _, _ := joinSettings(nil, stored)
	same := before.RetainVersions > 0 == (db.opts.RetainVersions > 0)
	if errors.Is(err, vfs.ErrNoSpace) && same {
		db.opts.Logger.Warn("settings are not stored", "err", err)
		return nil
	}
	return err
}

// describeSettings says for inspect what is chosen.
func describeSettings(blob []byte) string {
	s, err := decodeSettings(blob)
	if err != nil {
		return err.Error()
	}
	chosen, err := s.chosen()
	if err != nil {
		return err.Error()
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		words = append(words, name+"="+chosen[name])
	}
	return strings.Join(words, " ")
}
