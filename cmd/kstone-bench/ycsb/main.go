// Command ycsb runs the workloads A to F of go-ycsb, of other people's making, over kstone and
// over stores that go-ycsb has drivers of. It is a module of its own: go-ycsb needs old versions
// of them.
//
//	go run . -records 1000000 -ops 1000000 -threads 8 -stores kstone,badger,bolt -out ycsb.jsonl
//
// The command report of kstone-bench makes a page of the raw results.
//
// A few reads fail with every store: go-ycsb draws from one record more than there are. Every pair
// of a store and a workload begins with an empty directory. Bolt's driver syncs each write; with
// -sync the others do, too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/magiconair/properties"
	_ "github.com/pingcap/go-ycsb/db/badger"
	_ "github.com/pingcap/go-ycsb/db/boltdb"
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	"github.com/pingcap/go-ycsb/pkg/prop"
	_ "github.com/pingcap/go-ycsb/pkg/workload"
	"github.com/pingcap/go-ycsb/pkg/ycsb"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	ycsbpage "github.com/kstonedb/kstone/cmd/kstone-bench/internal/ycsb"
)

// mixes are the properties of the core workloads. YCSB's requests are zipfian, and E scans up to
// 100 records; the files of go-ycsb say otherwise.
var mixes = map[string]string{
	"A": "readproportion=0.5 updateproportion=0.5",
	"B": "readproportion=0.95 updateproportion=0.05",
	"C": "readproportion=1 updateproportion=0",
	"D": "readproportion=0.95 updateproportion=0 insertproportion=0.05 requestdistribution=latest",
	"E": "readproportion=0 updateproportion=0 scanproportion=0.95 insertproportion=0.05 " +
		"maxscanlength=100 scanlengthdistribution=uniform",
	"F": "readproportion=0.5 updateproportion=0 readmodifywriteproportion=0.5",
}

type options struct {
	records, ops, threads int
	stores, workloads     string
	dir, raw              string
	sync                  bool
}

func main() {
	var o options
	flag.IntVar(&o.records, "records", 100_000, "`number` of records of 10 fields of 100 bytes")
	flag.IntVar(&o.ops, "ops", 100_000, "`number` of operations")
	flag.IntVar(&o.threads, "threads", 2, "`number` of goroutines")
	flag.StringVar(&o.stores, "stores", "kstone,badger,bolt",
		"`names`: kstone, kstone-partition (all records in one partition), badger, bolt")
	flag.StringVar(&o.workloads, "workloads", "ABCDEF", "`letters`")
	flag.StringVar(&o.dir, "dir", "", "`directory` of the databases; default: a temporary one")
	flag.StringVar(&o.raw, "out", "ycsb.jsonl", "`file` that gets the raw results")
	flag.BoolVar(&o.sync, "sync", false, "acknowledge writes when they are durable")
	flag.Parse()
	if err := o.run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ycsb:", err)
		os.Exit(1)
	}
}

func (o *options) run(out io.Writer) error {
	if flag.NArg() > 0 || o.records < o.threads || o.ops < o.threads || o.threads < 1 {
		return fmt.Errorf("%d goroutines need as many records and operations, and no arguments",
			o.threads)
	}
	for _, w := range o.workloads {
		if mixes[string(w)] == "" {
			return fmt.Errorf("workload %c: there are A to F", w)
		}
	}
	dir, err := os.MkdirTemp(o.dir, "ycsb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f, err := os.Create(o.raw)
	if err != nil {
		return err
	}
	return errors.Join(o.measure(dir, f, out), f.Close())
}

// measure runs every workload over every store, and writes raw results.
func (o *options) measure(dir string, raw, out io.Writer) error {
	w, err := result.NewWriter(raw, o.meta())
	for _, letter := range strings.Split(o.workloads, "") {
		for _, store := range strings.Split(o.stores, ",") {
			if err != nil {
				return err
			}
			r := result.Record{Table: ycsbpage.Table, Case: letter, Engine: store,
				Goroutines: o.threads}
			if r.Figures, err = o.one(filepath.Join(dir, store), store, letter); err != nil {
				return fmt.Errorf("%s, workload %s: %w", store, letter, err)
			}
			fmt.Fprintln(out, r)
			err = w.Add(r)
		}
	}
	if err == nil {
		err = w.End()
	}
	return err
}

// modules are those whose versions identify the stores.
var modules = map[string]string{
	"badger": "github.com/dgraph-io/badger", "bolt": "github.com/boltdb/bolt",
	"kstone-partition": "github.com/kstonedb/kstone",
}

// meta describes the run and the stores.
func (o *options) meta() result.Meta {
	m := result.NewMeta("ycsb")
	m.Command = append([]string{"ycsb"}, m.Command...) // a page begins them with kstone-bench
	m.Rounds, m.Records, m.ValueBytes = 1, uint64(o.records), 1000
	for _, store := range strings.Split(o.stores, ",") {
		note := "unsynced writes"
		if o.sync || store == "bolt" {
			note = "synced writes"
		}
		if store == "kstone-partition" {
			note += ", all records in one partition"
		}
		m.Describe(store, modules[store], note)
	}
	return m
}

// one loads a store and runs a workload over it.
func (o *options) one(dir, store, letter string) (f result.Figures, err error) {
	name, _, _ := strings.Cut(store, "-")
	create := ycsb.GetDBCreator(map[string]string{"bolt": "boltdb"}[name])
	if create == nil {
		create = ycsb.GetDBCreator(name)
	}
	if create == nil {
		return nil, fmt.Errorf("no such store")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p := o.properties(dir, store, letter)
	measurement.InitMeasure(p)
	db, err := create.Create(p)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := db.Close(); err == nil {
			err = cerr
		}
	}()
	work, err := ycsb.GetWorkloadCreator("core").Create(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = work.Close() }()
	load := o.phase(p, work, &measured{DB: db}, false, o.records)
	run := &measured{DB: db}
	rate := o.phase(p, work, run, true, o.ops)
	f = run.figures()
	f[ycsbpage.LoadPerSecond], f[result.PerSecond] = load, rate
	return f, nil
}

// phase loads, or runs operations, and returns how many a second.
func (o *options) phase(p *properties.Properties, work ycsb.Workload, db ycsb.DB, run bool,
	n int) float64 {
	p.MustSet(prop.DoTransactions, strconv.FormatBool(run))
	start := time.Now()
	client.NewClient(p, work, db).Run(context.Background())
	return float64(n) / time.Since(start).Seconds()
}

// properties are those of go-ycsb.
func (o *options) properties(dir, store, letter string) *properties.Properties {
	text := "workload=core readallfields=true requestdistribution=zipfian silence=true " +
		"scanproportion=0 insertproportion=0 measurement.interval=3600 " + mixes[letter]
	p := properties.NewProperties()
	set := func(name string, value any) { p.MustSet(name, fmt.Sprint(value)) }
	for _, pair := range strings.Fields(text) {
		name, value, _ := strings.Cut(pair, "=")
		set(name, value)
	}
	set(prop.RecordCount, o.records)
	set(prop.OperationCount, o.ops)
	set(prop.ThreadCount, o.threads)
	set("badger.dir", dir)
	set("badger.sync_writes", o.sync)
	set("bolt.path", filepath.Join(dir, "bolt"))
	set(propDir, dir)
	set(propSync, o.sync)
	set(propPartition, slices.Contains(strings.Split(store, "-"), "partition"))
	return p
}
