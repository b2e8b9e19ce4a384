package engine_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// Every call that takes a context reports a nil one as an invalid argument.
func TestNilContext(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pk("p"), nil))
	s, err := db.Snapshot()
	ok(t, err)
	defer func() { ok(t, s.Close()) }()
	calls := withNilContext(t, db) + withNilContext(t, s)
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		calls += withNilContext(t, tx)
		return nil
	}))
	tx := begin(t, db, nil)
	ok(t, tx.Put(pk("q"), nil))
	//lint:ignore SA1012 the error of it is what is tested
	wantIs(t, tx.Commit(nil), engine.ErrInvalid)
	ok(t, db.Put(pk("q"), nil)) // no lock is left
	if calls < 30 {
		t.Errorf("%d methods with a context were found", calls)
	}
	//lint:ignore SA1012 the error of it is what is tested
	_, err = engine.Repair(nil, t.TempDir(), t.TempDir(), nil, nil)
	wantIs(t, err, engine.ErrInvalid)
}

// withNilContext calls the methods of v whose first parameter is a context with nil, and
// returns how many there are.
func withNilContext(t *testing.T, v any) (calls int) {
	t.Helper()
	ctxType := reflect.TypeFor[context.Context]()
	for i := range reflect.TypeOf(v).NumMethod() {
		m, name := reflect.ValueOf(v).Method(i), reflect.TypeOf(v).Method(i).Name
		if m.Type().NumIn() == 0 || m.Type().In(0) != ctxType {
			continue
		}
		calls++
		var args []reflect.Value
		in := m.Type().NumIn()
		if m.Type().IsVariadic() {
			in--
		}
		for j := range in {
			args = append(args, argument(m.Type().In(j)))
		}
		out := m.Call(args)
		err := errorOf(out[len(out)-1])
		if !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%T.%s with a nil context: %v", v, name, err)
		}
	}
	return calls
}

// argument returns a value that a call takes: zero but for what must not be.
func argument(t reflect.Type) reflect.Value {
	switch t {
	case reflect.TypeFor[engine.Query]():
		return reflect.ValueOf(engine.Query{PK: []byte("p")})
	case reflect.TypeFor[engine.Gather]():
		return reflect.ValueOf(engine.Gather{PKs: [][]byte{[]byte("p")}})
	case reflect.TypeFor[engine.Sample]():
		return reflect.ValueOf(engine.Sample{Parts: 1})
	case reflect.TypeFor[[]engine.Key]():
		return reflect.ValueOf([]engine.Key{pk("p")})
	case reflect.TypeFor[*engine.Batch]():
		return reflect.ValueOf(engine.NewBatch())
	case reflect.TypeFor[*engine.Results]():
		return reflect.ValueOf(new(engine.Results))
	case reflect.TypeFor[string]():
		return reflect.ValueOf("copy")
	}
	return reflect.Zero(t)
}

// errorOf returns the error of a call's last result: that itself, or what an iteration over it
// yields first.
func errorOf(result reflect.Value) error {
	if result.Kind() == reflect.Func {
		for _, err := range result.Seq2() {
			failed, _ := err.Interface().(error)
			return failed
		}
		return nil
	}
	err, _ := result.Interface().(error)
	return err
}
