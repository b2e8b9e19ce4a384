package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
)

// optionsText shows the options that are numbers.
func optionsText(o *Options) string {
	return fmt.Sprint("durability ", o.Durability, ", memtables ", o.MemtableBytes, ", records ",
		o.FlushRecords, ", log ", o.LogBytes, ", cache ", o.CacheBytes, ", files ", o.MaxOpenFiles,
		", block ", o.BlockBytes, ", file ", o.FileBytes, ", codecs ", o.Compression, " ",
		o.BottomCompression, ", filter ", o.FilterBits, ", runs ", o.MaxRuns, ", rate ",
		o.CompactionBytesPerSecond)
}

func TestDefaultOptions(t *testing.T) {
	for _, c := range []struct {
		given *Options
		want  string
	}{
		{nil, "durability sync, memtables 67108864, records 0, log 201326592, cache 268435456, " +
			"files 4096, block 4096, file 67108864, codecs 4 4, filter 8, runs 4, rate 0"},
		{&Options{MemtableBytes: 1 << 20, Compression: LZ4, Durability: Process},
			"durability process, memtables 1048576, records 0, log 8388608, cache 268435456, " +
				"files 4096, block 4096, file 67108864, codecs 2 2, filter 8, runs 4, rate 0"},
		{&Options{Memory: 64 << 20},
			"durability sync, memtables 3145728, records 0, log 9437184, cache 8882055, " +
				"files 512, block 4096, file 6291456, codecs 4 4, filter 8, runs 4, rate 0"},
		{&Options{Memory: 1 << 30, CacheBytes: 1 << 20},
			"durability sync, memtables 87031808, records 0, log 261095424, cache 1048576, " +
				"files 4096, block 4096, file 67108864, codecs 4 4, filter 8, runs 4, rate 0"},
		{&Options{MemtableBytes: 3 << 20, BottomCompression: Zstd},
			"durability sync, memtables 3145728, records 0, log 9437184, cache 268435456, " +
				"files 4096, block 4096, file 67108864, codecs 4 3, filter 8, runs 4, rate 0"},
	} {
		got, err := c.given.withDefaults()
		if err != nil || optionsText(&got) != c.want {
			t.Errorf("%+v: got %s\nwant %s, %v", c.given, optionsText(&got), c.want, err)
		}
		if got.Logger == nil || got.Events == nil || got.Clock == nil {
			t.Error("an option that is nil has no default")
		}
		if want := max(1, runtime.GOMAXPROCS(0)/2); got.CompactionWorkers != want {
			t.Errorf("%d workers, want %d", got.CompactionWorkers, want)
		}
	}
}

