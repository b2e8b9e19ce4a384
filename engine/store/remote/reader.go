package remote

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/kstonedb/kstone/engine/store"
)

// Reader is a store.Reader over the views of a store.
type Reader struct {
	Layout Layout
	// Now is the clock that items expire by.
	Now func() time.Time
	// View returns a view for one read, and what ends it. If point is set, only the Get of a single
	// key is called, for which a store need not fix the moment.
	View func(ctx context.Context, point bool) (v View, end func(), err error)
	// Ahead says whether a scan reads on while its caller works.
	Ahead Ahead
}

var _ interface {
	store.Reader
	store.ItemReader
	store.ExpiredReader
} = (*Reader)(nil)

// Get implements store.Reader.
func (r *Reader) Get(ctx context.Context, dst []byte, key store.Key) ([]byte, error) {
	it, err := r.get(ctx, key)
	if err != nil {
		return dst, err
	}
	if dst == nil {
		dst = make([]byte, 0, len(it.Value))
	}
	return append(dst, it.Value...), nil
}

// GetItem implements store.ItemReader.
func (r *Reader) GetItem(ctx context.Context, key store.Key) (store.Item, error) {
	it, err := r.get(ctx, key)
	return it.Clone(), err
}

// get returns the item of key, which is that of the caller.
func (r *Reader) get(ctx context.Context, key store.Key) (store.Item, error) {
	if err := cmp.Or(store.CheckContext(ctx), key.Validate()); err != nil {
		return store.Item{}, err
	}
	v, end, err := r.View(ctx, true)
	if err != nil {
		return store.Item{}, err
	}
	defer end()
	pairs, err := v.Get(ctx, [][]byte{r.Layout.AppendKey(nil, key)})
	if err != nil {
		return store.Item{}, err
	}
	it, ok, err := item(pairs[0], r.Now())
	if err == nil && !ok {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Item{}, err
	}
	it.Key = key
	return it, nil
}

// MultiGet implements store.Reader.
func (r *Reader) MultiGet(
	ctx context.Context, keys []store.Key, found func(i int, it store.Item),
) error {
	return r.multiGet(ctx, keys, false, found)
}

// MultiGetExpired implements store.ExpiredReader.
func (r *Reader) MultiGetExpired(
	ctx context.Context, keys []store.Key, found func(i int, it store.Item),
) error {
	return r.multiGet(ctx, keys, true, found)
}

func (r *Reader) multiGet(
	ctx context.Context, keys []store.Key, expired bool, found func(i int, it store.Item),
) error {
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	encoded := make([][]byte, len(keys))
	for i, key := range keys {
		if err := key.Validate(); err != nil {
			return err
		}
		encoded[i] = r.Layout.AppendKey(nil, key)
	}
	v, end, err := r.View(ctx, len(keys) == 1)
	if err != nil {
		return err
	}
	defer end()
	if len(keys) == 0 {
		return nil
	}
	pairs, err := v.Get(ctx, encoded)
	if err != nil {
		return err
	}
	now := r.Now()
	for i, p := range pairs {
		it, ok, err := item(p, now)
		if err != nil {
			return err
		}
		if ok || expired && p.Value != nil {
			it.Key = keys[i]
			found(i, it)
		}
	}
	return nil
}

// Scan implements store.Reader.
func (r *Reader) Scan(ctx context.Context, rg store.Range) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		if err := r.scan(ctx, &rg, yield); err != nil {
			yield(store.Item{}, err)
		}
	}
}

func (r *Reader) scan(
	ctx context.Context, rg *store.Range, yield func(store.Item, error) bool,
) error {
	if err := cmp.Or(store.CheckContext(ctx), rg.Validate()); err != nil {
		return err
	}
	if rg.Kind == store.KindPoint {
		it, err := r.get(ctx, rg.Key)
		switch {
		case err == store.ErrNotFound: //nolint:errorlint // it is that of get
			return nil
		case err == nil && (rg.Filter == nil || rg.Filter(it)):
			yield(it, nil)
		}
		return err
	}
	v, end, err := r.View(ctx, false)
	if err != nil {
		return err
	}
	defer end()
	return newScan(r, rg, v).all(ctx, yield)
}