// TestLimitsOfOptions: the last value that is accepted, and the next one, which is not.
func TestLimitsOfOptions(t *testing.T) {
	for name, c := range map[string]struct{ in, out func(*Options) }{
		"Durability": {func(o *Options) { o.Durability = 2 },
			func(o *Options) { o.Durability = 3 }},
		"Compression ": {func(o *Options) { o.Compression = 4 },
			func(o *Options) { o.Compression = 5 }},
		"BottomCompression": {func(o *Options) { o.BottomCompression = 4 },
			func(o *Options) { o.BottomCompression = 5 }},
		"Memory": {func(o *Options) { o.Memory = 64 << 20 },
			func(o *Options) { o.Memory = 64<<20 - 1 }},
		"MemtableBytes": {func(o *Options) { o.MemtableBytes = 1 << 20 },
			func(o *Options) { o.MemtableBytes = 1<<20 - 1 }},
		"FlushRecords": {func(o *Options) { o.FlushRecords = 0 },
			func(o *Options) { o.FlushRecords = -1 }},
		"LogBytes": {func(o *Options) { o.LogBytes = 8 << 20 },
			func(o *Options) { o.LogBytes = 8<<20 - 1 }},
		"CacheBytes": {func(o *Options) { o.CacheBytes = 1 },
			func(o *Options) { o.CacheBytes = -1 }},
		"MaxOpenFiles": {func(o *Options) { o.MaxOpenFiles = 16 },
			func(o *Options) { o.MaxOpenFiles = 15 }},
		"BlockBytes": {func(o *Options) { o.BlockBytes = 1 << 10 },
			func(o *Options) { o.BlockBytes = 1<<10 - 1 }},
		"BlockBytes ": {func(o *Options) { o.BlockBytes = 1 << 20 },
			func(o *Options) { o.BlockBytes = 1<<20 + 1 }},
		"FileBytes": {func(o *Options) { o.FileBytes = 64 << 10 },
			func(o *Options) { o.FileBytes = 64<<10 - 1 }},
		"FileBytes ": {func(o *Options) { o.FileBytes = 4 << 30 },
			func(o *Options) { o.FileBytes = 4<<30 + 1 }},
		"FilterBits": {func(o *Options) { o.FilterBits = 8 },
			func(o *Options) { o.FilterBits = 9 }},
		"FilterBits ": {func(o *Options) { o.FilterBits = 16 },
			func(o *Options) { o.FilterBits = 17 }},
		"FilterBits  ": {func(o *Options) { o.FilterBits = NoFilter },
			func(o *Options) { o.FilterBits = -2 }},
		"FilterBits   ": {func(o *Options) { o.FilterBits = -1 },
			func(o *Options) { o.FilterBits = 1 }},
		"MaxRuns":  {func(o *Options) { o.MaxRuns = 2 }, func(o *Options) { o.MaxRuns = 1 }},
		"MaxRuns ": {func(o *Options) { o.MaxRuns = 64 }, func(o *Options) { o.MaxRuns = 65 }},
		"CompactionWorkers": {func(o *Options) { o.CompactionWorkers = 1 },
			func(o *Options) { o.CompactionWorkers = -1 }},
		"CompactionBytesPerSecond": {func(o *Options) { o.CompactionBytesPerSecond = 0 },
			func(o *Options) { o.CompactionBytesPerSecond = -1 }},
	} {
		var in, out Options
		c.in(&in)
		c.out(&out)
		if _, err := in.withDefaults(); err != nil {
			t.Errorf("%s at its limit: %v", name, err)
		}
		_, err := out.withDefaults()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s beyond its limit: %v", name, err)
		}
	}
}

func TestNumbersOfBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "1023": 1023, "1024": 1024, "1KiB": 1 << 10, "3MiB": 3 << 20, "4GiB": 4 << 30,
		"0": 0, "-1": 0, "0KiB": 0, "": 0, "KiB": 0, "1.5KiB": 0, "x": 0, "1 KiB": 0,
		"9223372036854775807": math.MaxInt64, "9223372036854775808": 0,
		"8589934591GiB": 8589934591 << 30, "8589934592GiB": 0, "17179869185GiB": 0,
	} {
		got, ok := parseBytes(text)
		if ok != (want > 0) || ok && got != want {
			t.Errorf("%q is %d, %t, want %d", text, got, ok, want)
		}
	}
	for n, want := range map[int64]string{
		1: "1", 1023: "1023", 1 << 10: "1KiB", 1<<10 + 1: "1025", 3 << 20: "3MiB",
		1 << 30: "1GiB", 1<<30 + 1<<20: "1025MiB", 5 << 40: "5120GiB",
	} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// TestWordsOfSettings: the words are a format, and each means one value of its option.
func TestWordsOfSettings(t *testing.T) {
	var got strings.Builder
	for i := range settingKinds {
		k := &settingKinds[i]
		for _, w := range append(k.texts(), "5KiB", "90m", "0s", "none") {
			var o Options
			if err := o.Set(k.name, w); err != nil {
				continue
			}
			fmt.Fprintf(&got, "%s=%s: %d %d %d %d %d", k.name, k.format(k.get(&o)), o.Compression,
				o.BottomCompression, o.FilterBits, o.BlockBytes, o.FileBytes)
			if o.RetainBytes != 0 || o.RetainAge != 0 || o.RetainLimit != 0 ||
				o.ConsumerAge != 0 {
				fmt.Fprintf(&got, " %d %v %v %d", o.RetainBytes, o.RetainAge, o.ConsumerAge,
					o.RetainLimit)
			}
			if o.LargeValue != 0 {
				fmt.Fprintf(&got, " %d", o.LargeValue)
			}
			if o.RetainVersions != 0 {
				fmt.Fprintf(&got, " %v", o.RetainVersions)
			}
			fmt.Fprintln(&got)
		}
	}
	const want = `compression=none: 1 0 0 0 0
compression=lz4: 2 0 0 0 0
compression=snappy: 4 0 0 0 0
compression=zstd: 3 0 0 0 0
compression=none: 1 0 0 0 0
bottom-compression=none: 0 1 0 0 0
bottom-compression=lz4: 0 2 0 0 0
bottom-compression=snappy: 0 4 0 0 0
bottom-compression=zstd: 0 3 0 0 0
bottom-compression=none: 0 1 0 0 0
filter-bits=none: 0 0 -1 0 0
filter-bits=8: 0 0 8 0 0
filter-bits=16: 0 0 16 0 0
filter-bits=none: 0 0 -1 0 0
block-bytes=5KiB: 0 0 0 5120 0
file-bytes=5KiB: 0 0 0 0 5120
large-value=5KiB: 0 0 0 0 0 5120
large-value=none: 0 0 0 0 0 -1
retain-bytes=5KiB: 0 0 0 0 0 5120 0s 0s 0
retain-bytes=none: 0 0 0 0 0 -1 0s 0s 0
retain-age=1h30m0s: 0 0 0 0 0 0 1h30m0s 0s 0
retain-age=none: 0 0 0 0 0 0 -1ns 0s 0
retain-age=none: 0 0 0 0 0 0 -1ns 0s 0
consumer-age=1h30m0s: 0 0 0 0 0 0 0s 1h30m0s 0
consumer-age=none: 0 0 0 0 0 0 0s -1ns 0
consumer-age=none: 0 0 0 0 0 0 0s -1ns 0
retain-limit=drop-consumers: 0 0 0 0 0 0 0s 0s 1
retain-limit=wait-for-consumers: 0 0 0 0 0 0 0s 0s 2
retain-versions=1h30m0s: 0 0 0 0 0 1h30m0s
retain-versions=none: 0 0 0 0 0 -1ns
retain-versions=none: 0 0 0 0 0 -1ns
`
	if got.String() != want {
		t.Errorf("got\n%s", &got)
	}
}

// TestStoredSettings: settings that cannot be read are damage of the manifest; those of a
// later version are not.
func TestStoredSettings(t *testing.T) {
	prop := func(value string) []byte {
		s := settings{}
		s = s.with(settingsProperty, []byte(value))
		blob, err := s.encode()
		ok(t, err)
		return blob
	}
	for _, c := range []struct {
		stored          []byte
		described, want string // the error's, "" for none
	}{
		{nil, "", ""},
		{prop(`{"compression":"lz4","filter-bits":"16"}`), "compression=lz4 filter-bits=16", ""},
		{prop(`{"later":"x"}`), "later=x", ""},
		{prop(`null`), "", ""},
		{[]byte("x"), "", "damage"},
		{prop("x"), "", "damage"},
		{prop(`{"compression":"brotli"}`), "compression=brotli", "version"},
		{prop(`{"!needed":"x"}`), "!needed=x", "version"},
		{prop(`{"block-bytes":"1"}`), "block-bytes=1", "version"},
	} {
		_, _, err := joinSettings(nil, c.stored)
		var damage *CorruptionError
		kind := ""
		if errors.As(err, &damage) {
			if kind = "damage"; damage.Version {
				kind = "version"
			}
			if damage.File != "manifest" || damage.Offset != -1 || damage.Got == "" {
				t.Errorf("%s: %+v", c.stored, damage)
			}
		}
		if kind != c.want || (err == nil) != (kind == "") {
			t.Errorf("%s: %v, want %q", c.stored, err, c.want)
		}
		if got := describeSettings(c.stored); got != c.described && kind != "damage" ||
			kind == "damage" && got != err.Error() {
			t.Errorf("%s: described as %q", c.stored, got)
		}
	}
}
